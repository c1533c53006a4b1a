"""Lets so many calls through at a time, and gives up those that a silent server leaves waiting."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .circuit import Circuit
from .errors import TidegateError

# Whoever comes after them is told at once that there are too many.
WAITING_MAX = 100_000
# A timeout is counted in slices, each a timer of its own. While the program itself is busy, no timer
# fires: its own stalls are not taken for the server's silence, and what has arrived meanwhile is read
# before anything is given up.
SLICES = 16


class Gate:
    """A bounded number of places for calls in flight, and a queue before them.

    A call is given up when the server has been silent for the timeout: since the call came, or since
    the last answer to another call before it was sent. So a queue that moves fails nobody, however
    long it is, and a server that hangs costs everyone in it the timeout once. One that goes on
    hanging is left alone.

    Must be made in the event loop that uses it.
    """

    def __init__(self, places: int, timeout: float) -> None:
        self._circuit = Circuit(asyncio.get_running_loop().time)
        self._places = self._free = places
        self._timeout = timeout
        self._waiting: OrderedDict[asyncio.Future[None], int] = OrderedDict()
        self._in_flight: dict[asyncio.Timeout, int] = {}
        self._slice = 0
        self._answered = 0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()

    @asynccontextmanager
    async def passage(self) -> AsyncIterator[None]:
        """Hold a place. What is awaited meanwhile is cancelled when the server stays silent."""
        self._circuit.insist_on_closed()
        since = await self._enter()
        try:
            with self._circuit.call():
                async with self._patience(since):
                    yield
        finally:
            self._leave()

    @asynccontextmanager
    async def _patience(self, since: int) -> AsyncIterator[None]:
        patience = asyncio.timeout(None)
        try:
            async with patience:
                self._in_flight[patience] = since
                yield
        except TimeoutError:
            if not patience.expired():
                raise
            raise self._silent() from None
        finally:
            self._in_flight.pop(patience, None)

    def answered(self) -> None:
        """Note that the server has given an answer: it is not silent."""
        self._answered = self._slice
        self._circuit.answered()

    async def emptied(self) -> None:
        """Wait until nobody is in it any more."""
        while self._free < self._places:
            self._empty.clear()
            await self._empty.wait()

    async def _enter(self) -> int:
        came = self._slice
        self._keep_time()
        if self._free > 0:
            self._free -= 1
            return came
        if len(self._waiting) >= WAITING_MAX:
            raise TidegateError(f"{WAITING_MAX} calls are waiting already")
        turn = asyncio.get_running_loop().create_future()
        self._waiting[turn] = came
        try:
            await turn
        except asyncio.CancelledError:
            self._withdraw(turn)
            raise
        return max(came, self._answered)

    def _withdraw(self, turn: asyncio.Future[None]) -> None:
        self._waiting.pop(turn, None)
        had_its_turn = turn.done() and not turn.cancelled() and turn.exception() is None
        if had_its_turn:
            self._leave()

    def _leave(self) -> None:
        while self._waiting:
            turn, _ = self._waiting.popitem(last=False)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
        if self._free == self._places:
            self._empty.set()

    def _keep_time(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._due = loop.time()
            self._next_slice(loop)

    def _next_slice(self, loop: asyncio.AbstractEventLoop) -> None:
        length = self._timeout / SLICES
        # A timer that was late does not make up for it: the next slice has its length, too.
        self._due = max(self._due + length, loop.time() + length / 2)
        self._timer = loop.call_at(self._due, self._slice_is_over, loop)

    def _slice_is_over(self, loop: asyncio.AbstractEventLoop) -> None:
        self._slice += 1
        self._give_up_in_flight(loop.time())
        self._give_up_waiting()
        if self._in_flight or self._waiting:
            self._next_slice(loop)
        else:
            self._timer = None

    def _give_up_in_flight(self, now: float) -> None:
        overdue = [one for one, since in self._in_flight.items() if self._slice - since >= SLICES]
        for patience in overdue:
            del self._in_flight[patience]
            patience.reschedule(now)

    def _give_up_waiting(self) -> None:
        while self._waiting:
            turn, came = next(iter(self._waiting.items()))
            if self._slice - max(came, self._answered) < SLICES:
                return
            del self._waiting[turn]
            if not turn.done():
                turn.set_exception(self._silent())

    def _silent(self) -> TidegateError:
        return TidegateError(f"no answer within {self._timeout:g} s")
