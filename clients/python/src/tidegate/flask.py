"""Limits for Flask: all requests, or single views. Needs `pip install tidegate[flask]`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from flask import Request, Response, after_this_request, current_app, g, request

from .checks import Key
from .fallback import OnError
from .identity import LateUser, is_user, user_or_address
from .observations import Stopwatch, check_target
from .refusal import CONTENT_TYPE, refusal
from .rule import Plain, Rule, check_client, is_preflight
from .sync import SyncTidegate

P = ParamSpec("P")
R = TypeVar("R")


class RateLimit:
    """A limit for views: `@RateLimit("login", client=client)` below the route.

    For all views: `app.before_request(RateLimit("api", client=client).check)`.

    `policy`, `key`, `cost` and `skip` are values or functions of the request. A key is a string, or a
    mapping for policies with several keys. Without a key, the user in `flask.g.user` or of Flask-Login is
    used, else the client's IP address. If `skip` is true, the request is not checked. `on_error`
    overrides the client's. With `observe`, the latency of each response that passed is reported as that of
    this target, for adaptive limits. Preflights of browsers are not counted.
    """

    def __init__(
        self,
        policy: Plain[str, Request],
        *,
        client: SyncTidegate,
        key: Plain[Key | None, Request] = None,
        cost: Plain[int, Request] = 1,
        skip: Plain[bool, Request] = False,
        on_error: OnError | None = None,
        observe: str | None = None,
    ) -> None:
        self._rule: Rule[Request] = Rule(policy, key, cost, skip, on_error)
        self._client = check_client(client, SyncTidegate, "Flask")
        self._observe = check_target(observe)
        self._late_user = LateUser("Register `check` after the function that sets `g.user`")

    def __call__(self, view: Callable[P, R]) -> Callable[P, R | Response]:
        """Limit a view."""

        @wraps(view)
        def limited(*args: P.args, **kwargs: P.kwargs) -> R | Response:
            denied = self.check()
            return current_app.ensure_sync(view)(*args, **kwargs) if denied is None else denied

        return limited

    def check(self) -> Response | None:
        """Check the current request: the response if it is denied, else None."""
        if is_preflight(request.method, request.headers.get):
            return None
        decision = self._rule.decide_sync(self._client, request, self._default_key)
        if decision is None:
            return None
        if not decision.allowed:
            denied = refusal(decision)
            return Response(denied.body(), denied.status, denied.headers, content_type=CONTENT_TYPE)
        after_this_request(self._observing())
        if "tidegate" not in g:
            after_this_request(_with_headers)
        # Of several limits, the view's is the last.
        g.tidegate = decision
        return None

    def _observing(self) -> Callable[[Response], Response]:
        watch = Stopwatch(self._client, self._observe)

        def stop(response: Response) -> Response:
            watch.stop(ok=response.status_code < 500)
            return response

        return stop

    def _default_key(self) -> str:
        user = _user()
        if not is_user(user):
            after_this_request(self._warn_of_late_user)
        return user_or_address(user, request.remote_addr)

    def _warn_of_late_user(self, response: Response) -> Response:
        if is_user(g.get("user")):
            self._late_user.warn()
        return response


def _user() -> object:
    """The user in `g.user`, else the one that Flask-Login loads for whoever asks first."""
    user: object = g.get("user")
    if user is None and hasattr(current_app, "login_manager"):
        from flask_login import current_user  # type: ignore[import-untyped] # only if in use

        user = current_user
    return user


def _with_headers(response: Response) -> Response:
    for name, value in g.tidegate.headers.items():
        response.headers.setdefault(name, value)
    return response
