"""The line to the server that one event loop has: connections, the queues before them, shared calls."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import TypeVar

from . import answers
from .answers import Decision, Reply
from .coalesce import Coalescer
from .errors import TidegateError
from .gate import Gate
from .questions import Check
from .wire import Address, Wire

T = TypeVar("T")
BATCH = "/v1/check/batch"


class Line:
    """Must be made in the event loop that uses it."""

    def __init__(self, address: Address, timeout: float, max_connections: int) -> None:
        self.loop = asyncio.get_running_loop()
        self._wire = Wire(address, max_connections)
        self._gate = Gate(max_connections, timeout)
        self.coalescer = Coalescer(self._gate, self._send)

    async def call(self, path: str, body: bytes, read: Callable[[Reply], T]) -> T:
        """Make a call of its own."""
        async with self._gate.passage():
            return self._heard(read, await self._wire.post(path, body))

    async def close(self) -> None:
        """Wait for the calls that are under way, and close the connections."""
        await self.coalescer.finish()
        await self._gate.emptied()
        await self._wire.close()

    async def _send(self, asked: list[tuple[Check, bytes]], headers: bool) -> list[Decision]:
        """Make a shared call, in the place that was waited for."""
        if len(asked) == 1:
            (check, body) = asked[0]
            reply = await self._wire.post("/v1/check", body)
            return [self._heard(lambda it: answers.decision(it, check.policy), reply)]
        reply = await self._wire.post(BATCH, batch_body([body for _, body in asked], headers=headers))
        try:
            return self._heard(lambda it: answers.decisions(it, len(asked), headers=headers), reply)
        except TidegateError as error:
            # Of one shape, they are all wrong in the same way: nobody needs to know of the others.
            raise renumbered(error, lambda _: "") from None

    def _heard(self, read: Callable[[Reply], T], reply: Reply) -> T:
        """Read a reply, and tell the gate if it was the server's: what it dislikes is an answer, too."""
        try:
            result = read(reply)
        except TidegateError as error:
            if error.is_answer:
                self._gate.answered()
            raise
        self._gate.answered()
        return result


def batch_body(checks: list[bytes], *, atomic: bool = False, headers: bool = False) -> bytes:
    """Write a batch of checks that are written already."""
    start = (b'"atomic":true,' if atomic else b"") + (b'"headers":true,' if headers else b"")
    return b"{" + start + b'"checks":[' + b",".join(checks) + b"]}"


def renumbered(error: TidegateError, name: Callable[[int], str]) -> TidegateError:
    """The error, with what it calls `checks[3]` called otherwise."""

    def better(words: str, end: str) -> str:
        def rename(found: re.Match[str]) -> str:
            new = name(int(found[1]))
            return new + end if new else ""

        return re.sub(rf"^checks\[(\d{{1,4}})\]{re.escape(end)}", rename, words)

    field = None if error.field is None else better(error.field, ".")
    return TidegateError(better(error.detail, ": "), error.status, error.type, field)
