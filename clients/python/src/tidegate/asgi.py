"""A middleware for every ASGI application: Starlette, FastAPI, Django, Quart, Litestar and others."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any

from .answers import Decision
from .client import Tidegate
from .fallback import OnError, on_error_word
from .identity import default_key
from .questions import Key
from .refusal import Given, refusal, resolve

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]
OnDenied = Callable[[Scope, Decision], ASGIApp | Awaitable[ASGIApp]]

# "Policy violation" of RFC 6455. Before a connection is accepted, servers make a 403 of it.
POLICY_VIOLATION = 1008
# The messages that have the headers of an answer.
STARTS = ("http.response.start", "websocket.http.response.start", "websocket.accept")


class RateLimitMiddleware:
    """Checks every HTTP request and every WebSocket before the application sees it.

    Every answer says what is left. A refusal is 429 with `Retry-After`, or what the ASGI application
    answers that `on_denied(scope, decision)` returns, as a response of Starlette is one. A WebSocket
    is refused in the same way before it is accepted, or closed, where the server can do no better.

    `policy`, `key` and `cost` are values, or functions of the scope, async or not. A key is a string,
    or a mapping for policies that count several identifiers; if there is none, or an empty one, it is
    the user of `scope["user"]`, else the client's address. What `skip(scope)` is true for is not
    checked. `on_error` is the client's unless given.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        client: Tidegate,
        policy: Given[str, Scope],
        key: Given[Key | None, Scope] = None,
        cost: Given[int, Scope] = 1,
        skip: Given[bool, Scope] = False,
        on_denied: OnDenied | None = None,
        on_error: OnError | None = None,
    ) -> None:
        self._app = app
        self._client = client
        self._policy = policy
        self._key = key
        self._cost = cost
        self._skip = skip
        self._on_denied = on_denied
        self._on_error = None if on_error is None else on_error_word(on_error)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the application answer it."""
        if scope["type"] not in ("http", "websocket") or await resolve(self._skip, scope):
            await self._app(scope, receive, send)
            return
        decision = await self._decide(scope)
        if decision.allowed:
            await self._app(scope, receive, _adding(decision.headers, send))
        elif scope["type"] == "websocket" and not _can_be_answered(scope):
            await _close(receive, send)
        else:
            await self._deny(decision, scope, receive, send)

    async def _decide(self, scope: Scope) -> Decision:
        policy = await resolve(self._policy, scope)
        key: Key = await resolve(self._key, scope) or default_key(scope)
        cost = await resolve(self._cost, scope)
        return await self._client.check(policy, key, cost, headers=True, on_error=self._on_error)

    async def _deny(self, decision: Decision, scope: Scope, receive: Receive, send: Send) -> None:
        told = refusal(decision)
        send = _adding(told.headers, send)
        if self._on_denied is None:
            await _answer(scope, told.status, json.dumps(told.body()).encode(), send)
            return
        made = self._on_denied(scope, decision)
        app = await made if isinstance(made, Awaitable) else made
        await app(scope, receive, send)


def _adding(headers: Mapping[str, str], send: Send) -> Send:
    """Add headers to the response, except those that the application has set itself."""
    ours = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]

    async def send_with_headers(message: Message) -> None:
        if message["type"] in STARTS:
            theirs: Iterable[tuple[bytes, bytes]] = list(message.get("headers") or ())
            taken = {name.lower() for name, _ in theirs}
            message["headers"] = [*theirs, *(one for one in ours if one[0] not in taken)]
        await send(message)

    return send_with_headers if ours else send


def _can_be_answered(scope: Scope) -> bool:
    """Whether a WebSocket that is not accepted can be told why, as servers do that know this extension."""
    return "websocket.http.response" in (scope.get("extensions") or {})


async def _answer(scope: Scope, status: int, body: bytes, send: Send) -> None:
    kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": f"{kind}.start", "status": status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})


async def _close(receive: Receive, send: Send) -> None:
    await receive()  # that a client would like to connect
    await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": "rate limit exceeded"})
