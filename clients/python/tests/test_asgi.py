"""The middleware in a real uvicorn, with plain ASGI and Starlette applications."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import httpx
import pytest
import websockets
from conftest import StartServer
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, BaseUser, SimpleUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket
from support import DEADLINE, Server, serving

from tidegate import Decision, Tidegate
from tidegate.asgi import ASGIApp, RateLimitMiddleware, Receive, Scope, Send
from tidegate.identity import address_key, default_key

pytestmark = pytest.mark.anyio
OURS = {"ratelimit-policy", "ratelimit", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"}


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    """A plain ASGI application."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-app", b"1")]})
    await send({"type": "http.response.body", "body": b"hello"})


@asynccontextmanager
async def limited(client: Tidegate, app: ASGIApp = hello, **options: Any) -> AsyncIterator[httpx.AsyncClient]:  # noqa: ANN401
    middleware = RateLimitMiddleware(app, client=client, **({"policy": "few"} | options))
    async with serving(middleware) as url, httpx.AsyncClient(base_url=url, timeout=DEADLINE) as http:
        yield http


async def test_the_older_headers_are_passed_on(start_server: StartServer) -> None:
    config = "headers: { dialect: legacy, legacy: off }\npolicies: { few: 3/week }\n"
    server = start_server(config=config)
    async with Tidegate(server.address, timeout=DEADLINE) as client, limited(client, key="k") as http:
        headers = (await http.get("/")).headers
    assert (headers["ratelimit-limit"], headers["ratelimit-remaining"]) == ("3", "2")
    assert not OURS & set(headers)


async def test_responses_have_rate_limit_headers_and_denials_retry_after(client: Tidegate, key: str) -> None:
    async with limited(client, key=key) as http:
        answers = [await http.get("/") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert [answer.headers["x-ratelimit-remaining"] for answer in answers] == ["2", "1", "0", "0"]
    assert all(set(answer.headers) >= OURS for answer in answers)
    assert answers[0].headers["ratelimit-policy"] == '"few";q=3;w=604800'
    assert (answers[0].text, answers[0].headers["x-app"]) == ("hello", "1")
    assert "retry-after" not in answers[0].headers
    seconds = int(answers[3].headers["retry-after"])
    assert 1 <= seconds <= 1.2 * 604_800 + 1
    assert answers[3].headers["content-type"] == "application/json"
    assert answers[3].json() == {
        "error": "Too Many Requests",
        "message": f"Rate limit exceeded. Retry after {seconds} seconds.",
        "retryAfter": seconds,
    }


async def test_a_cost_above_the_limit_has_no_retry_after(client: Tidegate, key: str) -> None:
    async with limited(client, key=key, cost=4) as http:
        answer = await http.get("/")
    body = {
        "error": "Too Many Requests",
        "message": "Rate limit exceeded. Retrying will not help.",
        "retryAfter": None,
    }
    assert (answer.status_code, answer.json()) == (429, body)
    assert "retry-after" not in answer.headers


async def test_policy_key_cost_and_skip_are_functions_of_the_request(client: Tidegate, key: str) -> None:
    async def cost(scope: Scope) -> int:
        return 3 if scope["method"] == "POST" else 1

    options: dict[str, Any] = {
        "policy": lambda scope: "ten" if scope["path"] == "/ten" else "signup",
        "key": lambda scope: key if scope["path"] == "/ten" else {"ip": key, "email_domain": key},
        "cost": cost,
        "skip": lambda scope: scope["path"] == "/healthz",
    }
    async with limited(client, **options) as http:
        assert [(await http.post("/ten")).status_code for _ in range(4)] == [200, 200, 200, 429]
        assert (await http.get("/ten")).status_code == 200
        assert [(await http.get("/")).status_code for _ in range(4)] == [200, 200, 200, 429]
        skipped = await http.get("/healthz")
        assert (skipped.status_code, OURS & set(skipped.headers)) == (200, set())


@pytest.mark.parametrize("nobody", [None, "", lambda scope: None, lambda scope: ""])
async def test_a_request_without_a_key_is_limited_by_address(start_server: StartServer, nobody: Any) -> None:  # noqa: ANN401
    server = start_server()
    async with Tidegate(server.address, timeout=DEADLINE, on_error="raise") as client:
        async with limited(client, key=nobody) as http:
            assert (await http.get("/")).status_code == 200
        assert (await client.peek("few", "127.0.0.1", 0)).remaining == 2


async def test_on_denied_replaces_the_response(client: Tidegate, key: str) -> None:
    async def later(scope: Scope, decision: Decision) -> ASGIApp:
        return PlainTextResponse(f"{scope['path']} {decision.limit}", 420, {"ratelimit": "mine"})

    def at_once(scope: Scope, decision: Decision) -> ASGIApp:
        return PlainTextResponse(f"{scope['path']} {decision.limit}", 420, {"ratelimit": "mine"})

    for on_denied in (later, at_once):
        async with limited(client, key=key, cost=4, on_denied=on_denied) as http:
            answer = await http.get("/x")
        assert (answer.status_code, answer.text) == (420, "/x 3")
        assert answer.headers.get_list("ratelimit") == ["mine"]
        assert answer.headers["x-ratelimit-limit"] == "3"


async def test_a_denied_upload_keeps_the_connection_usable(client: Tidegate, key: str) -> None:
    async with limited(client, key=key, cost=4) as http:
        for _ in range(3):
            assert (await http.post("/", content=b"x" * 3_000_000)).status_code == 429
        assert (await http.head("/")).status_code == 429


async def test_concurrent_requests_are_counted_exactly(client: Tidegate, key: str) -> None:
    async with limited(client, policy="exact", key=key) as http:
        limits = asyncio.Semaphore(50)

        async def get() -> int:
            async with limits:
                return (await http.get("/")).status_code

        statuses = await asyncio.gather(*(get() for _ in range(600)))
    assert (statuses.count(200), statuses.count(429)) == (500, 100)


@pytest.mark.parametrize(("on_error", "status"), [("allow", 200), ("deny", 503), ("raise", 500)])
async def test_without_the_server_on_error_applies(dead_url: str, on_error: Any, status: int) -> None:  # noqa: ANN401
    async with Tidegate(dead_url, timeout=DEADLINE, on_error=on_error) as dead, limited(dead) as http:
        answer = await http.get("/")
    assert answer.status_code == status
    if status == 503:
        seconds = int(answer.headers["retry-after"])
        assert seconds in (1, 2)
        assert answer.json() == {
            "error": "Service Unavailable",
            "message": f"Rate limiter unavailable. Retry after {seconds} seconds.",
            "retryAfter": seconds,
        }


async def test_a_middleware_can_override_on_error(dead_url: str) -> None:
    async with Tidegate(dead_url, timeout=DEADLINE, on_error="allow") as dead:
        async with limited(dead, on_error="deny") as http:
            assert (await http.get("/")).status_code == 503
        with pytest.raises(ValueError, match="on_error: expected allow, deny, raise or local, got 'no'"):
            RateLimitMiddleware(hello, client=dead, policy="few", on_error="no")  # type: ignore[arg-type]


async def test_a_policy_that_fails_closed_is_unavailable(start_server: StartServer, dead_redis: str) -> None:
    config = f"drain: 0s\nstore: {dead_redis}\npolicies:\n  few: {{ limit: 3/h, on_store_error: deny }}\n"
    server = start_server(config=config)
    async with Tidegate(server.address, timeout=DEADLINE) as client, limited(client) as http:
        answer = await http.get("/")
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) == answer.json()["retryAfter"] >= 1


