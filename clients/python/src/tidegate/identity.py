"""The default key of a request: the user, else the IP address."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Any
from uuid import UUID

# An IPv6 client can use every address of its /64 network.
IPV6_PREFIX = 64
# Names of the user's identity in Starlette, Django and others.
NAMES = ("identity", "id", "display_name")


def default_key(scope: Mapping[str, Any]) -> str:
    """The user set by an authentication middleware, else the client's IP address.

    The address is `scope["client"]`. Behind a proxy, let the server set it, e.g. with
    `uvicorn --proxy-headers --forwarded-allow-ips`.
    """
    user = user_key(scope.get("user"))
    if user is not None:
        return user
    client = scope.get("client")
    if not client or not client[0]:
        raise RuntimeError(
            "no client address, e.g. behind a Unix socket: set `key`, or let the server read the proxy's"
            " headers"
        )
    return address_key(str(client[0]))


def user_key(user: object) -> str | None:
    """The identity of an authenticated user, else None."""
    if user is None or getattr(user, "is_authenticated", True) is False:
        return None
    for name in NAMES:
        value = _attribute(user, name)
        if isinstance(value, str | int | UUID) and str(value):
            return str(value)
    return None


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
