"""What the asyncio client does beside its calls: read policies, report observations, renew permits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine

from . import calls
from .base import ClientBase
from .checks import Key
from .errors import TidegateError
from .ledger import PERMIT_PREFIX
from .observations import INTERVAL_SECONDS, Observation, Observations
from .renewals import HeldPermit
from .session import Session


class BackgroundTasks(ClientBase):
    """The session of the current event loop, and tasks that end with it."""

    def _start(self) -> None:
        super()._start()
        self._current_session: Session | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def _session(self) -> Session:
        """The session of this event loop. A session of a closed loop is dropped, as tests leave them."""
        if self._closed:
            raise RuntimeError("the client is closed")
        session = self._current_session
        if session is not None and session.loop.is_closed():
            self._drop_session()
            session = None
        if session is None:
            bounds = (self._timeout, self._max_connections)
            session = self._current_session = Session(self._address, *bounds, self._fallback.answered)
        elif session.loop is not asyncio.get_running_loop():
            raise RuntimeError("the client is in use by another event loop: create one per loop")
        return session

    def _drop_session(self) -> None:
        self._tasks.clear()
        self._observations = Observations()

    def _spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run it until it ends or the client is closed."""

        async def run() -> None:
            # The calls report a client that is closed, or used in another loop.
            with contextlib.suppress(RuntimeError):
                await work

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # It may be cancelled before it has begun.
        task.add_done_callback(lambda _: work.close())
        return task

    def _read_policies_if_due(self) -> None:
        if not self._closed and self._policies.is_due():
            self._spawn(self._read_policies())

    async def _read_policies(self) -> None:
        with contextlib.suppress(TidegateError):  # the checks report a server that does not answer
            self._policies.loaded(await self._session().call(calls.policies()))

    def observe_later(self, target: str, latency_ms: float, *, ok: bool = True) -> None:
        """Report the latency of a service soon, with others in one call. Neither waits nor raises."""
        self._policies.expect_target(target)
        if self._observations.add(target, latency_ms, ok) and not self._closed:
            self._spawn(self._report())
        self._read_policies_if_due()

    async def _report(self) -> None:
        await asyncio.sleep(INTERVAL_SECONDS)
        while sample := self._observations.take():
            await self._send_observations(sample)
            await asyncio.sleep(INTERVAL_SECONDS)

    async def _send_observations(self, sample: list[Observation]) -> None:
        try:
            for call in self._observations.calls(sample):
                await self._session().call(call)
        except TidegateError as error:
            if self._observations.failed(error):
                await self._send_observations(sample)

    async def _renew(self, held: HeldPermit) -> None:
        goes_on = True
        while goes_on and self._renewals.are_supported:
            await asyncio.sleep(held.pause)
            try:
                ttl_ms = await self._renew_once(held.policy, held.key, held.permit)
                goes_on = self._renewals.renewed(held, ttl_ms)
            except TidegateError as error:
                goes_on = self._renewals.failed(held, error)

    async def _renew_once(self, policy: str, key: Key, permit: str) -> int | None:
        call = calls.renew(policy, key, permit)
        ttl_ms = self._fallback.local.renew(permit)
        if permit.startswith(PERMIT_PREFIX):
            return ttl_ms
        try:
            ttl_ms = await self._session().call(call)
        except TidegateError as error:
            self._fallback.unanswered(error)
            raise
        self._fallback.local.renewed(permit, ttl_ms)
        return ttl_ms
