"""Pages of other origins: their preflights are free, and they can read a 429."""

from __future__ import annotations

import httpx
import pytest
from flask import Flask
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from support import DEADLINE, Server, serving

from tidegate import SyncTidegate, Tidegate
from tidegate.asgi import RateLimitMiddleware
from tidegate.flask import RateLimit

ORIGIN = "https://page.example"
PREFLIGHT = {"origin": ORIGIN, "access-control-request-method": "GET"}


def application(client: Tidegate, key: str, *, cors_first: bool) -> Starlette:
    middleware = [
        Middleware(CORSMiddleware, allow_origins=[ORIGIN]),
        Middleware(RateLimitMiddleware, client=client, policy="few", key=key),
    ]
    routes = [Route("/", lambda _: PlainTextResponse("hello"))]
    return Starlette(routes=routes, middleware=middleware if cors_first else middleware[::-1])


@pytest.mark.anyio
async def test_a_page_can_read_a_429_and_its_preflights_are_free(client: Tidegate, key: str) -> None:
    app = application(client, key, cors_first=True)
    async with serving(app) as url, httpx.AsyncClient(base_url=url, timeout=DEADLINE) as http:
        asked = [await http.options("/", headers=PREFLIGHT) for _ in range(5)]
        answers = [await http.get("/", headers={"origin": ORIGIN}) for _ in range(4)]
    assert {answer.status_code for answer in asked} == {200}
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    allowed = {answer.headers["access-control-allow-origin"] for answer in (*asked, *answers)}
    assert allowed == {ORIGIN}


@pytest.mark.anyio
async def test_a_preflight_is_free_where_the_limiter_is_outermost(client: Tidegate, key: str) -> None:
    app = application(client, key, cors_first=False)
    async with serving(app) as url, httpx.AsyncClient(base_url=url, timeout=DEADLINE) as http:
        asked = [await http.options("/", headers=PREFLIGHT) for _ in range(5)]
        # Other OPTIONS are counted.
        for headers in ({}, {"origin": ORIGIN}, {"access-control-request-method": "GET"}):
            assert (await http.options("/", headers=headers)).status_code == 405
        denied = await http.get("/", headers={"origin": ORIGIN})
    assert {answer.status_code for answer in asked} == {200}
    assert denied.status_code == 429
    # The control: in this order, a page cannot read the 429.
    assert "access-control-allow-origin" not in denied.headers


def test_flask_does_not_count_preflights(server: Server, key: str) -> None:
    app = Flask(__name__)
    with SyncTidegate(server.address, timeout=DEADLINE, on_error="raise") as sync:
        app.before_request(RateLimit("few", client=sync, key=key).check)
        app.get("/")(lambda: "hello")
        http = app.test_client()
        assert {http.options("/", headers=PREFLIGHT).status_code for _ in range(5)} == {200}
        assert [http.get("/").status_code for _ in range(4)] == [200, 200, 200, 429]
        assert http.options("/").status_code == 429
