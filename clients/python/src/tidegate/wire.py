"""The HTTP transport. Only this file uses aiohttp."""

from __future__ import annotations

import os
import ssl as tls
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp

from .errors import TidegateError
from .replies import Reply

# A thousand decisions take about 150 kB.
REPLY_BYTES_MAX = 2 * 1024 * 1024


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
            return cls("http://tidegate", os.fspath(socket), token, ssl)
        return cls(_base("http://127.0.0.1:8080" if url is None else url), None, token, ssl)


def _base(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"url: expected a URL like http://127.0.0.1:8080, got {url!r}")
    if parts.query or parts.fragment or parts.username is not None:
        raise ValueError(f"url: expected no user, query or fragment, got {url!r}")
    _ = parts.port  # raises a ValueError if invalid
    return url.rstrip("/")


class Wire:
    """The connections of one event loop."""

    def __init__(self, address: Address, connections_max: int) -> None:
        self._base = address.base
        ssl = True if address.ssl is None else address.ssl
        connector: aiohttp.BaseConnector
        if address.socket is None:
            connector = aiohttp.TCPConnector(limit=connections_max, ssl=ssl)
        else:
            connector = aiohttp.UnixConnector(address.socket, limit=connections_max)
        # No compression, so that the size limit holds.
        headers = {"content-type": "application/json", "accept-encoding": "identity"}
        if address.token is not None:
            headers["authorization"] = f"Bearer {address.token}"
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            # CallSlots applies the timeout.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        )

    async def post(self, path: str, body: bytes) -> Reply:
        """Send a call once. It is never repeated: the server may have charged it."""
        try:
            async with self._session.post(self._base + path, data=body, allow_redirects=False) as response:
                headers = {name.lower(): value for name, value in response.headers.items()}
                return Reply(response.status, headers, await _bounded(response))
        except (aiohttp.ClientError, OSError) as error:
            raise TidegateError(f"no answer: {str(error) or type(error).__name__}") from error

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > REPLY_BYTES_MAX:
            response.close()
            raise TidegateError(f"the reply has more than {REPLY_BYTES_MAX} bytes")
    return bytes(body)
