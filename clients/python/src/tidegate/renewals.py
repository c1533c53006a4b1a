"""Keeps permits while they are held: each is renewed when a third of its time has passed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from .checks import Key
from .errors import TidegateError
from .fallback import log
from .replies import Decision

# Of the time that a permit has.
PART = 1 / 3
# Of a permit whose server does not tell its time: the first renewal does, so it is early.
TTL_MS_UNTOLD = 1000
PAUSE_SECONDS_MIN = 0.05
# A hundred days: no thread can wait for much longer than that.
TTL_MS_MAX = 100 * 86_400_000


@dataclass(eq=False, slots=True)
class HeldPermit:
    """A permit, and the pause until it is renewed."""

    policy: str
    key: Key
    permit: str
    pause: float = field(default=0.0)

    @classmethod
    def from_decision(cls, decision: Decision, key: Key) -> HeldPermit | None:
        """The permit of a decision, if it has one."""
        if decision.permit is None:
            return None
        held = cls(decision.policy, key, decision.permit)
        # Not `reset_after_ms`: it may be about a rate of the same policy.
        held.set_ttl(TTL_MS_UNTOLD if decision.ttl_ms is None else decision.ttl_ms)
        return held

    def set_ttl(self, ttl_ms: int) -> None:
        """Renew it when a part of this time has passed."""
        self.pause = max(PAUSE_SECONDS_MIN, min(ttl_ms, TTL_MS_MAX) / 1000 * PART)


class Renewals:
    """What becomes of renewals. Threads may share it."""

    def __init__(self) -> None:
        self.are_supported = True

    def renewed(self, held: HeldPermit, ttl_ms: int | None) -> bool:
        """Whether to renew the permit again."""
        if ttl_ms is None:
            log.warning("a permit of `%s` was lost before it was released", held.policy)
            return False
        held.set_ttl(ttl_ms)
        return True

    def failed(self, held: HeldPermit, error: TidegateError) -> bool:
        """Whether to try again: two more tries are left in the time of the permit."""
        if error.type == "urn:tidegate:unknown-path":
            if self.are_supported:
                self.are_supported = False
                log.warning("the server cannot renew permits: they expire after the `ttl` of their limit")
            return False
        if error.is_mistake or error.is_unknown_policy:
            log.warning("a permit of `%s` cannot be renewed: %s", held.policy, error)
            return False
        return True


class RenewalThread:
    """Renews the permits that the threads of a program hold. It runs while there are any."""

    def __init__(self, renew: Callable[[HeldPermit], bool]) -> None:
        self._renew = renew
        self._changed = threading.Condition()
        self._due: dict[HeldPermit, float] = {}
        self._is_running = False

    def add(self, held: HeldPermit) -> None:
        """Renew a permit from now on."""
        with self._changed:
            self._due[held] = time.monotonic() + held.pause
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, daemon=True).start()
            self._changed.notify()

    def remove(self, held: HeldPermit) -> None:
        """Renew a permit no more."""
        with self._changed:
            self._due.pop(held, None)
            self._changed.notify()

    def _run(self) -> None:
        while (held := self._next()) is not None:
            goes_on = self._renew(held)
            with self._changed:
                if held in self._due and goes_on:
                    self._due[held] = time.monotonic() + held.pause
                else:
                    self._due.pop(held, None)

    def _next(self) -> HeldPermit | None:
        """Wait until a permit is due; None if none is held."""
        with self._changed:
            while self._due:
                held, due = min(self._due.items(), key=lambda one: one[1])
                pause = due - time.monotonic()
                if pause <= 0:
                    return held
                self._changed.wait(pause)
            self._is_running = False
            return None
