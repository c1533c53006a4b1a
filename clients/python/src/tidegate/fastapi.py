"""A FastAPI dependency that limits single routes. Needs `pip install tidegate[fastapi]`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import HTTPException, Response, WebSocketException
from fastapi.requests import HTTPConnection

from .asgi import POLICY_VIOLATION
from .checks import Key
from .client import Tidegate
from .fallback import OnError, check_on_error
from .identity import default_key
from .refusal import ValueOrFunction, refusal, resolve
from .replies import Decision

Dependency = Callable[[HTTPConnection, Response], Coroutine[Any, Any, Decision]]


def rate_limit(
    policy: ValueOrFunction[str, HTTPConnection],
    *,
    key: ValueOrFunction[Key | None, HTTPConnection] = None,
    cost: ValueOrFunction[int, HTTPConnection] = 1,
    client: Tidegate | None = None,
    on_error: OnError | None = None,
) -> Dependency:
    """Create a dependency that checks a request, and raises `HTTPException` 429 if it is denied.

    `policy`, `key` and `cost` are values or functions of the request, async or not. A key is a string,
    or a mapping for policies with several keys. Without a key, the user set by an authentication
    middleware is used, else the client's IP address. The default client is `app.state.tidegate`;
    `on_error` overrides the client's.

    The dependency returns the decision. Its headers are added to FastAPI's response; if a route creates
    its own response, add `decision.headers` there.
    """
    if on_error is not None:
        check_on_error(on_error)

    async def check(connection: HTTPConnection, response: Response) -> Decision:
        tidegate = client if client is not None else _client_of(connection)
        name = await resolve(policy, connection)
        effective_key: Key = await resolve(key, connection) or default_key(connection.scope)
        units = await resolve(cost, connection)
        decision = await tidegate.check(name, effective_key, units, headers=True, on_error=on_error)
        if not decision.allowed:
            raise _refusal(decision, connection)
        for header, value in decision.headers.items():
            response.headers.setdefault(header, value)
        return decision

    return check


def _client_of(connection: HTTPConnection) -> Tidegate:
    found = getattr(connection.app.state, "tidegate", None)
    if not isinstance(found, Tidegate):
        raise RuntimeError("no client: set app.state.tidegate = Tidegate(…), or pass `client`")  # noqa: TRY004
    return found


def _refusal(decision: Decision, connection: HTTPConnection) -> Exception:
    denied = refusal(decision)
    if connection.scope["type"] == "websocket":
        return WebSocketException(POLICY_VIOLATION, "rate limit exceeded")
    return HTTPException(denied.status, denied.message, denied.headers)
