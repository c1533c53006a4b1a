"""The HTTP transport of the synchronous client: a bounded pool of keep-alive connections for threads."""

from __future__ import annotations

import io
import select
import socket
import ssl as tls
import threading
import time
from http.client import HTTPException, HTTPResponse
from typing import TYPE_CHECKING, cast
from urllib.parse import quote, urlsplit

from .address import Address
from .errors import TidegateError
from .replies import REPLY_BYTES_MAX, Reply, too_large

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class Pool:
    """At most `size` connections. A call waits for a free one until its deadline."""

    def __init__(self, address: Address, size: int) -> None:
        self._address = address
        self._head = _head(address)
        self._ssl = address.ssl
        if self._ssl is None and address.base.startswith("https:"):
            self._ssl = tls.create_default_context()
        self._size = size
        self._freed = threading.Condition()
        self._idle: list[_Connection] = []
        self._open = 0
        self._closed = False

    def send(self, path: str, body: bytes | None, timeout: float) -> Reply:
        """Send a call once. It is never repeated: the server may have charged it."""
        deadline = time.monotonic() + timeout
        connection: _Connection | None = None
        try:
            connection = self._take(deadline)
            return connection.exchange(self._request(path, body), deadline)
        except TimeoutError:
            raise TidegateError(f"no answer within {timeout:g} s") from None
        except (OSError, HTTPException) as error:
            raise TidegateError(f"no answer: {str(error) or type(error).__name__}") from error
        finally:
            if connection is not None:
                self._give_back(connection)

    def close(self) -> None:
        """Close the connections; those in use when their calls end."""
        with self._freed:
            self._closed = True
            idle, self._idle = self._idle, []
            self._open -= len(idle)
        for connection in idle:
            connection.close()

    def abandon(self) -> None:
        """Close idle connections without the lock, which a thread of the parent may have held at the fork."""
        for connection in self._idle:
            connection.close()

    def _request(self, path: str, body: bytes | None) -> bytes:
        prefix, headers = self._head
        if body is None:
            return f"GET {prefix}{path} HTTP/1.1\r\n{headers}\r\n".encode()
        head = f"POST {prefix}{path} HTTP/1.1\r\n{headers}content-length: {len(body)}\r\n\r\n"
        return head.encode() + body

    def _take(self, deadline: float) -> _Connection:
        with self._freed:
            while not self._idle and self._open >= self._size:
                if not self._freed.wait(_left(deadline)):
                    raise TimeoutError
            while self._idle:
                connection = self._idle.pop()
                if connection.is_usable():
                    return connection
                connection.close()
                self._open -= 1
            self._open += 1
        return _Connection(self._address, self._ssl)

    def _give_back(self, connection: _Connection) -> None:
        with self._freed:
            keep = connection.is_idle and not self._closed
            if keep:
                self._idle.append(connection)
            else:
                self._open -= 1
            self._freed.notify()
        if not keep:
            connection.close()


class _Connection:
    """One connection, opened by its first call."""

    def __init__(self, address: Address, ssl: tls.SSLContext | None) -> None:
        self._address = address
        self._ssl = ssl
        self._socket: socket.socket | None = None
        self.is_idle = False
        """Whether the last reply was read to its end, and the server keeps the connection open."""

    def exchange(self, request: bytes, deadline: float) -> Reply:
        self.is_idle = False
        if self._socket is None:
            self._socket = self._connect(deadline)
        self._socket.settimeout(_left(deadline))
        self._socket.sendall(request)
        # It reads from anything with `makefile`.
        response = HTTPResponse(cast("socket.socket", _Reader(self._socket, deadline)))
        try:
            response.begin()
            body = response.read(REPLY_BYTES_MAX + 1)
            if len(body) > REPLY_BYTES_MAX:
                raise too_large()
            self.is_idle = response.isclosed() and not response.will_close
            return Reply(
                response.status, {name.lower(): value for name, value in response.getheaders()}, body
            )
        finally:
            response.close()

    def is_usable(self) -> bool:
        """Whether an idle connection is still open: a closed one is readable."""
        return self._socket is not None and not _is_readable(self._socket)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    def _connect(self, deadline: float) -> socket.socket:
        if self._address.socket is not None:
            return _connected(socket.AF_UNIX, self._address.socket, deadline)
        parts = urlsplit(self._address.base)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        failure: OSError = OSError("no address")
        for family, _, _, _, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            try:
                connection = _connected(family, place, deadline)
            except OSError as error:
                failure = error
                continue
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection if self._ssl is None else self._secured(connection, self._ssl, host, deadline)
        raise failure

    @staticmethod
    def _secured(plain: socket.socket, ssl: tls.SSLContext, host: str, deadline: float) -> socket.socket:
        try:
            plain.settimeout(_left(deadline))
            return ssl.wrap_socket(plain, server_hostname=host)
        except BaseException:
            plain.close()
            raise


class _Reader(io.RawIOBase):
    """Reads from a socket until a deadline, however slowly the bytes arrive."""

    def __init__(self, source: socket.socket, deadline: float) -> None:
        self._source = source
        self._deadline = deadline

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        self._source.settimeout(_left(self._deadline))
        return self._source.recv_into(buffer)


def _head(address: Address) -> tuple[str, str]:
    """The prefix of every path, and the headers of every request."""
    parts = urlsplit(address.base)
    lines = [
        f"host: {parts.netloc}",
        "content-type: application/json",
        "accept: application/json, application/problem+json",
        *([] if address.token is None else [f"authorization: Bearer {address.token}"]),
    ]
    return quote(parts.path, safe="/%:@!$&'()*+,;=~"), "".join(f"{line}\r\n" for line in lines)


def _connected(family: int, place: object, deadline: float) -> socket.socket:
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.settimeout(_left(deadline))
        connection.connect(place)  # type: ignore[arg-type]  # an address of this family
    except BaseException:
        connection.close()
        raise
    return connection


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _is_readable(connection: socket.socket) -> bool:
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([connection], [], [], 0)[0])
    # Not `select`, which knows file descriptors below 1024 only.
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))
