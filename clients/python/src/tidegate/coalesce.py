"""Checks that are asked at the same time share a call."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable

from .answers import Decision
from .errors import TidegateError
from .gate import WAITING_MAX, Gate
from .questions import Check

# What the server takes: 1000 checks, 1 MiB.
BATCH_MAX = 1000
BATCH_BYTES_MAX = 1_000_000

Outcome = Decision | TidegateError
# What is asked, and whether its headers are, too.
Send = Callable[[list[tuple[Check, bytes]], bool], Awaitable[list[Decision]]]


class _Batch:
    """Checks of one shape that go out together: the server dislikes all of them, or none."""

    def __init__(self, headers: bool) -> None:
        self.headers = headers
        self._askers: list[tuple[Check, bytes, asyncio.Future[Outcome]]] = []
        self._size = 0

    def takes(self, body: bytes) -> bool:
        return len(self._askers) < BATCH_MAX and self._size + len(body) < BATCH_BYTES_MAX

    def add(self, check: Check, body: bytes) -> asyncio.Future[Outcome]:
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._askers.append((check, body, outcome))
        self._size += len(body) + 1
        return outcome

    def drop_cancelled(self) -> list[tuple[Check, bytes]]:
        """Those who still want to know: nobody else is charged."""
        self._askers = [one for one in self._askers if not one[2].done()]
        return [(check, body) for check, body, _ in self._askers]

    def settle(self, outcomes: list[Decision]) -> None:
        for (_, _, future), outcome in zip(self._askers, outcomes, strict=True):
            if not future.done():
                future.set_result(outcome)

    def fail(self, error: TidegateError) -> None:
        for _, _, future in self._askers:
            if not future.done():
                # Each its own: an exception collects the traces of all who raise it.
                future.set_result(copy.copy(error))


class Coalescer:
    """Collects checks until a place for a call is free, which is at once where there is little to do."""

    def __init__(self, gate: Gate, send: Send) -> None:
        self._gate = gate
        self._send = send
        self._open: dict[tuple[object, ...], _Batch] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._asking = 0

    async def ask(self, check: Check, headers: bool) -> Decision:
        """Ask, together with whoever else asks the like now."""
        if self._asking >= WAITING_MAX:
            raise TidegateError(f"{WAITING_MAX} checks are waiting already")
        self._asking += 1
        try:
            outcome = await self._join(check, headers)
        finally:
            self._asking -= 1
        if isinstance(outcome, TidegateError):
            raise outcome
        return outcome

    def _join(self, check: Check, headers: bool) -> asyncio.Future[Outcome]:
        shape, body = (headers, *check.shape), check.encoded()
        batch = self._open.get(shape)
        if batch is None or not batch.takes(body):
            batch = self._open[shape] = _Batch(headers)
            task = asyncio.get_running_loop().create_task(self._carry(shape, batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return batch.add(check, body)

    async def finish(self) -> None:
        """Wait for what is under way."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _carry(self, shape: tuple[object, ...], batch: _Batch) -> None:
        try:
            async with self._gate.passage():
                self._seal(shape, batch)
                asked = batch.drop_cancelled()
                if asked:
                    batch.settle(await self._send(asked, batch.headers))
        except TidegateError as error:
            batch.fail(error)
        except BaseException as error:
            batch.fail(TidegateError(f"not sent: {error!r}"))
            raise
        finally:
            self._seal(shape, batch)

    def _seal(self, shape: tuple[object, ...], batch: _Batch) -> None:
        """Let nobody join any more."""
        if self._open.get(shape) is batch:
            del self._open[shape]