async def echo(socket: WebSocket) -> None:
    await socket.accept()
    await socket.send_text(await socket.receive_text())
    await socket.close()


async def test_web_sockets_are_denied_before_they_are_accepted(client: Tidegate, key: str) -> None:
    app = Starlette(routes=[WebSocketRoute("/", echo)])
    middleware = RateLimitMiddleware(app, client=client, policy="few", key=key)
    async with serving(middleware) as url:
        for left in ("2", "1", "0"):
            async with websockets.connect(url.replace("http", "ws")) as socket:
                assert socket.response is not None
                assert socket.response.headers["x-ratelimit-remaining"] == left
                await socket.send("hello")
                assert await socket.recv() == "hello"
        with pytest.raises(websockets.InvalidStatus) as caught:
            await websockets.connect(url.replace("http", "ws"))
    answer = caught.value.response
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.headers["x-ratelimit-remaining"] == "0"
    assert answer.body is not None
    assert answer.body.startswith(b'{"error":"Too Many Requests"')


async def test_on_denied_replaces_the_response_to_a_web_socket(client: Tidegate, key: str) -> None:
    app = Starlette(routes=[WebSocketRoute("/", echo)])
    middleware = RateLimitMiddleware(
        app, client=client, policy="few", key=key, cost=4, on_denied=lambda *_: PlainTextResponse("calm", 420)
    )
    async with serving(middleware) as url:
        with pytest.raises(websockets.InvalidStatus) as caught:
            await websockets.connect(url.replace("http", "ws"))
    answer = caught.value.response
    assert (answer.status_code, answer.body, answer.headers["x-ratelimit-limit"]) == (420, b"calm", "3")


async def test_a_denied_web_socket_is_closed_with_1008(client: Tidegate, key: str) -> None:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:  # noqa: ANN401
        sent.append(message)

    middleware = RateLimitMiddleware(hello, client=client, policy="few", key=key, cost=4)
    await middleware({"type": "websocket", "path": "/"}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008, "reason": "rate limit exceeded"}]


