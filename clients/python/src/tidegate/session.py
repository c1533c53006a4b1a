"""The state of one event loop: connections, call slots, shared calls."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import TypeVar

from . import replies
from .checks import Check
from .coalesce import Coalescer
from .errors import TidegateError
from .replies import Decision, Reply
from .slots import CallSlots
from .wire import Address, Wire

T = TypeVar("T")
BATCH = "/v1/check/batch"


class Session:
    """Must be created in the event loop that uses it."""

    def __init__(self, address: Address, timeout: float, max_connections: int) -> None:
        self.loop = asyncio.get_running_loop()
        self._wire = Wire(address, max_connections)
        self._slots = CallSlots(max_connections, timeout)
        self.coalescer = Coalescer(self._slots, self._send)

    async def call(self, path: str, body: bytes, read: Callable[[Reply], T]) -> T:
        """Make a single call."""
        async with self._slots.slot():
            return self._decode(read, await self._wire.post(path, body))

    async def close(self) -> None:
        """Wait for pending calls, and close the connections."""
        await self.coalescer.finish()
        await self._slots.wait_idle()
        await self._wire.close()

    async def _send(self, checks: list[tuple[Check, bytes]], headers: bool) -> list[Decision]:
        """Make a shared call in a slot that the coalescer holds."""
        if len(checks) == 1:
            (check, body) = checks[0]
            reply = await self._wire.post("/v1/check", body)
            return [self._decode(lambda it: replies.decision(it, check.policy), reply)]
        reply = await self._wire.post(BATCH, batch_body([body for _, body in checks], headers=headers))
        try:
            return self._decode(lambda it: replies.decisions(it, len(checks), headers=headers), reply)
        except TidegateError as error:
            # All checks have the same shape, hence the same error: the index is irrelevant.
            raise renumbered(error, lambda _: "") from None

    def _decode(self, read: Callable[[Reply], T], reply: Reply) -> T:
        """Decode a reply, and record that the server answered; an error from the server is an answer, too."""
        try:
            result = read(reply)
        except TidegateError as error:
            if error.is_answer:
                self._slots.answered()
            raise
        self._slots.answered()
        return result


def batch_body(checks: list[bytes], *, atomic: bool = False, headers: bool = False) -> bytes:
    """Join encoded checks into the body of a batch."""
    start = (b'"atomic":true,' if atomic else b"") + (b'"headers":true,' if headers else b"")
    return b"{" + start + b'"checks":[' + b",".join(checks) + b"]}"


def renumbered(error: TidegateError, name: Callable[[int], str]) -> TidegateError:
    """Replace `checks[3]` in an error by another name."""

    def renamed(text: str, end: str) -> str:
        def rename(found: re.Match[str]) -> str:
            new = name(int(found[1]))
            return new + end if new else ""

        return re.sub(rf"^checks\[(\d{{1,4}})\]{re.escape(end)}", rename, text)

    field = None if error.field is None else renamed(error.field, ".")
    return TidegateError(renamed(error.detail, ": "), error.status, error.type, field)
