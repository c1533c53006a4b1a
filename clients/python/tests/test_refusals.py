"""Every middleware, here and in the client for Node, denies with the same bytes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from flask import Flask
from starlette.applications import Starlette
from starlette.routing import Route
from support import CHECKOUT, DEADLINE, Handler, wrong_server

from tidegate import SyncTidegate, Tidegate
from tidegate.asgi import RateLimitMiddleware
from tidegate.fastapi import rate_limit
from tidegate.flask import RateLimit

pytestmark = pytest.mark.anyio
ROWS: list[dict[str, Any]] = json.loads((CHECKOUT / "testdata/clients/refusals.json").read_text())


def reply(row: dict[str, Any]) -> Handler:
    body = json.dumps(row["reply"]["body"])
    headers = "".join(f"{name}: {value}\r\n" for name, value in row["reply"]["headers"].items())
    answer = f"HTTP/1.1 {row['reply']['status']} Told\r\n{headers}content-length: {len(body)}\r\n\r\n{body}"

    async def handle(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer.encode())
        await writer.drain()

    return handle


def test_there_are_refusals_to_compare() -> None:
    assert len(ROWS) == 3


@pytest.fixture(params=ROWS, ids=[row["name"] for row in ROWS])
def row(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.param
    return found


def is_as_told(answer: httpx.Response, row: dict[str, Any]) -> None:
    told = (answer.status_code, answer.text, answer.headers.get("retry-after"))
    assert told == (row["status"], row["body"], row["retry_after"])
    assert answer.headers["content-type"] == "application/json"


async def get(app: Any) -> httpx.Response:  # noqa: ANN401
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app, client=("192.0.2.7", 1)), base_url="http://app"
    ) as http:
        return await http.get("/")


async def test_asgi_denies_as_all_do(row: dict[str, Any]) -> None:
    async with wrong_server(reply(row)) as url, Tidegate(url, timeout=DEADLINE) as client:
        app = Starlette(routes=[Route("/", lambda _: JSONResponse("hello"))])
        is_as_told(await get(RateLimitMiddleware(app, client=client, policy="p")), row)


async def test_fastapi_denies_as_all_do(row: dict[str, Any]) -> None:
    async with wrong_server(reply(row)) as url, Tidegate(url, timeout=DEADLINE) as client:
        app = FastAPI()
        app.get("/", dependencies=[Depends(rate_limit("p", client=client))])(lambda: "hello")
        is_as_told(await get(app), row)


async def test_flask_denies_as_all_do(row: dict[str, Any]) -> None:
    async with wrong_server(reply(row)) as url:
        with SyncTidegate(url, timeout=DEADLINE) as client:
            app = Flask(__name__)
            app.before_request(RateLimit("p", client=client).check)

            def ask() -> httpx.Response:
                with httpx.Client(transport=httpx.WSGITransport(app), base_url="http://app") as http:
                    return http.get("/")

            is_as_told(await asyncio.to_thread(ask), row)


async def test_an_application_with_its_own_handler_answers_itself() -> None:
    async with wrong_server(reply(ROWS[0])) as url, Tidegate(url, timeout=DEADLINE) as client:
        app = FastAPI()
        app.get("/", dependencies=[Depends(rate_limit("p", client=client))])(lambda: "hello")

        async def mine(_: Request, error: Exception) -> JSONResponse:
            assert isinstance(error, HTTPException)
            return JSONResponse({"mine": error.detail}, error.status_code, error.headers)

        app.add_exception_handler(HTTPException, mine)
        answer = await get(app)
    assert answer.json() == {"mine": "Rate limit exceeded. Retry after 7 seconds."}
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
