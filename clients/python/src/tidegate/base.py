"""What both clients have: their options, and what holds while the server does not answer."""

from __future__ import annotations

import os
import ssl as tls

from .address import Address, check_bounds
from .fallback import Fallback, OnError, check_on_error
from .local import LocalLimits
from .observations import Observations
from .policies import ServerPolicies
from .renewals import Renewals


class ClientBase:
    """The options of both clients."""

    def __init__(
        self,
        url: str | None = None,
        *,
        socket: str | os.PathLike[str] | None = None,
        timeout: float = 1.0,
        on_error: OnError = "allow",
        processes: int = 1,
        token: str | None = None,
        ssl: tls.SSLContext | None = None,
        max_connections: int = 32,
    ) -> None:
        self._address = Address.parse(url, socket, token, ssl)
        check_bounds(timeout, max_connections, processes)
        self._timeout = timeout
        self._max_connections = max_connections
        self._on_error = check_on_error(on_error)
        self._processes = processes
        self._closed = False
        self._start()

    def _start(self) -> None:
        """Create what has a lock. Also in a forked child, where a thread of the parent may have held it."""
        self._policies = ServerPolicies()
        self._fallback = Fallback(self._on_error, self._policies, LocalLimits(self._processes))
        self._observations = Observations()
        self._renewals = Renewals()
        self._prepare(self._on_error)

    def _prepare(self, on_error: OnError | None) -> None:
        """Check an `on_error`, and begin to read the limits if it may need them."""
        if on_error is not None and check_on_error(on_error) == "local":
            self._policies.keep_fresh()

    @property
    def fallbacks(self) -> int:
        """The number of decisions that this process made without the server."""
        return self._fallback.count
