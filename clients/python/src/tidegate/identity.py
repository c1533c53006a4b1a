"""Whose request it is, unless the application says so itself."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Any
from uuid import UUID

# Whoever has one address of IPv6 has the others of its network as well.
IPV6_PREFIX = 64
# What users are called by Starlette, Django and others.
NAMES = ("identity", "id", "display_name")


def default_key(scope: Mapping[str, Any]) -> str:
    """The user, if an authentication middleware has found one, else the client's address.

    The address is that of `scope["client"]`: behind a proxy, have your server put the client's there,
    as `uvicorn --proxy-headers --forwarded-allow-ips` does.
    """
    user = user_key(scope.get("user"))
    if user is not None:
        return user
    client = scope.get("client")
    if not client or not client[0]:
        raise RuntimeError(
            "the server knows no client address, as behind a Unix socket: give the middleware a `key`,"
            " or have the server read the proxy's headers"
        )
    return address_key(str(client[0]))


def user_key(user: object) -> str | None:
    """The name of a user who is known."""
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
    """The address as the server's other doors name it, so that all count the same client."""
    try:
        address = ip_address(host)
    except ValueError:
        return host  # no address, as `testclient`: a name is as good
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(IPv6Network((int(address), IPV6_PREFIX), strict=False))
    return str(address)
