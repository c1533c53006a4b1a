"""The synchronous client, for threads: the calls of the asyncio client without `await`."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self, TypeVar

from . import calls
from .base import ClientBase
from .calls import Call
from .checks import Check, Key
from .circuit import Circuit
from .errors import TidegateError
from .fallback import OnError
from .ledger import PERMIT_PREFIX
from .observations import INTERVAL_SECONDS, Observation
from .pool import Pool
from .renewals import HeldPermit, RenewalThread
from .replies import Decision, Reservation, decode

T = TypeVar("T")


class SyncTidegate(ClientBase):
    """A client of a tidegate server for synchronous programs: Flask, Django, scripts, worker threads.

    Options, decisions and failures are those of `Tidegate`. `timeout` is for the whole call, including
    the wait for one of `max_connections` connections. Threads share a client, and so do processes that
    are forked: each child opens its own connections.
    """

    def _start(self) -> None:
        super()._start()
        self._pool = Pool(self._address, self._max_connections)
        self._circuit = Circuit(time.monotonic)
        self._renewal_thread = RenewalThread(self._renew)
        _clients.add(self)

    def check(self, policy: str, key: Key, cost: int = 1, *, on_error: OnError | None = None) -> Decision:
        """Check a key against a policy, and charge `cost` if allowed.

        The decision has the headers for your own client. `on_error` overrides the client's.
        """
        self._prepare(on_error)
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
        decision = self._ask(calls.decision("/v1/acquire", policy, key, cost))
        refusal = self._fallback.granted(Check(policy, key, cost), decision)
        if refusal is not None:
            self._release_quietly(policy, key, decision.permit)
        return refusal or decision

    def release(self, policy: str, key: Key, permit: str) -> bool:
        """Release a permit. Return whether the server did; a permit that is not released expires."""
        call = calls.release(policy, key, permit)
        was_held = self._fallback.local.release(permit)
        if permit.startswith(PERMIT_PREFIX):
            return was_held
        released = self._ask(call)
        if was_held and not released:
            self._fallback.local.doubt_permits()
        return released

    def _release_quietly(self, policy: str, key: Key, permit: str | None) -> None:
        if permit is None:
            return
        try:
            self.release(policy, key, permit)
        except TidegateError as error:
            self._fallback.record(error, "permit not released")

    def renew(self, policy: str, key: Key, permit: str) -> int | None:
        """Keep a permit for as long again as it was granted for. Return that time in ms; None if it is lost.

        Raises if the server does not answer, regardless of `on_error`.
        """
        call = calls.renew(policy, key, permit)
        ttl_ms = self._fallback.local.renew(permit)
        if permit.startswith(PERMIT_PREFIX):
            return ttl_ms
        try:
            ttl_ms = self._send(call)
        except TidegateError as error:
            self._fallback.unanswered(error)
            raise
        self._fallback.local.renewed(permit, ttl_ms)
        return ttl_ms

    @contextlib.contextmanager
    def permit(self, policy: str, key: Key, cost: int = 1) -> Iterator[Decision]:
        """Hold a permit of a concurrency limit for a block, if the decision is `allowed`.

        The permit is renewed while the block runs. If the release fails, the permit expires by itself,
        regardless of `on_error`: the result of the block must not be lost.
        """
        decision = self.acquire(policy, key, cost)
        held = HeldPermit.from_decision(decision, key)
        if held is not None and self._renewals.are_supported:
            self._renewal_thread.add(held)
        try:
            yield decision
        finally:
            if held is not None:
                self._renewal_thread.remove(held)
            self._release_quietly(policy, key, decision.permit)

    def _renew(self, held: HeldPermit) -> bool:
        """Renew a permit. Return whether to do it again."""
        try:
            return self._renewals.renewed(held, self.renew(held.policy, held.key, held.permit))
        except TidegateError as error:
            return self._renewals.failed(held, error)
        except RuntimeError:
            return False  # the client was closed

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

    def observe_later(self, target: str, latency_ms: float, *, ok: bool = True) -> None:
        """Report the latency of a service soon, with others in one call. Neither waits nor raises."""
        self._policies.expect_target(target)
        if self._observations.add(target, latency_ms, ok) and not self._closed:
            threading.Thread(target=self._report, daemon=True).start()
        self._read_policies_if_due()

    def _report(self) -> None:
        observations = self._observations
        time.sleep(INTERVAL_SECONDS)
        with contextlib.suppress(RuntimeError):  # the client was closed
            while sample := observations.take():
                self._send_observations(sample)
                time.sleep(INTERVAL_SECONDS)

    def _send_observations(self, sample: list[Observation]) -> None:
        try:
            for call in self._observations.calls(sample):
                self._send(call)
        except TidegateError as error:
            if self._observations.failed(error):
                self._send_observations(sample)

    def policy_names(self) -> list[str]:
        """Return the names of the server's policies. Raises if it fails."""
        policies = self._ask(calls.policies())
        return list(policies)

    def expect_policies(self, names: Iterable[str]) -> None:
        """Log an error for each name that the server does not have. Ask in a thread."""
        self._policies.expect(names)
        self._read_policies_if_due()

    def _read_policies_if_due(self) -> None:
        if not self._closed and self._policies.is_due():
            threading.Thread(target=self._read_policies, daemon=True).start()

    def _read_policies(self) -> None:
        # The checks report a server that does not answer; a client that was closed meanwhile has no checks.
        with contextlib.suppress(TidegateError, RuntimeError):
            self._policies.loaded(self._send(calls.policies()))

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
        try:
            return self._send(call)
        except TidegateError as error:
            return call.without_answer(self._fallback, error)
        finally:
            self._read_policies_if_due()

    def _send(self, call: Call[T]) -> T:
        if self._closed:
            raise RuntimeError("the client is closed")
        with self._circuit.call():
            reply = self._pool.send(call.path, call.body, self._timeout)
            return decode(reply, call.read, self._answered)

    def _answered(self) -> None:
        self._circuit.answered()
        self._fallback.answered()

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
