"""Combines concurrent checks into shared calls."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable

from .calls import BATCH_BYTES_MAX, BATCH_MAX
from .checks import Check
from .errors import TidegateError
from .replies import Decision
from .slots import WAITING_MAX, CallSlots

Outcome = Decision | TidegateError
# Sends checks; the flag requests their headers.
Send = Callable[[list[tuple[Check, bytes]], bool], Awaitable[list[Decision]]]


class _Batch:
    """Checks of one shape that share a call: the server rejects all of them or none."""

    def __init__(self, headers: bool) -> None:
        self.headers = headers
        self._checks: list[tuple[Check, bytes, asyncio.Future[Outcome]]] = []
        self._size = 0

    def has_room_for(self, body: bytes) -> bool:
        return len(self._checks) < BATCH_MAX and self._size + len(body) < BATCH_BYTES_MAX

    def add(self, check: Check, body: bytes) -> asyncio.Future[Outcome]:
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._checks.append((check, body, outcome))
        self._size += len(body) + 1
        return outcome

    def drop_cancelled(self) -> list[tuple[Check, bytes]]:
        """Remove cancelled checks, so that they are not charged, and return the others."""
        self._checks = [one for one in self._checks if not one[2].done()]
        return [(check, body) for check, body, _ in self._checks]

    def settle(self, outcomes: list[Decision]) -> None:
        for (_, _, future), outcome in zip(self._checks, outcomes, strict=True):
            if not future.done():
                future.set_result(outcome)

    def fail(self, error: TidegateError) -> None:
        for _, _, future in self._checks:
            if not future.done():
                # A copy for each: an exception collects a traceback wherever it is raised.
                future.set_result(copy.copy(error))


class Coalescer:
    """Collects checks until a call slot is free. An idle client sends a check at once."""

    def __init__(self, slots: CallSlots, send: Send) -> None:
        self._slots = slots
        self._send = send
        self._open: dict[tuple[object, ...], _Batch] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._pending = 0

    async def check(self, check: Check, headers: bool) -> Decision:
        """Check, in a shared call with other checks of the same shape."""
        if self._pending >= WAITING_MAX:
            raise TidegateError(f"{WAITING_MAX} checks are already waiting")
        self._pending += 1
        try:
            outcome = await self._join(check, headers)
        finally:
            self._pending -= 1
        if isinstance(outcome, TidegateError):
            raise outcome
        return outcome

    def _join(self, check: Check, headers: bool) -> asyncio.Future[Outcome]:
        shape, body = (headers, *check.shape), check.encoded()
        batch = self._open.get(shape)
        if batch is None or not batch.has_room_for(body):
            batch = self._open[shape] = _Batch(headers)
            task = asyncio.get_running_loop().create_task(self._send_batch(shape, batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return batch.add(check, body)

    async def finish(self) -> None:
        """Wait for pending checks."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _send_batch(self, shape: tuple[object, ...], batch: _Batch) -> None:
        try:
            async with self._slots.slot():
                self._seal(shape, batch)
                checks = batch.drop_cancelled()
                if checks:
                    batch.settle(await self._send(checks, batch.headers))
        except TidegateError as error:
            batch.fail(error)
        except BaseException as error:
            batch.fail(TidegateError(f"not sent: {error!r}"))
            raise
        finally:
            self._seal(shape, batch)

    def _seal(self, shape: tuple[object, ...], batch: _Batch) -> None:
        """Close the batch for further checks."""
        if self._open.get(shape) is batch:
            del self._open[shape]
