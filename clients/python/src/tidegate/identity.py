"""The default key of a request: the user, else the IP address."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Any
from uuid import UUID

from .checks import Key
from .fallback import log

# An IPv6 client can use every address of its /64 network.
IPV6_PREFIX = 64
# Names of the user's identity in Starlette, Django, JSON Web Tokens, Flask-Login and others.
NAMES = ("identity", "id", "pk", "sub", "get_id", "display_name")


def default_key(scope: Mapping[str, Any]) -> str:
    """The user set by an authentication middleware, else the client's IP address.

    The address is `scope["client"]`. Behind a proxy, let the server set it, e.g. with
    `uvicorn --proxy-headers --forwarded-allow-ips`.
    """
    return user_or_address(scope.get("user"), (scope.get("client") or [None])[0])


def user_or_address(user: object, host: object) -> str:
    """The key of a user, else of the client's address."""
    if is_user(user):
        return user_key(user)
    if not host:
        raise RuntimeError(
            "no client address, e.g. behind a Unix socket: set `key`, or let the server read the proxy's"
            " headers"
        )
    return address_key(str(host))


def is_user(user: object) -> bool:
    """Whether it is somebody: not None, and not the anonymous user of a framework."""
    return user is not None and getattr(user, "is_authenticated", True) is not False


def user_key(user: object) -> str:
    """The identity of an authenticated user, an object or a mapping.

    Raises for a user without one: users behind one address would share a limit unnoticed.
    """
    for name in NAMES:
        value = user.get(name) if isinstance(user, Mapping) else _attribute(user, name)
        if isinstance(value, str | int | UUID) and str(value):
            return str(value)
    names = ", ".join(NAMES)
    raise TypeError(f"key: the user, a {type(user).__name__}, has none of {names}: set `key`")


def key_of(value: object) -> Key | None:
    """The key in what a dependency returns: a key, a user, or None for a visitor."""
    if value is None or isinstance(value, str | int | UUID):
        return value
    if isinstance(value, Mapping) and not any(value.get(name) for name in NAMES):
        return value
    return user_key(value) if is_user(value) else None


def _attribute(user: object, name: str) -> object:
    try:
        value = getattr(user, name, None)
        return value() if name == "get_id" and callable(value) else value
    except NotImplementedError:  # Starlette's own SimpleUser has no identity
        return None


class LateUser:
    """Warns once if a request that was limited by its address turns out to have a user."""

    def __init__(self, advice: str) -> None:
        self._advice = advice
        self._has_warned = False

    def warn(self) -> None:
        """Warn, the first time."""
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "a request was limited by its IP address, because its user was not known yet. %s",
                self._advice,
            )


def address_key(host: str) -> str:
    """The key for an address, in the same form as the server's."""
    try:
        address = ip_address(host)
    except ValueError:
        return host  # a name, such as `testclient`
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(IPv6Network((int(address), IPV6_PREFIX), strict=False))
    return str(address)
