"""A middleware for every ASGI application: Starlette, FastAPI, Django, Quart, Litestar and others."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any

from .answers import Decision
from .client import Tidegate
from .identity import default_key
from .refusal import Given, Key, ask, refusal, resolve

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]
OnDenied = Callable[[Scope, Decision], ASGIApp | Awaitable[ASGIApp]]

# "Policy violation" of RFC 6455. Before a connection is accepted, servers make a 403 of it.
POLICY_VIOLATION = 1008


class RateLimitMiddleware:
    """Checks every HTTP request and every WebSocket before the application sees it.

    Every answer says what is left. A refusal is 429 with `Retry-After`, or what the ASGI application
    answers that `on_denied(scope, decision)` returns, as a response of Starlette is one; a WebSocket
    is closed before it is accepted.

    `policy`, `key` and `cost` are values, or functions of the scope, async or not. A key is a string,
    or a mapping for policies that count several identifiers; unless given, it is the user of
    `scope["user"]`, else the client's address. What `skip(scope)` is true for is not checked.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        client: Tidegate,
        policy: Given[str, Scope],
        key: Given[Key, Scope] = default_key,
        cost: Given[int, Scope] = 1,
        skip: Given[bool, Scope] = False,
        on_denied: OnDenied | None = None,
    ) -> None:
        self._app = app
        self._client = client
        self._policy = policy
        self._key = key
        self._cost = cost
        self._skip = skip
        self._on_denied = on_denied

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the application answer it."""
        if scope["type"] not in ("http", "websocket") or await resolve(self._skip, scope):
            await self._app(scope, receive, send)
            return
        decision = await self._decide(scope)
        if decision.allowed:
            await self._app(scope, receive, _adding(decision.headers, send))
        elif scope["type"] == "websocket":
            await _close(receive, send)
        else:
            await self._deny(decision, scope, receive, send)

    async def _decide(self, scope: Scope) -> Decision:
        policy = await resolve(self._policy, scope)
        key: Key = await resolve(self._key, scope)
        return await ask(self._client, policy, key, await resolve(self._cost, scope))

    async def _deny(self, decision: Decision, scope: Scope, receive: Receive, send: Send) -> None:
        told = refusal(decision)
        send = _adding(told.headers, send)
        if self._on_denied is None:
            await _answer(told.status, json.dumps(told.body()).encode(), send)
            return
        made = self._on_denied(scope, decision)
        app = await made if isinstance(made, Awaitable) else made
        await app(scope, receive, send)


def _adding(headers: Mapping[str, str], send: Send) -> Send:
    """Add headers to the response, except those that the application has set itself."""
    ours = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]

    async def send_with_headers(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.accept"):
            theirs: Iterable[tuple[bytes, bytes]] = list(message.get("headers") or ())
            taken = {name.lower() for name, _ in theirs}
            message["headers"] = [*theirs, *(one for one in ours if one[0] not in taken)]
        await send(message)

    return send_with_headers if ours else send


async def _answer(status: int, body: bytes, send: Send) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _close(receive: Receive, send: Send) -> None:
    await receive()  # that a client would like to connect
    await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": "rate limit exceeded"})
