"""Where the server is, and the options that both clients share."""

from __future__ import annotations

import os
import ssl as tls
from dataclasses import dataclass
from typing import TypedDict
from urllib.parse import urlsplit

from .checks import number, whole
from .fallback import OnError


class ClientOptions(TypedDict, total=False):
    """The options of both clients, besides `url`."""

    socket: str | os.PathLike[str] | None
    timeout: float
    on_error: OnError
    processes: int
    token: str | None
    ssl: tls.SSLContext | None
    max_connections: int


@dataclass(frozen=True, slots=True)
class Address:
    """The server's address and credentials."""

    base: str
    socket: str | None
    token: str | None
    ssl: tls.SSLContext | None

    @classmethod
    def parse(
        cls,
        url: str | None,
        socket: str | os.PathLike[str] | None,
        token: str | None,
        ssl: tls.SSLContext | None,
    ) -> Address:
        """Validate the options. Raise a `ValueError` if one is invalid."""
        if url is not None and socket is not None:
            raise ValueError("socket: set either `url` or `socket`, not both")
        if token is not None and not (token and token.isascii() and token.isprintable()):
            raise ValueError("token: expected printable ASCII characters")
        if socket is not None:
            # The server's file writes it with `unix:` in front.
            return cls("http://tidegate", os.fspath(socket).removeprefix("unix:"), token, ssl)
        return cls(_base("http://127.0.0.1:8080" if url is None else url), None, token, ssl)


def _base(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"url: expected a URL like http://127.0.0.1:8080, got {url!r}")
    if parts.query or parts.fragment or parts.username is not None:
        raise ValueError(f"url: expected no user, query or fragment, got {url!r}")
    _ = parts.port  # raises a ValueError if invalid
    return url.rstrip("/")


def check_bounds(timeout: float, max_connections: int, processes: int) -> None:
    """Raise a `ValueError` if a bound is invalid."""
    if not number("timeout", timeout, 3600) > 0:
        raise ValueError("timeout: expected more than 0 seconds")
    whole("max_connections", max_connections, 10_000, least=1)
    whole("processes", processes, 100_000, least=1)
