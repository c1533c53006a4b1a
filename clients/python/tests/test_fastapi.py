"""The FastAPI dependency, in a real uvicorn."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import httpx
import pytest
import websockets
from fastapi import Depends, FastAPI, Header, Request, Response, WebSocket
from fastapi.requests import HTTPConnection
from fastapi.testclient import TestClient
from support import DEADLINE, Server, serving

from tidegate import Decision, SyncTidegate, Tidegate
from tidegate.fastapi import lifespan, rate_limit

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def asking(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(app) as url, httpx.AsyncClient(base_url=url, timeout=DEADLINE) as http:
        yield http


async def test_a_route_has_a_limit(client: Tidegate, key: str) -> None:
    app = FastAPI()
    app.state.tidegate = client

    @app.get("/", dependencies=[Depends(rate_limit("few", key=key))])
    async def home() -> str:
        return "hello"

    @app.get("/free")
    async def free() -> str:
        return "free"

    async with asking(app) as http:
        answers = [await http.get("/") for _ in range(4)]
        assert (await http.get("/free")).status_code == 200
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert [answer.headers["x-ratelimit-remaining"] for answer in answers] == ["2", "1", "0", "0"]
    seconds = answers[3].headers["retry-after"]
    assert answers[3].json() == {
        "error": "Too Many Requests",
        "message": f"Rate limit exceeded. Retry after {seconds} seconds.",
        "retryAfter": int(seconds),
    }


async def test_policy_key_and_cost_are_functions_of_the_request(client: Tidegate, key: str) -> None:
    async def policy(request: HTTPConnection) -> str:
        return request.query_params["policy"]

    def who(request: HTTPConnection) -> str:
        return f"{key}-{request.path_params['name']}"

    limit = rate_limit(policy, key=who, cost=lambda request: int(request.query_params["cost"]), client=client)
    app = FastAPI()

    @app.get("/{name}")
    async def home(decision: Annotated[Decision, Depends(limit)]) -> int:
        return decision.remaining

    async with asking(app) as http:
        assert (await http.get("/ann?policy=ten&cost=4")).json() == 6
        assert (await http.get("/ben?policy=ten&cost=1")).json() == 9
        assert (await http.get("/ann?policy=ten&cost=7")).status_code == 429
        assert (await http.get("/ann?policy=few&cost=2")).json() == 1


class User:
    def __init__(self, name: str) -> None:
        self.id = name


async def current_user(name: Annotated[str | None, Header(alias="x-user")] = None) -> User | None:
    return None if name is None else User(name)


@pytest.mark.parametrize("order", ["limit first", "limit last", "limit alone", "as an argument"])
async def test_a_key_from_a_dependency_works_in_every_order(client: Tidegate, key: str, order: str) -> None:
    app = FastAPI()
    limit, user = Depends(rate_limit("few", key=Depends(current_user), client=client)), Depends(current_user)
    lists = {"limit first": [limit, user], "limit last": [user, limit], "limit alone": [limit]}

    if order in lists:

        @app.get("/", dependencies=lists[order])
        async def home() -> str:
            return "hello"

    else:

        @app.get("/")
        async def two(decision: Annotated[Decision, limit], who: Annotated[User | None, user]) -> str:
            return "hello"

    ann, ben = f"{key}-ann", f"{key}-ben"
    async with asking(app) as http:
        answers = [(await http.get("/", headers={"x-user": one})).status_code for one in (ann,) * 4 + (ben,)]
        visitor = await http.get("/")
    assert answers == [200, 200, 200, 429, 200]
    assert visitor.status_code in (200, 429)
    assert [(await client.peek("few", one, 0)).remaining for one in (ann, ben)] == [0, 2]


@pytest.mark.parametrize(
    ("returned", "keys"),
    [
        ("ann", "ann"),
        (4711, "4711"),
        ({"sub": "claims-1", "exp": 1}, "claims-1"),
        (User("object-1"), "object-1"),
    ],
)
async def test_a_dependency_returns_a_key_or_a_user(client: Tidegate, returned: object, keys: str) -> None:
    app = FastAPI()
    limit = rate_limit("plenty", key=Depends(lambda: returned), client=client)

    @app.get("/")
    async def home(decision: Annotated[Decision, Depends(limit)]) -> int:
        return decision.limit - decision.remaining

    before = await client.peek("plenty", keys, 0)
    async with asking(app) as http:
        assert (await http.get("/")).json() == before.limit - before.remaining + 1


async def test_a_user_without_an_identity_is_an_error(client: Tidegate) -> None:
    app = FastAPI()
    app.get("/", dependencies=[Depends(rate_limit("few", key=Depends(object), client=client))])(
        lambda: "hello"
    )
    async with asking(app) as http:
        assert (await http.get("/")).status_code == 500


def test_a_dependency_without_depends_is_an_error_at_start() -> None:
    def token(value: str = Depends(current_user)) -> str:
        return value

    for function in (current_user, token):
        with pytest.raises(TypeError, match=rf"write key=Depends\({function.__name__}\)"):
            rate_limit("few", key=function)  # type: ignore[arg-type]


async def test_a_visitor_without_a_key_is_limited_by_address(client: Tidegate) -> None:
    app = FastAPI()
    limit = rate_limit("few", key=lambda request: request.headers.get("x-key"), cost=4, client=client)

    @app.get("/", dependencies=[Depends(limit)])
    async def home() -> str:
        return "hello"

    async with asking(app) as http:
        for headers in ({}, {"x-key": ""}):
            assert (await http.get("/", headers=headers)).status_code == 429


async def test_a_route_can_add_the_headers_to_its_own_response(client: Tidegate, key: str) -> None:
    app = FastAPI()
    limit = rate_limit("few", key=key, client=client)

    @app.get("/")
    async def home(decision: Annotated[Decision, Depends(limit)]) -> Response:
        return Response("mine", headers=dict(decision.headers))

    async with asking(app) as http:
        assert (await http.get("/")).headers["x-ratelimit-remaining"] == "2"


async def test_web_sockets_are_denied_before_they_are_accepted(client: Tidegate, key: str) -> None:
    app = FastAPI()

    @app.websocket("/", dependencies=[Depends(rate_limit("few", key=key, cost=2, client=client))])
    async def home(socket: WebSocket) -> None:
        await socket.accept()
        await socket.close()

    async with serving(app) as url:
        async with websockets.connect(url.replace("http", "ws")):
            pass
        with pytest.raises(websockets.InvalidStatus) as caught:
            await websockets.connect(url.replace("http", "ws"))
    assert caught.value.response.status_code == 403


async def test_a_failed_limiter_is_503_not_429(dead_url: str) -> None:
    async with Tidegate(dead_url, timeout=DEADLINE, on_error="deny") as dead:
        app = FastAPI(dependencies=[Depends(rate_limit("few", client=dead))])

        @app.get("/")
        async def home(request: Request) -> str:
            return request.url.path

        async with asking(app) as http:
            answer = await http.get("/")
    seconds = int(answer.headers["retry-after"])
    assert (answer.status_code, seconds in (1, 2)) == (503, True)
    assert answer.json()["message"] == f"Rate limiter unavailable. Retry after {seconds} seconds."


async def test_a_route_can_override_on_error(dead_url: str) -> None:
    async with Tidegate(dead_url, timeout=DEADLINE, on_error="allow") as dead:
        app = FastAPI(dependencies=[Depends(rate_limit("few", client=dead, on_error="deny"))])

        @app.get("/")
        async def home() -> str:
            return "hello"

        async with asking(app) as http:
            assert (await http.get("/")).status_code == 503
    with pytest.raises(ValueError, match="on_error: expected allow"):
        rate_limit("few", on_error="closed")  # type: ignore[arg-type]


def test_applications_work_with_the_test_client(server: Server, key: str) -> None:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with Tidegate(server.address, timeout=DEADLINE, on_error="raise") as app.state.tidegate:
            yield

    app = FastAPI(lifespan=lifespan, dependencies=[Depends(rate_limit("few", key=key))])

    @app.get("/")
    def home() -> str:
        return "hello"

    with TestClient(app) as http:
        assert [http.get("/").status_code for _ in range(4)] == [200, 200, 200, 429]


def test_a_missing_client_is_an_error_that_says_what_to_do() -> None:
    app = FastAPI(dependencies=[Depends(rate_limit("few"))])

    @app.get("/")
    def home() -> str:
        return "hello"

    with pytest.raises(RuntimeError, match=r"write FastAPI\(lifespan=lifespan\(URL\)\)"):
        TestClient(app).get("/")
    app.state.tidegate = SyncTidegate()
    with pytest.raises(TypeError, match=r"app\.state\.tidegate of FastAPI needs a tidegate\.Tidegate"):
        TestClient(app).get("/")


@pytest.mark.parametrize("own", [False, True])
def test_a_mounted_application_uses_the_client_of_the_outer_one(server: Server, key: str, own: bool) -> None:
    @asynccontextmanager
    async def mine(app: FastAPI) -> AsyncIterator[None]:
        async with opened(app):
            yield

    opened = lifespan(server.address, timeout=DEADLINE, on_error="raise")
    inner = FastAPI(dependencies=[Depends(rate_limit("few", key=key))])
    inner.get("/")(lambda: "hello")
    outer = FastAPI(lifespan=mine if own else opened)
    outer.mount("/inner", inner)
    with TestClient(outer) as http:
        assert [http.get("/inner/").status_code for _ in range(4)] == [200, 200, 200, 429]
    with pytest.raises(RuntimeError, match="no client"):
        TestClient(outer).get("/inner/")
