"""Kills a server under load and starts it again: what each `on_error` admits, and how long checks take.

    TIDEGATE=target/debug/tidegate python clients/python/tests/outage.py

prints the table. A policy of 50/s with a burst of 50 is asked 200 times per second, for one key.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from typing import get_args

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from support import DEADLINE, Server

from tidegate import Decision, OnError, SyncTidegate, Tidegate, TidegateError

RATE, OFFERED = 50, 200
CONFIG = f"drain: 0s\npolicies:\n  api: {{ limit: {RATE}/s }}\n"
# A check that could not start in its turn is not asked later: the load stays as it is offered.
TIMEOUT = 1.0


@dataclass(frozen=True, slots=True)
class Asked:
    """One check."""

    at: float
    took: float
    allowed: bool
    source: str

    @classmethod
    def answered(cls, at: float, decision: Decision) -> Asked:
        return cls(at, time.monotonic() - at, decision.allowed, decision.source)

    @classmethod
    def raised(cls, at: float) -> Asked:
        return cls(at, time.monotonic() - at, False, "raised")


@dataclass(slots=True)
class Outage:
    """All checks, and when the server was killed and was back."""

    asked: list[Asked] = field(default_factory=list)
    killed: float = 0.0
    back: float = 0.0

    def between(self, start: float, end: float) -> list[Asked]:
        return [one for one in self.asked if start <= one.at < end]

    @property
    def first_second(self) -> list[Asked]:
        return self.between(self.killed, self.killed + 1)

    @property
    def rest(self) -> list[Asked]:
        return self.between(self.killed + 1, self.back)

    @property
    def comeback(self) -> float:
        """Seconds from the server's first word until it decides again."""
        decided = (one.at for one in self.asked if one.at >= self.back and one.source == "store")
        return next(decided, float("nan")) - self.back


class Plan:
    """When the server is up, and for how long."""

    def __init__(self, folder: Path, up: float, away: float) -> None:
        self._address = f"unix:{folder / 'http.sock'}"
        self._folder, self._up, self._away = folder, up, away
        self.socket = folder / "http.sock"
        self.outage = Outage()
        self.ended = threading.Event()
        self.is_ready: Callable[[], bool] = lambda: True
        self._server = Server(folder, self._address, CONFIG)

    def run(self) -> None:
        time.sleep(self._up)
        end = time.monotonic() + DEADLINE
        while not self.is_ready() and time.monotonic() < end:
            time.sleep(0.01)
        self.outage.killed = time.monotonic()
        self._server.kill()
        time.sleep(self._away)
        self._server = Server(self._folder, self._address, CONFIG)
        self.outage.back = time.monotonic()
        while isnan(self.outage.comeback) and time.monotonic() < self.outage.back + DEADLINE:
            time.sleep(0.01)
        time.sleep(self._up)
        self.ended.set()

    def stop(self) -> None:
        self._server.stop()


def turns(ended: threading.Event) -> Iterator[float]:
    """The times at which to ask."""
    start = time.monotonic()
    turn = 0
    while not ended.is_set():
        yield start + turn / OFFERED
        turn += 1


async def ask_async(plan: Plan, on_error: OnError) -> None:
    async def ask(client: Tidegate, at: float) -> None:
        try:
            asked = Asked.answered(at, await client.check("api", "k"))
        except TidegateError:
            asked = Asked.raised(at)
        plan.outage.asked.append(asked)

    async with Tidegate(socket=plan.socket, timeout=TIMEOUT, on_error=on_error) as client:
        plan.is_ready = lambda: on_error != "local" or client._policies.known is not None
        pending: set[asyncio.Task[None]] = set()
        for turn in turns(plan.ended):
            await asyncio.sleep(max(0.0, turn - time.monotonic()))
            pending.add(task := asyncio.ensure_future(ask(client, time.monotonic())))
            task.add_done_callback(pending.discard)
        await asyncio.gather(*pending)


def ask_sync(plan: Plan, on_error: OnError) -> None:
    def ask() -> None:
        at = time.monotonic()
        try:
            asked = Asked.answered(at, client.check("api", "k"))
        except TidegateError:
            asked = Asked.raised(at)
        plan.outage.asked.append(asked)

    with (
        SyncTidegate(socket=plan.socket, timeout=TIMEOUT, on_error=on_error) as client,
        ThreadPoolExecutor(8) as threads,
    ):
        plan.is_ready = lambda: on_error != "local" or client._policies.known is not None
        for turn in turns(plan.ended):
            time.sleep(max(0.0, turn - time.monotonic()))
            threads.submit(ask)


CLIENTS: dict[str, Callable[[Plan, OnError], None]] = {
    "Tidegate": lambda plan, on_error: asyncio.run(ask_async(plan, on_error)),
    "SyncTidegate": ask_sync,
}


def measure(client: str, on_error: OnError, up: float = 3.0, away: float = 4.0) -> Outage:
    """Run one outage."""
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(Path(folder), up, away)
        try:
            planned = threading.Thread(target=plan.run)
            planned.start()
            CLIENTS[client](plan, on_error)
            planned.join()
        finally:
            plan.stop()
    plan.outage.asked.sort(key=lambda one: one.at)
    return plan.outage


def admitted(asked: list[Asked]) -> int:
    return sum(one.allowed for one in asked)


def row(client: str, on_error: OnError, outage: Outage) -> str:
    before = outage.between(outage.killed - 1, outage.killed)
    after = outage.between(outage.back + outage.comeback, outage.back + outage.comeback + 1)
    rest = admitted(outage.rest) / (outage.back - outage.killed - 1)
    slowest = max(one.took for one in outage.asked if one.at >= outage.killed) * 1000
    return (
        f"| `{on_error}` | `{client}` | {admitted(before)} | {admitted(outage.first_second)} | {rest:.0f}"
        f" | {outage.comeback * 1000:.0f} ms | {admitted(after)} | {slowest:.0f} ms |"
    )


def table() -> Iterator[str]:
    yield (
        "| `on_error` | client | before | first second | each further second | comeback"
        " | first second after it | slowest check |"
    )
    yield "|---" * 8 + "|"
    for on_error in get_args(OnError):
        for client in CLIENTS:
            yield row(client, on_error, measure(client, on_error))


if __name__ == "__main__":
    for line in table():
        print(line, flush=True)  # noqa: T201
