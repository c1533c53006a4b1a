"""The client: one method for each thing that a server can be asked."""

from __future__ import annotations

import asyncio
import json
import os
import ssl as tls
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self, TypeVar

from . import answers
from .answers import Decision, Reply, Reservation
from .coalesce import BATCH_BYTES_MAX, BATCH_MAX
from .errors import TidegateError
from .fallback import Fallback, OnError, on_error_word
from .line import BATCH, Line, batch_body, renumbered
from .questions import Check, Key, number, text, whole
from .wire import Address

T = TypeVar("T")


class Tidegate:
    """Asks a tidegate server, over TCP (`url`) or a Unix socket.

    A refusal is a value. Trouble costs at most `timeout` seconds of silence and then is answered as
    `on_error` says: `allow` and `deny` make a decision whose `source` is `fallback`, `raise` raises
    `TidegateError`. What is wrong with the question itself is always raised: as a `ValueError` before
    it is sent, and as a `TidegateError` if only the server knows, as of a policy that there is not.

    A client belongs to the event loop in which it is first used. Checks that are asked at the same
    time share calls; at most `max_connections` connections are open.
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
        self._address = Address.of(url, socket, token, ssl)
        if not number("timeout", timeout, 3600) > 0:
            raise ValueError("timeout: expected more than 0 seconds")
        self._timeout = timeout
        if not whole("max_connections", max_connections, 10_000):
            raise ValueError("max_connections: expected at least 1")
        self._max_connections = max_connections
        self._fallback = Fallback(on_error)
        self._line_in_use: Line | None = None
        self._later: set[asyncio.Task[bool]] = set()
        self._closed = False

    @property
    def fallbacks(self) -> int:
        """How many answers the server did not give."""
        return self._fallback.count

    async def check(
        self,
        policy: str,
        key: Key,
        cost: int = 1,
        *,
        headers: bool = False,
        on_error: OnError | None = None,
    ) -> Decision:
        """Spend `cost`, if allowed.

        With `headers`, the decision has the headers to tell your own client. `on_error` is the client's
        unless given. A check that is cancelled before it was sent is not charged.
        """
        check = Check(policy, key, cost)
        if on_error is not None:
            on_error_word(on_error)
        return await self._or_fallback(check, self._line().coalescer.ask(check, headers), on_error)

    async def check_many(self, checks: Iterable[Check], *, atomic: bool = False) -> list[Decision]:
        """Ask many checks, answered in order; if `atomic`, all are charged or none.

        More than 1000 are several calls side by side, which an atomic step cannot be.
        """
        parts = _parts(list(checks))
        if atomic and len(parts) > 1:
            raise ValueError(f"checks: an atomic step has at most {BATCH_MAX} checks, and 1 MB")
        starts = [sum(len(part) for part in parts[:index]) for index in range(len(parts))]
        asked = zip(starts, parts, strict=True)
        answered = await asyncio.gather(*(self._part(start, part, atomic) for start, part in asked))
        return [one for part in answered for one in part]

    async def peek(self, policy: str, key: Key, cost: int = 1) -> Decision:
        """Answer what a check would, and spend nothing. Cost 0 shows what is left now."""
        check = Check(policy, key, cost)
        return await self._or_fallback(check, self._one("/v1/peek", check))

    async def refund(self, policy: str, key: Key, cost: int = 1) -> Decision:
        """Give back up to `cost` of what was used, and answer what is left."""
        check = Check(policy, key, cost)
        return await self._or_fallback(check, self._one("/v1/refund", check))

    async def reset(self, policy: str, key: Key) -> Decision:
        """Forget what a key has used. Needs the server's `token`, or to be on its machine.

        Whatever `on_error` says, this has happened, or raises.
        """
        return await self._one("/v1/reset", Check(policy, key))

    async def reserve(self, policy: str, key: Key, cost: int = 1) -> Reservation:
        """Take a place in a leaky bucket's queue: wait its `delay`, then go ahead."""
        body = Check(policy, key, cost).encoded()
        try:
            return await self._call("/v1/reserve", body, answers.reservation)
        except TidegateError as error:
            return self._fallback.reservation(error)

    async def schedule(self, policy: str, key: Key, cost: int = 1) -> Reservation:
        """Take a place in a leaky bucket's queue, and wait until it is time to go ahead.

        Who is refused is told at once. The place of who is cancelled while waiting is not given back.
        """
        reservation = await self.reserve(policy, key, cost)
        await asyncio.sleep(reservation.delay)
        return reservation

    async def acquire(self, policy: str, key: Key, cost: int = 1) -> Decision:
        """Take a place of a concurrency limit: give the `permit` of the decision to `release`."""
        check = Check(policy, key, cost)
        return await self._or_fallback(check, self._one("/v1/acquire", check))

    async def release(self, policy: str, key: Key, permit: str) -> bool:
        """Give a place back. Whether the server knows of it now; twice does no harm.

        If that fails, the place comes back by itself when its time is over.
        """
        check = Check(policy, key)
        body = check.encoded(permit=text("permit", permit))
        try:
            return await self._call("/v1/release", body, answers.released)
        except TidegateError as error:
            self._fallback.allows(error)
            return False

    @asynccontextmanager
    async def permit(self, policy: str, key: Key, cost: int = 1) -> AsyncIterator[Decision]:
        """Hold a place of a concurrency limit for a block, if the decision is `allowed`.

        If giving it back fails, it comes back by itself when its time is over: whatever `on_error` says,
        that is no reason to lose what the block has done.
        """

        async def give_back(decision: Decision) -> bool:
            if decision.permit is None:
                return False
            try:
                return await self.release(policy, key, decision.permit)
            except TidegateError as error:
                self._fallback.note(error, "a place is not given back")
                return False

        decision = await self._whatever_happens(self.acquire(policy, key, cost), give_back)
        try:
            yield decision
        finally:
            await asyncio.shield(self._later_on(give_back(decision)))

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
        """Say how a service does, for the limits that follow it. Whether the server took note."""
        said: dict[str, object] = {"target": text("target", target), "ok": bool(ok)}
        year_ms = 366.0 * 24 * 3600 * 1000
        for name, value, most in (
            ("latency_ms", latency_ms, year_ms),
            ("queue_ms", queue_ms, year_ms),
            ("saturation", saturation, 1.0),
        ):
            if value is not None:
                said[name] = number(name, value, most)
        if url is not None:
            said["url"] = text("url", url)
        try:
            return await self._call("/v1/observe", json.dumps(said).encode(), _noted)
        except TidegateError as error:
            self._fallback.allows(error)
            return False

    async def aclose(self) -> None:
        """Wait for what is under way, and close the connections."""
        while self._later:
            await asyncio.wait(self._later)
        self._closed = True
        line = self._line_in_use
        if line is not None and line.loop is asyncio.get_running_loop():
            await line.close()

    async def __aenter__(self) -> Self:
        """Do nothing: connections are made when they are needed."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        await self.aclose()

    def _line(self) -> Line:
        """The line of this event loop. One whose loop is over is forgotten, as tests leave them."""
        if self._closed:
            raise RuntimeError("this client is closed")
        line = self._line_in_use
        if line is None or line.loop.is_closed():
            line = Line(self._address, self._timeout, self._max_connections)
            self._line_in_use = line
            self._later.clear()
        elif line.loop is not asyncio.get_running_loop():
            raise RuntimeError("this client is in use by another event loop: make one for each")
        return line

    async def _call(self, path: str, body: bytes, read: Callable[[Reply], T]) -> T:
        return await self._line().call(path, body, read)

    async def _one(self, path: str, check: Check) -> Decision:
        body = check.encoded()
        return await self._call(path, body, lambda reply: answers.decision(reply, check.policy))

    async def _or_fallback(
        self, check: Check, ask: Coroutine[object, object, Decision], on_error: OnError | None = None
    ) -> Decision:
        try:
            return await ask
        except TidegateError as error:
            return self._fallback.decision(check, error, on_error)

    async def _part(self, start: int, part: list[Check], atomic: bool) -> list[Decision]:
        body = batch_body([check.encoded() for check in part], atomic=atomic)
        try:
            return await self._call(BATCH, body, lambda it: answers.decisions(it, len(part)))
        except TidegateError as error:
            ours = renumbered(error, lambda index: f"checks[{start + index}]")
            return [self._fallback.decision(check, ours) for check in part]

    async def _whatever_happens(
        self,
        acquire: Coroutine[object, object, Decision],
        give_back: Callable[[Decision], Coroutine[object, object, bool]],
    ) -> Decision:
        """Take a place. If nobody waits for it any more when it comes, give it back."""
        taking = asyncio.ensure_future(acquire)
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:

            async def take_and_give_back() -> bool:
                try:
                    return await give_back(await taking)
                except TidegateError:
                    return False  # nobody is left to be told

            self._later_on(take_and_give_back())
            raise

    def _later_on(self, work: Coroutine[object, object, bool]) -> asyncio.Task[bool]:
        """Do it even if nobody waits for it. The gate bounds how long it takes."""
        task = asyncio.get_running_loop().create_task(work)
        self._later.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[bool]) -> None:
        self._later.discard(task)
        if not task.cancelled():
            task.exception()  # told to who waits for it, if anyone does


def _noted(reply: Reply) -> bool:
    if reply.status != 204:
        raise reply.problem()
    return True


def _parts(checks: list[Check]) -> list[list[Check]]:
    """Cut a list into calls that the server takes."""
    parts: list[list[Check]] = []
    size = 0
    for check in checks:
        if not isinstance(check, Check):
            raise TypeError(f"checks: expected a tidegate.Check, got {check!r:.80}")
        length = len(check.encoded()) + 1
        if not parts or len(parts[-1]) == BATCH_MAX or size + length > BATCH_BYTES_MAX:
            parts.append([])
            size = 0
        parts[-1].append(check)
        size += length
    return parts
