"""The asyncio client: one method per call of the server's API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self, TypeVar

from . import calls
from .background import BackgroundTasks
from .calls import Call
from .checks import Check, Key
from .errors import TidegateError
from .fallback import OnError
from .ledger import PERMIT_PREFIX
from .renewals import HeldPermit
from .replies import Decision, Reservation

T = TypeVar("T")


class Tidegate(BackgroundTasks):
    """A client of a tidegate server, over TCP (`url`) or a Unix socket.

    A denial is a value. If the server is silent for `timeout` seconds, or does not know the policy,
    `on_error` applies: `allow` and `deny` return a decision with `source` `fallback`, `local` counts in this
    process with the limit / `processes`, `raise` raises `TidegateError`. Invalid arguments always raise: a
    `ValueError` before anything is sent, or a `TidegateError` if only the server can know, e.g. for a missing
    key.

    A client belongs to the event loop that first uses it. Concurrent checks share calls; at most
    `max_connections` connections are open.
    """

    def _start(self) -> None:
        super()._start()
        self._background: set[asyncio.Task[bool]] = set()

    async def check(
        self,
        policy: str,
        key: Key,
        cost: int = 1,
        *,
        headers: bool = False,
        on_error: OnError | None = None,
    ) -> Decision:
        """Check a key against a policy, and charge `cost` if allowed.

        With `headers`, the decision has the headers for your own client. `on_error` overrides the
        client's. A check that is cancelled before it was sent is not charged.
        """
        check = Check(policy, key, cost)
        self._prepare(on_error)
        try:
            return await self._session().coalescer.check(check, headers)
        except TidegateError as error:
            return self._fallback.decision(check, error, on_error)
        finally:
            self._read_policies_if_due()

    async def check_many(self, checks: Iterable[Check], *, atomic: bool = False) -> list[Decision]:
        """Make many checks, with decisions in the same order. With `atomic`, all are charged or none.

        More than 1000 checks are sent as several concurrent calls, so they cannot be atomic.
        """
        decided = await asyncio.gather(*(self._ask(call) for call in calls.batches(checks, atomic)))
        return [one for part in decided for one in part]

    async def peek(self, policy: str, key: Key, cost: int = 1) -> Decision:
        """Return what a check would, and charge nothing. Cost 0 shows what is left."""
        return await self._ask(calls.decision("/v1/peek", policy, key, cost))

    async def refund(self, policy: str, key: Key, cost: int = 1) -> Decision:
        """Return up to `cost` units, and report what is left."""
        return await self._ask(calls.decision("/v1/refund", policy, key, cost))

    async def reset(self, policy: str, key: Key) -> Decision:
        """Reset a key. Needs the server's `token`, or a server on the same machine.

        Raises if it fails, regardless of `on_error`.
        """
        return await self._ask(calls.reset(policy, key))

    async def reserve(self, policy: str, key: Key, cost: int = 1) -> Reservation:
        """Reserve a slot in a leaky bucket. Wait its `delay`, then start."""
        return await self._ask(calls.reserve(policy, key, cost))

    async def schedule(self, policy: str, key: Key, cost: int = 1) -> Reservation:
        """Reserve a slot in a leaky bucket, and wait until it begins.

        Returns at once if not accepted. A slot stays reserved if the wait is cancelled.
        """
        reservation = await self.reserve(policy, key, cost)
        await asyncio.sleep(reservation.delay)
        return reservation

    async def acquire(self, policy: str, key: Key, cost: int = 1) -> Decision:
        """Acquire a permit of a concurrency limit. Pass the decision's `permit` to `release`."""
        decision = await self._ask(calls.decision("/v1/acquire", policy, key, cost))
        refusal = self._fallback.granted(Check(policy, key, cost), decision)
        if refusal is not None:
            self._in_background(self._release_quietly(policy, key, decision.permit))
        return refusal or decision

    async def release(self, policy: str, key: Key, permit: str) -> bool:
        """Release a permit. Return whether the server did; releasing twice is safe.

        A permit that is not released expires by itself.
        """
        call = calls.release(policy, key, permit)
        was_held = self._fallback.local.release(permit)
        if permit.startswith(PERMIT_PREFIX):
            return was_held
        released = await self._ask(call)
        if was_held and not released:
            self._fallback.local.doubt_permits()
        return released

    async def _release_quietly(self, policy: str, key: Key, permit: str | None) -> bool:
        if permit is None:
            return False
        try:
            return await self.release(policy, key, permit)
        except TidegateError as error:
            self._fallback.record(error, "permit not released")
            return False

    async def renew(self, policy: str, key: Key, permit: str) -> int | None:
        """Keep a permit for as long again as it was granted for. Return that time in ms; None if it is lost.

        Raises if the server does not answer, regardless of `on_error`.
        """
        return await self._renew_once(policy, key, permit)

    @asynccontextmanager
    async def permit(self, policy: str, key: Key, cost: int = 1) -> AsyncIterator[Decision]:
        """Hold a permit of a concurrency limit for a block, if the decision is `allowed`.

        The permit is renewed while the block runs. If the release fails, the permit expires by itself. This
        never raises, regardless of `on_error`: the result of the block must not be lost.
        """

        async def release_permit(decision: Decision) -> bool:
            return await self._release_quietly(policy, key, decision.permit)

        decision = await self._acquire_or_release(self.acquire(policy, key, cost), release_permit)
        held = HeldPermit.from_decision(decision, key)
        renewing = None if held is None else self._spawn(self._renew(held))
        try:
            yield decision
        finally:
            if renewing is not None:
                renewing.cancel()
            await asyncio.shield(self._in_background(release_permit(decision)))

    async def observe(
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
        return await self._ask(calls.observe(target, latency_ms, ok, queue_ms, saturation, url))

    async def policy_names(self) -> list[str]:
        """Return the names of the server's policies. Raises if it fails."""
        policies = await self._ask(calls.policies())
        return list(policies)

    def expect_policies(self, names: Iterable[str]) -> None:
        """Log an error for each name that the server does not have. Ask in the background."""
        self._policies.expect(names)
        self._read_policies_if_due()

    async def aclose(self) -> None:
        """Wait for pending calls, and close the connections."""
        for task in self._tasks:
            task.cancel()
        while self._background:
            await asyncio.wait(self._background)
        self._closed = True
        session = self._current_session
        if session is not None and session.loop is asyncio.get_running_loop():
            await session.close()

    async def __aenter__(self) -> Self:
        """Connections are opened on demand."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the client."""
        await self.aclose()

    def _drop_session(self) -> None:
        super()._drop_session()
        self._background.clear()

    async def _ask(self, call: Call[T]) -> T:
        try:
            return await self._session().call(call)
        except TidegateError as error:
            return call.without_answer(self._fallback, error)
        finally:
            self._read_policies_if_due()

    async def _acquire_or_release(
        self,
        acquire: Coroutine[object, object, Decision],
        release_permit: Callable[[Decision], Coroutine[object, object, bool]],
    ) -> Decision:
        """Acquire a permit. If the caller is cancelled meanwhile, release it when it arrives."""
        acquiring = asyncio.ensure_future(acquire)
        try:
            return await asyncio.shield(acquiring)
        except asyncio.CancelledError:

            async def acquire_and_release() -> bool:
                try:
                    return await release_permit(await acquiring)
                except TidegateError:
                    return False  # no caller is left to report to

            self._in_background(acquire_and_release())
            raise

    def _in_background(self, work: Coroutine[object, object, bool]) -> asyncio.Task[bool]:
        """Run it even if no caller waits for it. The timeout bounds its duration."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[bool]) -> None:
        self._background.discard(task)
        if not task.cancelled():
            task.exception()  # marks it as retrieved
