"""An event loop with virtual time: it jumps to the next timer when idle."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.SelectSelector):
    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        assert ready or timeout is not None, "everyone waits for something that never comes"
        if not ready and timeout is not None:
            self.loop.now += max(timeout, 0)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    now: float

    def __init__(self) -> None:
        self.now = 1000.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now


def run(test: Coroutine[Any, Any, T]) -> T:
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(test)
    finally:
        loop.close()


def stall(seconds: float) -> None:
    """Block the event loop for this long."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.now += seconds
