"""Bounds the number of concurrent calls, and times out calls to a silent server."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .circuit import Circuit
from .errors import TidegateError

# Further calls fail at once.
WAITING_MAX = 100_000
# A timeout is counted in slices, each with its own timer. While the event loop is blocked, no timer fires:
# the program's own stalls do not count as the server's silence, and replies that arrived meanwhile are read
# before a call times out.
SLICES = 16


class CallSlots:
    """A bounded number of slots for calls in flight, with a queue.

    A call times out when the server has been silent for the timeout: since the call arrived, or since
    the last answer to another call before it was sent. A queue that moves therefore fails no call,
    however long it is, and a server that hangs costs each call the timeout once. After that, the
    circuit opens.

    Must be created in the event loop that uses it.
    """

    def __init__(self, size: int, timeout: float) -> None:
        self._circuit = Circuit(asyncio.get_running_loop().time)
        self._size = self._free = size
        self._timeout = timeout
        self._waiting: OrderedDict[asyncio.Future[None], int] = OrderedDict()
        self._in_flight: dict[asyncio.Timeout, int] = {}
        self._slice = 0
        self._answered = 0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold a slot. The block is cancelled if the server stays silent."""
        self._circuit.raise_if_open()
        since = await self._enter()
        try:
            with self._circuit.call():
                async with self._timeout_since(since):
                    yield
        finally:
            self._leave()

    @asynccontextmanager
    async def _timeout_since(self, since: int) -> AsyncIterator[None]:
        timeout = asyncio.timeout(None)
        try:
            async with timeout:
                self._in_flight[timeout] = since
                yield
        except TimeoutError:
            if not timeout.expired():
                raise
            raise self._silent() from None
        finally:
            self._in_flight.pop(timeout, None)

    def answered(self) -> None:
        """Record that the server has answered."""
        self._answered = self._slice
        self._circuit.answered()

    async def wait_idle(self) -> None:
        """Wait until no slot is in use."""
        while self._free < self._size:
            self._empty.clear()
            await self._empty.wait()

    async def _enter(self) -> int:
        arrived = self._slice
        self._start_timer()
        if self._free > 0:
            self._free -= 1
            return arrived
        if len(self._waiting) >= WAITING_MAX:
            raise TidegateError(f"{WAITING_MAX} calls are already waiting")
        waiter = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = arrived
        try:
            await waiter
        except asyncio.CancelledError:
            self._withdraw(waiter)
            raise
        return max(arrived, self._answered)

    def _withdraw(self, waiter: asyncio.Future[None]) -> None:
        self._waiting.pop(waiter, None)
        had_slot = waiter.done() and not waiter.cancelled() and waiter.exception() is None
        if had_slot:
            self._leave()

    def _leave(self) -> None:
        while self._waiting:
            waiter, _ = self._waiting.popitem(last=False)
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1
        if self._free == self._size:
            self._empty.set()

    def _start_timer(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._due = loop.time()
            self._next_slice(loop)

    def _next_slice(self, loop: asyncio.AbstractEventLoop) -> None:
        length = self._timeout / SLICES
        # A late timer does not shorten the next slice.
        self._due = max(self._due + length, loop.time() + length / 2)
        self._timer = loop.call_at(self._due, self._end_slice, loop)

    def _end_slice(self, loop: asyncio.AbstractEventLoop) -> None:
        self._slice += 1
        self._time_out_calls(loop.time())
        self._time_out_waiting()
        if self._in_flight or self._waiting:
            self._next_slice(loop)
        else:
            self._timer = None

    def _time_out_calls(self, now: float) -> None:
        overdue = [one for one, since in self._in_flight.items() if self._slice - since >= SLICES]
        for timeout in overdue:
            del self._in_flight[timeout]
            timeout.reschedule(now)

    def _time_out_waiting(self) -> None:
        while self._waiting:
            waiter, arrived = next(iter(self._waiting.items()))
            if self._slice - max(arrived, self._answered) < SLICES:
                return
            del self._waiting[waiter]
            if not waiter.done():
                waiter.set_exception(self._silent())

    def _silent(self) -> TidegateError:
        return TidegateError(f"no answer within {self._timeout:g} s")
