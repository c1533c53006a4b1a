"""A FastAPI dependency that limits single routes. Needs `pip install tidegate[fastapi]`."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any, Unpack, get_type_hints

from fastapi import Depends, FastAPI, HTTPException, Request, Response, WebSocketException, params
from fastapi.exception_handlers import http_exception_handler
from fastapi.requests import HTTPConnection

from .address import ClientOptions
from .asgi import POLICY_VIOLATION
from .checks import Key
from .client import Tidegate
from .fallback import OnError
from .identity import default_key, key_of
from .refusal import CONTENT_TYPE, Refusal, refusal
from .replies import Decision
from .rule import Rule, ValueOrFunction, check_client

Dependency = Callable[..., Coroutine[Any, Any, Decision]]
# The policies of dependencies without a client of their own.
_declared: set[str] = set()
# The clients that `lifespan` has opened.
_opened: set[Tidegate] = set()


def lifespan(
    url: str | None = None, **options: Unpack[ClientOptions]
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """Open the client `app.state.tidegate` while the application runs: `FastAPI(lifespan=lifespan(URL))`.

    Takes the options of `Tidegate`. In a lifespan of your own: `async with lifespan(URL)(app):`. Logs
    misspelt policies at start.
    """
    client = Tidegate(url, **options)

    @asynccontextmanager
    async def opened(app: FastAPI) -> AsyncIterator[None]:
        async with client:
            app.state.tidegate = client
            _opened.add(client)
            client.expect_policies(_declared)
            try:
                yield
            finally:
                _opened.discard(client)

    return opened


class RateLimitExceeded(HTTPException):
    """A denied request: 429, or 503 if the limiter failed. Handlers of `HTTPException` catch it."""

    def __init__(self, denied: Refusal) -> None:
        super().__init__(denied.status, denied.message, denied.headers)
        self.body = denied.body()


def rate_limit(
    policy: ValueOrFunction[str, HTTPConnection],
    *,
    key: ValueOrFunction[Key | None, HTTPConnection] | params.Depends = None,
    cost: ValueOrFunction[int, HTTPConnection] = 1,
    client: Tidegate | None = None,
    on_error: OnError | None = None,
) -> Dependency:
    """Create a dependency that checks a request, and raises `HTTPException` 429 if it is denied.

    `policy`, `key` and `cost` are values or functions of the request, async or not. A key is a string,
    or a mapping for policies with several keys. `key=Depends(current_user)` takes the key from another
    dependency, which FastAPI runs before: a string, a user with an `id` or `sub`, or None for a visitor.
    Without a key, the user set by an authentication middleware is used, else the client's IP address.
    The default client is `app.state.tidegate`; `on_error` overrides the client's.

    The dependency returns the decision. Its headers are added to FastAPI's response; if a route creates
    its own response, add `decision.headers` there.
    """
    _check_key(key)
    if client is not None:
        check_client(client, Tidegate, "FastAPI")
    dependency = key if isinstance(key, params.Depends) else Depends(_nobody)
    rule = Rule(policy, None if isinstance(key, params.Depends) else key, cost, on_error=on_error)

    async def check(connection: HTTPConnection, response: Response, user: Any = dependency) -> Decision:  # noqa: ANN401
        tidegate = client if client is not None else _client_of(connection)
        keyed = rule if user is None else replace(rule, key=key_of(user))
        decision = await keyed.decide(tidegate, connection, lambda: default_key(connection.scope))
        assert decision is not None, "nothing is skipped"  # noqa: S101
        if not decision.allowed:
            raise _refusal(decision, connection)
        for header, value in decision.headers.items():
            response.headers.setdefault(header, value)
        return decision

    if client is None:
        _declared.update(rule.names)
    return check


async def _nobody() -> None:
    return None


def _client_of(connection: HTTPConnection) -> Tidegate:
    found = getattr(connection.app.state, "tidegate", None)
    if found is None and len(_opened) == 1:
        # A mounted application has a state of its own, and no lifespan: the client is that of the outer one.
        (found,) = _opened
    if found is None:
        raise RuntimeError(
            "no client: write FastAPI(lifespan=lifespan(URL)) with tidegate.fastapi.lifespan, in a lifespan"
            " of your own `async with lifespan(URL)(app):`, or pass `client` to rate_limit. A TestClient"
            " runs the lifespan in `with TestClient(app) as http:`"
        )
    return check_client(found, Tidegate, "app.state.tidegate of FastAPI")


def _check_key(key: object) -> None:
    """Reject a dependency without `Depends`: it would be called with the request as its first argument."""
    if isinstance(key, params.Depends) or not inspect.isfunction(key):
        return
    defaults = [one.default for one in inspect.signature(key).parameters.values()]
    annotated = [one for hint in _hints(key).values() for one in getattr(hint, "__metadata__", ())]
    if any(isinstance(one, params.Depends | params.Param) for one in (*defaults, *annotated)):
        raise TypeError(f"key: {key.__name__} is a dependency: write key=Depends({key.__name__})")


def _hints(function: Callable[..., object]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError:  # a name that is imported for type checkers only
        return {}


def _refusal(decision: Decision, connection: HTTPConnection) -> Exception:
    if connection.scope["type"] == "websocket":
        return WebSocketException(POLICY_VIOLATION, "rate limit exceeded")
    _add_handler(connection)
    return RateLimitExceeded(refusal(decision))


def _add_handler(connection: HTTPConnection) -> None:
    """Answer as every middleware does, unless the application has its own handler of `HTTPException`.

    FastAPI's handler has another body, and a dependency cannot return a response.
    """
    handlers, _ = connection.scope.get("starlette.exception_handlers", ({}, {}))
    found = next((handlers[one] for one in HTTPException.__mro__ if one in handlers), None)
    if found is http_exception_handler:
        handlers.setdefault(RateLimitExceeded, _respond)


async def _respond(_: Request, error: RateLimitExceeded) -> Response:
    return Response(error.body, error.status_code, error.headers, CONTENT_TYPE)
