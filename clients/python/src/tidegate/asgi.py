"""A middleware for ASGI applications: Starlette, FastAPI, Django, Quart, Litestar and others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any

from .checks import Key
from .client import Tidegate
from .fallback import OnError, log
from .identity import LateUser, default_key, is_user
from .observations import Stopwatch, check_target
from .refusal import CONTENT_TYPE, refusal
from .replies import Decision
from .rule import Rule, ValueOrFunction, check_client, is_preflight

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]
OnDenied = Callable[[Scope, Decision], ASGIApp | Awaitable[ASGIApp]]

# "Policy violation" of RFC 6455. Before a WebSocket is accepted, servers send it as a 403.
POLICY_VIOLATION = 1008
# The messages that carry the response headers.
STARTS = ("http.response.start", "websocket.http.response.start", "websocket.accept")


class RateLimitMiddleware:
    """Checks every HTTP request and every WebSocket before the application sees it.

    Every response has the rate limit headers. A denied request gets 429 with `Retry-After`, or the
    response of the ASGI application that `on_denied(scope, decision)` returns, e.g. a Starlette
    response. A WebSocket is denied in the same way before it is accepted, or closed if the server
    does not support that.

    `policy`, `key`, `cost` and `skip` are values or functions of the scope, async or not. A key is a
    string, or a mapping for policies with several keys. Without a key, the user of `scope["user"]` is
    used, else the client's IP address. If `skip` is true, the request is not checked. `on_error`
    overrides the client's.

    With `observe`, the latency of each response that passed is reported as that of this target, for
    adaptive limits.

    Preflights of browsers are not counted. A misspelt policy is logged when the application starts.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        client: Tidegate,
        policy: ValueOrFunction[str, Scope],
        key: ValueOrFunction[Key | None, Scope] = None,
        cost: ValueOrFunction[int, Scope] = 1,
        skip: ValueOrFunction[bool, Scope] = False,
        on_denied: OnDenied | None = None,
        on_error: OnError | None = None,
        observe: str | None = None,
    ) -> None:
        self._app = app
        try:
            self._client = check_client(client, Tidegate, "the ASGI middleware")
            self._rule = Rule(policy, key, cost, skip, on_error)
            _check_function("on_denied", on_denied)
            self._observe = check_target(observe)
        except (TypeError, ValueError) as error:
            # Starlette builds its middleware with the first event, where uvicorn hides what is raised.
            log.error("RateLimitMiddleware: %s", error)
            raise
        self._on_denied = on_denied
        self._late_user = LateUser("Add the authentication middleware outside of the rate limit")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, then pass it to the application or deny it."""
        # The first call is the start of the application, if the server has events for it.
        self._client.expect_policies(self._rule.names)
        decision = await self._decide(scope)
        if decision is None:
            await self._app(scope, receive, send)
        elif decision.allowed:
            had_user = is_user(scope.get("user"))
            await self._pass(scope, receive, _adding(decision.headers, send))
            if self._rule.key is None and not had_user and is_user(scope.get("user")):
                self._late_user.warn()
        elif scope["type"] == "websocket" and not _supports_denial_response(scope):
            await _close(receive, send)
        else:
            await self._deny(decision, scope, receive, send)

    async def _decide(self, scope: Scope) -> Decision | None:
        if scope["type"] not in ("http", "websocket") or _is_preflight(scope):
            return None
        return await self._rule.decide(self._client, scope, lambda: default_key(scope))

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application, and report the time until its response begins."""
        watch = Stopwatch(self._client, self._observe if scope["type"] == "http" else None)

        async def send_observed(message: Message) -> None:
            if message["type"] == "http.response.start":
                watch.stop(ok=message["status"] < 500)
            await send(message)

        try:
            await self._app(scope, receive, send_observed)
        except Exception:
            watch.stop(ok=False)
            raise
        finally:
            # A caller that left has waited so long. That is no failure, or callers could close the limit.
            watch.stop(ok=True)

    async def _deny(self, decision: Decision, scope: Scope, receive: Receive, send: Send) -> None:
        denied = refusal(decision)
        send = _adding(denied.headers, send)
        if self._on_denied is None:
            await _respond(scope, denied.status, denied.body(), send)
            return
        result = self._on_denied(scope, decision)
        app = await result if isinstance(result, Awaitable) else result
        await app(scope, receive, send)


def _check_function(name: str, given: object) -> None:
    if given is not None and not callable(given):
        raise TypeError(f"{name}: expected a function, got {given!r:.80}")


def _is_preflight(scope: Scope) -> bool:
    headers = dict(scope.get("headers") or ())
    return is_preflight(scope.get("method", ""), lambda name: headers.get(name.encode()))


def _adding(headers: Mapping[str, str], send: Send) -> Send:
    """Add headers to the response, except those that the application sets itself."""
    ours = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]

    async def send_with_headers(message: Message) -> None:
        if message["type"] in STARTS:
            theirs: Iterable[tuple[bytes, bytes]] = list(message.get("headers") or ())
            taken = {name.lower() for name, _ in theirs}
            message["headers"] = [*theirs, *(one for one in ours if one[0] not in taken)]
        await send(message)

    return send_with_headers if ours else send


def _supports_denial_response(scope: Scope) -> bool:
    """Whether the server can send an HTTP response instead of accepting a WebSocket."""
    return "websocket.http.response" in (scope.get("extensions") or {})


async def _respond(scope: Scope, status: int, body: bytes, send: Send) -> None:
    kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    headers = [(b"content-type", CONTENT_TYPE.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": f"{kind}.start", "status": status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})


async def _close(receive: Receive, send: Send) -> None:
    await receive()  # websocket.connect
    await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": "rate limit exceeded"})
