"""The synchronous client, for threads: the calls of the asyncio client without `await`."""

from __future__ import annotations

import contextlib
import os
import ssl as tls
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self, TypeVar

from . import calls
from .address import Address, check_bounds
from .calls import Call
from .checks import Check, Key
from .circuit import Circuit
from .errors import TidegateError
from .fallback import Fallback, OnError
from .names import ExpectedPolicies, report_unknown
from .pool import Pool
from .replies import Decision, Reservation, decode

T = TypeVar("T")


class SyncTidegate:
    """A client of a tidegate server for synchronous programs: Flask, Django, scripts, worker threads.

    Options, decisions and failures are those of `Tidegate`. `timeout` is for the whole call, including
    the wait for one of `max_connections` connections. Threads share a client, and so do processes that
    are forked: each child opens its own connections.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        socket: str | os.PathLike[str] | None = None,
        timeout: float = 1.0,
        on_error: OnError = "allow",
        token: str | None = None,
        ssl: tls.SSLContext | None = None,
        max_connections: int = 32,
    ) -> None:
        self._address = Address.parse(url, socket, token, ssl)
        check_bounds(timeout, max_connections)
        self._timeout = timeout
        self._max_connections = max_connections
        self._on_error = on_error
        self._closed = False
        self._start()
        _clients.add(self)

    def _start(self) -> None:
        """Create all that has a lock or a connection. Also in a forked child, where a lock may be held."""
        self._pool = Pool(self._address, self._max_connections)
        self._circuit = Circuit(time.monotonic)
        self._fallback = Fallback(self._on_error)
        self._expected = ExpectedPolicies()

    @property
    def fallbacks(self) -> int:
        """The number of decisions that this process made without the server."""
        return self._fallback.count

    def check(self, policy: str, key: Key, cost: int = 1, *, on_error: OnError | None = None) -> Decision:
        """Check a key against a policy, and charge `cost` if allowed.

        The decision has the headers for your own client. `on_error` overrides the client's.
        """
        return self._ask(calls.decision("/v1/check", policy, key, cost, on_error))

    def check_many(self, checks: Iterable[Check], *, atomic: bool = False) -> list[Decision]:
        """Make many checks, with decisions in the same order. With `atomic`, all are charged or none.

        More than 1000 checks are sent as several calls, so they cannot be atomic.
        """
        return [one for call in calls.batches(checks, atomic) for one in self._ask(call)]

    def peek(self, policy: str, key: Key, cost: int = 1) -> Decision:
        """Return what a check would, and charge nothing. Cost 0 shows what is left."""
        return self._ask(calls.decision("/v1/peek", policy, key, cost))

    def refund(self, policy: str, key: Key, cost: int = 1) -> Decision:
        """Return up to `cost` units, and report what is left."""
        return self._ask(calls.decision("/v1/refund", policy, key, cost))

    def reset(self, policy: str, key: Key) -> Decision:
        """Reset a key. Needs the server's `token`, or a server on the same machine. Raises if it fails."""
        return self._ask(calls.reset(policy, key))

    def reserve(self, policy: str, key: Key, cost: int = 1) -> Reservation:
        """Reserve a slot in a leaky bucket. Wait its `delay`, then start."""
        return self._ask(calls.reserve(policy, key, cost))

    def schedule(self, policy: str, key: Key, cost: int = 1) -> Reservation:
        """Reserve a slot in a leaky bucket, and wait until it begins. Returns at once if not accepted."""
        reservation = self.reserve(policy, key, cost)
        time.sleep(reservation.delay)
        return reservation

    def acquire(self, policy: str, key: Key, cost: int = 1) -> Decision:
        """Acquire a permit of a concurrency limit. Pass the decision's `permit` to `release`."""
        return self._ask(calls.decision("/v1/acquire", policy, key, cost))

    def release(self, policy: str, key: Key, permit: str) -> bool:
        """Release a permit. Return whether the server did; a permit that is not released expires."""
        return self._ask(calls.release(policy, key, permit))

    @contextlib.contextmanager
    def permit(self, policy: str, key: Key, cost: int = 1) -> Iterator[Decision]:
        """Hold a permit of a concurrency limit for a block, if the decision is `allowed`.

        If the release fails, the permit expires by itself, regardless of `on_error`: the result of the
        block must not be lost.
        """
        decision = self.acquire(policy, key, cost)
        try:
            yield decision
        finally:
            if decision.permit is not None:
                try:
                    self.release(policy, key, decision.permit)
                except TidegateError as error:
                    self._fallback.record(error, "permit not released")

    def observe(
        self,
        target: str,
        latency_ms: float | None = None,
        *,
        ok: bool = True,
        queue_ms: float | None = None,
        saturation: float | None = None,
        url: str | None = None,
    ) -> bool:
        """Report the latency and load of a service, for adaptive limits. Return whether it was sent."""
        return self._ask(calls.observe(target, latency_ms, ok, queue_ms, saturation, url))

    def policy_names(self) -> list[str]:
        """Return the names of the server's policies. Raises if it fails."""
        return self._ask(calls.policy_names())

    def expect_policies(self, names: Iterable[str]) -> None:
        """Log an error for each name that the server does not have. Ask once, in a thread."""
        unchecked = self._expected.add(names)
        if unchecked:
            threading.Thread(target=self._report_unknown, args=[unchecked], daemon=True).start()

    def close(self) -> None:
        """Close the connections; those in use when their calls end."""
        self._closed = True
        self._pool.close()

    def __enter__(self) -> Self:
        """Connections are opened on demand."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the client."""
        self.close()

    def _ask(self, call: Call[T]) -> T:
        if self._closed:
            raise RuntimeError("the client is closed")
        try:
            with self._circuit.call():
                reply = self._pool.send(call.path, call.body, self._timeout)
                return decode(reply, call.read, self._circuit.answered)
        except TidegateError as error:
            return call.without_answer(self._fallback, error)

    def _report_unknown(self, names: list[str]) -> None:
        # The checks report a server that does not answer; a client that was closed meanwhile has no checks.
        with contextlib.suppress(TidegateError, RuntimeError):
            report_unknown(names, self.policy_names())

    def _after_fork(self) -> None:
        """Close this process' copies of the parent's connections: two processes would mix their replies."""
        inherited = self._pool
        self._start()
        inherited.abandon()


# Not in the constructor: a hook can never be removed.
_clients: weakref.WeakSet[SyncTidegate] = weakref.WeakSet()


def _after_fork() -> None:
    for client in list(_clients):
        client._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