async def test_the_lifespan_is_passed_to_the_application(client: Tidegate, server: Server, key: str) -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with Tidegate(server.address, timeout=DEADLINE, on_error="raise") as app.state.client:
            seen.append("started")
            yield
        seen.append("stopped")

    async def ask(request: Request) -> Response:
        return PlainTextResponse(str((await request.app.state.client.check("ten", key)).remaining))

    app = Starlette(routes=[Route("/", ask)], lifespan=lifespan)
    async with limited(client, app, key=key) as http:
        assert (await http.get("/")).text == "9"
    assert seen == ["started", "stopped"]


class ByHeader(AuthenticationBackend):
    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, BaseUser] | None:
        name = conn.headers.get("x-user")
        return None if name is None else (AuthCredentials(), SimpleUser(name))


async def test_users_are_limited_by_name_and_others_by_address(start_server: StartServer) -> None:
    server = start_server()
    async with Tidegate(server.address, timeout=DEADLINE, on_error="raise") as client:
        app = Starlette(
            routes=[Route("/", lambda _: PlainTextResponse("hello"))],
            middleware=[
                Middleware(AuthenticationMiddleware, backend=ByHeader()),
                Middleware(RateLimitMiddleware, client=client, policy="few"),
            ],
        )
        async with serving(app) as url, httpx.AsyncClient(base_url=url, timeout=DEADLINE) as http:
            for headers in ({"x-user": "ann"}, {"x-user": "ben"}, {}):
                answers = [await http.get("/", headers=headers) for _ in range(4)]
                assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        for who in ("ann", "ben", "127.0.0.1"):
            assert (await client.peek("few", who, 0)).remaining == 0


async def test_a_user_that_is_known_too_late_is_reported_once(
    client: Tidegate, caplog: pytest.LogCaptureFixture
) -> None:
    app = Starlette(
        routes=[Route("/", lambda _: PlainTextResponse("hello"))],
        middleware=[
            Middleware(RateLimitMiddleware, client=client, policy="plenty"),
            Middleware(AuthenticationMiddleware, backend=ByHeader()),
        ],
    )
    async with serving(app) as url, httpx.AsyncClient(base_url=url, timeout=DEADLINE) as http:
        await http.get("/")
        assert caplog.messages == []
        for name in ("ann", "ben"):
            await http.get("/", headers={"x-user": name})
    late = [message for message in caplog.messages if "its user was not known yet" in message]
    assert len(late) == 1


class User:
    is_authenticated = True

    def __init__(self, **fields: object) -> None:
        self.__dict__.update(fields)


@pytest.mark.parametrize(
    ("scope", "key"),
    [
        ({"client": ("203.0.113.7", 4711)}, "203.0.113.7"),
        ({"client": ("::ffff:203.0.113.7", 4711)}, "203.0.113.7"),
        ({"client": ("2001:db8::7", 4711)}, "2001:db8::/64"),
        ({"client": ("2001:db8:0:1:2:3:4:5", 4711)}, "2001:db8:0:1::/64"),
        ({"client": ("fe80::1%eth0", 4711)}, "fe80::/64"),
        ({"client": ("testclient", 50000)}, "testclient"),
        ({"client": ("203.0.113.7", 1), "user": User(identity="ann")}, "ann"),
        ({"client": ("203.0.113.7", 1), "user": User(id=42)}, "42"),
        ({"client": ("203.0.113.7", 1), "user": User(id=UUID(int=7))}, str(UUID(int=7))),
        ({"client": ("203.0.113.7", 1), "user": User(sub="ann")}, "ann"),
        ({"client": ("203.0.113.7", 1), "user": {"sub": "ann", "exp": 1}}, "ann"),
        ({"client": ("203.0.113.7", 1), "user": User(get_id=lambda: "ann@example.com")}, "ann@example.com"),
        ({"client": ("203.0.113.7", 1), "user": User(id=0)}, "0"),
        ({"client": ("203.0.113.7", 1), "user": User(id=42, is_authenticated=False)}, "203.0.113.7"),
        ({"client": ("203.0.113.7", 1), "user": None}, "203.0.113.7"),
    ],
)
def test_the_default_key(scope: dict[str, Any], key: str) -> None:
    assert default_key(scope) == key


@pytest.mark.parametrize("user", [{"name": "Ann"}, User(identity=""), User(email="a@b.example"), object()])
def test_a_user_without_an_identity_is_an_error_and_not_an_address(user: object) -> None:
    with pytest.raises(TypeError, match=r"the user, a \w+, has none of identity, id, .*: set `key`"):
        default_key({"client": ("203.0.113.7", 1), "user": user})


@pytest.mark.parametrize("client", [None, (), ("", 0)])
def test_an_unknown_client_is_an_error_that_says_what_to_do(client: object) -> None:
    with pytest.raises(RuntimeError, match="set `key`"):
        default_key({"client": client})
    assert address_key("localhost") == "localhost"
