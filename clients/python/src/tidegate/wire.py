"""The HTTP transport of the asyncio client. Only this file uses aiohttp."""

from __future__ import annotations

import aiohttp

from .address import Address
from .errors import TidegateError
from .replies import REPLY_BYTES_MAX, Reply, too_large


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

    async def send(self, path: str, body: bytes | None) -> Reply:
        """Send a call once. It is never repeated: the server may have charged it."""
        method = "GET" if body is None else "POST"
        try:
            async with self._session.request(
                method, self._base + path, data=body, allow_redirects=False
            ) as response:
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
            raise too_large()
    return bytes(body)
