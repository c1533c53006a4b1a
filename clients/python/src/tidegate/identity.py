"""The default key of a request: the user, else the IP address."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Any
from uuid import UUID

from .checks import Key

# An IPv6 client can use every address of its /64 network.
IPV6_PREFIX = 64
# Names of the user's identity in Starlette, Django, JSON Web Tokens and others.
NAMES = ("identity", "id", "pk", "sub", "display_name")


def default_key(scope: Mapping[str, Any]) -> str:
    """The user set by an authentication middleware, else the client's IP address.

    The address is `scope["client"]`. Behind a proxy, let the server set it, e.g. with
    `uvicorn --proxy-headers --forwarded-allow-ips`.
    """
    return user_or_address(scope.get("user"), (scope.get("client") or [None])[0])


def user_or_address(user: object, host: object) -> str:
    """The key of a user, else of the client's address."""
    key = user_key(user)
    if key is not None:
        return key
    if not host:
        raise RuntimeError(
            "no client address, e.g. behind a Unix socket: set `key`, or let the server read the proxy's"
            " headers"
        )
    return address_key(str(host))


def user_key(user: object) -> str | None:
    """The identity of an authenticated user, an object or a mapping; else None."""
    if user is None or getattr(user, "is_authenticated", True) is False:
        return None
    for name in NAMES:
        value = user.get(name) if isinstance(user, Mapping) else _attribute(user, name)
        if isinstance(value, str | int | UUID) and str(value):
            return str(value)
    return None


def key_of(value: object) -> Key | None:
    """The key in what a dependency returns: a key, a user, or None for a visitor.

    Raises for a user without an identity: visitors behind one address would share a limit unnoticed.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | UUID) and not isinstance(value, bool):
        return str(value)
    key = user_key(value)
    if key is not None:
        return key
    if isinstance(value, Mapping):
        return value
    if getattr(value, "is_authenticated", True) is False:
        return None
    names = ", ".join(NAMES)
    raise TypeError(f"key: {type(value).__name__} has none of {names}: let the dependency return a string")


def _attribute(user: object, name: str) -> object:
    try:
        return getattr(user, name, None)
    except NotImplementedError:  # Starlette's own SimpleUser has no identity
        return None


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
