"""A dependency for FastAPI: limits of single routes. Needs `pip install tidegate[fastapi]`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import HTTPException, Response, WebSocketException
from fastapi.requests import HTTPConnection

from .answers import Decision
from .asgi import POLICY_VIOLATION
from .client import Tidegate
from .fallback import OnError, on_error_word
from .identity import default_key
from .questions import Key
from .refusal import Given, refusal, resolve

Dependency = Callable[[HTTPConnection, Response], Coroutine[Any, Any, Decision]]


def rate_limit(
    policy: Given[str, HTTPConnection],
    *,
    key: Given[Key | None, HTTPConnection] = None,
    cost: Given[int, HTTPConnection] = 1,
    client: Tidegate | None = None,
    on_error: OnError | None = None,
) -> Dependency:
    """Make a dependency that checks a request, and raises `HTTPException` 429 if it is refused.

    `policy`, `key` and `cost` are values, or functions of the request, async or not. A key is a
    string, or a mapping for policies that count several identifiers; if there is none, or an empty one,
    it is the user that an authentication middleware has found, else the client's address. The client is
    that of `app.state.tidegate` unless one is given, and `on_error` the client's.

    The dependency is the decision. Its headers are added to the response that FastAPI makes; to one
    that the route makes itself, add `decision.headers`.
    """
    if on_error is not None:
        on_error_word(on_error)

    async def check(connection: HTTPConnection, response: Response) -> Decision:
        asked = client if client is not None else _client_of(connection)
        name = await resolve(policy, connection)
        who: Key = await resolve(key, connection) or default_key(connection.scope)
        units = await resolve(cost, connection)
        decision = await asked.check(name, who, units, headers=True, on_error=on_error)
        if not decision.allowed:
            raise _refusal(decision, connection)
        for header, value in decision.headers.items():
            response.headers.setdefault(header, value)
        return decision

    return check


def _client_of(connection: HTTPConnection) -> Tidegate:
    found = getattr(connection.app.state, "tidegate", None)
    if not isinstance(found, Tidegate):
        raise RuntimeError("no client: set app.state.tidegate = Tidegate(…), or give `client`")  # noqa: TRY004
    return found


def _refusal(decision: Decision, connection: HTTPConnection) -> Exception:
    told = refusal(decision)
    if connection.scope["type"] == "websocket":
        return WebSocketException(POLICY_VIOLATION, "rate limit exceeded")
    return HTTPException(told.status, told.message, told.headers)
