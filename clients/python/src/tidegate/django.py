"""Limits for Django: a middleware, and a decorator for views. Needs `pip install tidegate[django]`.

The client and the options of the middleware are in the settings:
`TIDEGATE = {"url": "http://127.0.0.1:8080", "policy": "api"}`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.module_loading import import_string

from .checks import Key
from .fallback import OnError
from .identity import LateUser, user_or_address
from .observations import Stopwatch, check_target
from .refusal import CONTENT_TYPE, refusal
from .rule import Plain, Rule, is_preflight
from .sync import SyncTidegate

P = ParamSpec("P")
T = TypeVar("T")
View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]

CLIENT_OPTIONS = tuple(inspect.signature(SyncTidegate).parameters)
RULE_OPTIONS = ("policy", "key", "cost", "skip", "observe")
DOTTED_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")


@cache
def client() -> SyncTidegate:
    """The client of the settings, for all views of a process."""
    options = _settings(CLIENT_OPTIONS)
    try:
        return SyncTidegate(**options)
    except (TypeError, ValueError) as error:
        raise ImproperlyConfigured(f"TIDEGATE: {error}") from error


def _forget_client(*, setting: str, **_: object) -> None:
    """Follow `override_settings` in tests."""
    if setting == "TIDEGATE" and client.cache_info().currsize:
        client().close()
        client.cache_clear()


setting_changed.connect(_forget_client)


class RateLimitMiddleware:
    """Checks every request with the `policy` of the settings. Add it below `AuthenticationMiddleware`.

    The settings also have `key`, `cost` and `skip`: values, functions of the request, or dotted paths of
    functions. Without a key, the authenticated user is used, else the client's IP address. With `observe`,
    the latency of each response that passed is reported as that of this target, for adaptive limits.
    Preflights of browsers are not counted.
    """

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        options = _settings(RULE_OPTIONS)
        if "policy" not in options:
            raise ImproperlyConfigured("TIDEGATE: `policy` is missing, the name of a policy")
        try:
            self._observe = check_target(options.pop("observe", None))
            self._rule = _rule(**options)
        except (TypeError, ValueError) as error:
            raise ImproperlyConfigured(f"TIDEGATE: {error}") from error
        client()  # checks its options at the start
        self._get_response = get_response
        self._late_user = LateUser("Put the middleware below AuthenticationMiddleware")

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Check a request, then pass it on or deny it."""
        had_user = hasattr(request, "user")
        response = _limited(self._rule, request, self._get_response, self._observe)
        # Not whether it is anybody: that would load the session of every visitor.
        if self._rule.key is None and not had_user and hasattr(request, "user"):
            self._late_user.warn()
        return response


def rate_limit(
    policy: Plain[str, HttpRequest],
    *,
    key: Plain[Key | None, HttpRequest] = None,
    cost: Plain[int, HttpRequest] = 1,
    skip: Plain[bool, HttpRequest] = False,
    on_error: OnError | None = None,
) -> Callable[[View[P]], View[P]]:
    """Limit a view, with the options of the middleware."""
    rule = _rule(policy, key, cost, skip, on_error)
    if settings.configured:  # else this is a script that configures them later
        client()

    def decorate(view: View[P]) -> View[P]:
        if inspect.iscoroutinefunction(view):
            raise TypeError(f"{view.__name__}: for async views, use tidegate.asgi or a synchronous view")

        @wraps(view)
        def limited(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            return _limited(rule, request, lambda request: view(request, *args, **kwargs))

        return cast("View[P]", limited)

    return decorate


def _rule(
    policy: Plain[str, HttpRequest],
    key: Plain[Key | None, HttpRequest] = None,
    cost: Plain[int, HttpRequest] = 1,
    skip: Plain[bool, HttpRequest] = False,
    on_error: OnError | None = None,
) -> Rule[HttpRequest]:
    return Rule(policy, _imported("key", key), _imported("cost", cost), _imported("skip", skip), on_error)


def _imported(name: str, given: T) -> T:
    """The function at a dotted path, as Django's own settings name functions."""
    if not isinstance(given, str) or not DOTTED_PATH.fullmatch(given):
        return given
    try:
        found = import_string(given)
    except ImportError as error:
        raise ImproperlyConfigured(
            f"{name}: {given!r} is no path of a function ({error}). For this text itself, write"
            f" lambda request: {given!r}"
        ) from error
    if not callable(found):
        raise ImproperlyConfigured(f"{name}: {given!r} is no function of the request, but {found!r:.80}")
    return cast("T", found)


def _limited(
    rule: Rule[HttpRequest],
    request: HttpRequest,
    view: Callable[[HttpRequest], HttpResponseBase],
    observe: str | None = None,
) -> HttpResponseBase:
    if is_preflight(request.method or "", request.headers.get):
        return view(request)
    decision = rule.decide_sync(
        client(),
        request,
        lambda: user_or_address(getattr(request, "user", None), request.META.get("REMOTE_ADDR")),
    )
    if decision is None:
        return view(request)
    if not decision.allowed:
        denied = refusal(decision)
        return HttpResponse(denied.body(), CONTENT_TYPE, denied.status, headers=denied.headers)
    watch = Stopwatch(client(), observe)
    response = view(request)
    watch.stop(ok=response.status_code < 500)
    for name, value in decision.headers.items():
        response.headers.setdefault(name, value)
    return response


def _settings(names: tuple[str, ...]) -> dict[str, Any]:
    given = getattr(settings, "TIDEGATE", {})
    unknown = sorted(set(given) - set(CLIENT_OPTIONS) - set(RULE_OPTIONS))
    if unknown:
        known = ", ".join((*CLIENT_OPTIONS, *RULE_OPTIONS))
        raise ImproperlyConfigured(f"TIDEGATE: expected only {known}, got `{unknown[0]}`")
    return {name: given[name] for name in names if name in given}
