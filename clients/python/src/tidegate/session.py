"""The state of one event loop: connections, call slots, shared calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from . import replies
from .address import Address
from .calls import BATCH, Call, batch_body, renumbered
from .checks import Check
from .coalesce import Coalescer
from .errors import TidegateError
from .replies import Decision, decode
from .slots import CallSlots
from .wire import Wire

T = TypeVar("T")


class Session:
    """Must be created in the event loop that uses it."""

    def __init__(
        self, address: Address, timeout: float, max_connections: int, answered: Callable[[], None]
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self._wire = Wire(address, max_connections)
        self._slots = CallSlots(max_connections, timeout)
        self._tell_answered = answered
        self.coalescer = Coalescer(self._slots, self._send)

    async def call(self, call: Call[T]) -> T:
        """Make a single call."""
        async with self._slots.slot():
            reply = await self._wire.send(call.path, call.body)
            return decode(reply, call.read, self._answered)

    async def close(self) -> None:
        """Wait for pending calls, and close the connections."""
        await self.coalescer.finish()
        await self._slots.wait_idle()
        await self._wire.close()

    def _answered(self) -> None:
        self._slots.answered()
        self._tell_answered()

    async def _send(self, checks: list[tuple[Check, bytes]], headers: bool) -> list[Decision]:
        """Make a shared call in a slot that the coalescer holds."""
        if len(checks) == 1:
            (check, body) = checks[0]
            reply = await self._wire.send("/v1/check", body)
            return [decode(reply, lambda it: replies.decision(it, check.policy), self._answered)]
        reply = await self._wire.send(BATCH, batch_body([body for _, body in checks], headers=headers))
        try:
            return decode(
                reply,
                lambda it: replies.decisions(it, len(checks), headers=headers),
                self._answered,
            )
        except TidegateError as error:
            # All checks have the same shape, hence the same error: the index is irrelevant.
            raise renumbered(error, lambda _: "") from None
