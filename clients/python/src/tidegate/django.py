"""Limits for Django: a middleware, and a decorator for views. Needs `pip install tidegate[django]`.

The client and the options of the middleware are in the settings:
`TIDEGATE = {"url": "http://127.0.0.1:8080", "policy": "api"}`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, Concatenate, ParamSpec, cast

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from .checks import Key
from .fallback import OnError
from .identity import user_or_address
from .refusal import CONTENT_TYPE, refusal
from .rule import Plain, Rule, is_preflight
from .sync import SyncTidegate

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]

CLIENT_OPTIONS = tuple(inspect.signature(SyncTidegate).parameters)
RULE_OPTIONS = ("policy", "key", "cost", "skip")


@cache
def client() -> SyncTidegate:
    """The client of the settings, for all views of a process."""
    return SyncTidegate(**_settings(CLIENT_OPTIONS))


class RateLimitMiddleware:
    """Checks every request with the `policy` of the settings. Add it below `AuthenticationMiddleware`.

    The settings also have `key`, `cost` and `skip`: values or functions of the request. Without a key,
    the authenticated user is used, else the client's IP address. Preflights of browsers are not counted.
    """

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        options = _settings(RULE_OPTIONS)
        if "policy" not in options:
            raise ImproperlyConfigured("TIDEGATE: `policy` is missing, the name of a policy")
        self._rule: Rule[HttpRequest] = Rule(**options)
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Check a request, then pass it on or deny it."""
        return _limited(self._rule, request, self._get_response)


def rate_limit(
    policy: Plain[str, HttpRequest],
    *,
    key: Plain[Key | None, HttpRequest] = None,
    cost: Plain[int, HttpRequest] = 1,
    skip: Plain[bool, HttpRequest] = False,
    on_error: OnError | None = None,
) -> Callable[[View[P]], View[P]]:
    """Limit a view, with the options of the middleware."""
    rule: Rule[HttpRequest] = Rule(policy, key, cost, skip, on_error)

    def decorate(view: View[P]) -> View[P]:
        if inspect.iscoroutinefunction(view):
            raise TypeError(f"{view.__name__}: for async views, use tidegate.asgi or a synchronous view")

        @wraps(view)
        def limited(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            return _limited(rule, request, lambda request: view(request, *args, **kwargs))

        return cast("View[P]", limited)

    return decorate


def _limited(
    rule: Rule[HttpRequest], request: HttpRequest, view: Callable[[HttpRequest], HttpResponseBase]
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
    response = view(request)
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
