"""The permits that a process holds: the server's, and those that it has granted itself meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from .checks import Check, Key
from .shares import Held

# Permits held at once, in all.
PERMITS_MAX = 10_000
PERMIT_PREFIX = "local."


@dataclass(slots=True)
class _Entry:
    check: Check
    ttl_ns: int
    until: int


class PermitLedger:
    """Not for threads without a lock."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        # Permits that the server may not know: ours, and all from before an outage.
        self._unsure: set[str] = set()
        self._numbers = itertools.count()

    def has_room(self, now: int) -> bool:
        """Whether there is room for another permit."""
        if len(self._entries) >= PERMITS_MAX:
            for permit in [one for one, entry in self._entries.items() if entry.until <= now]:
                self.release(permit)
        return len(self._entries) < PERMITS_MAX

    def grant(self, check: Check, ttl_ns: int, now: int) -> str:
        """A new permit of this process."""
        permit = f"{PERMIT_PREFIX}{next(self._numbers)}"
        self.add(permit, check, ttl_ns, now)
        self._unsure.add(permit)
        return permit

    def add(self, permit: str, check: Check, ttl_ns: int, now: int) -> None:
        """Hold a permit."""
        self._entries[permit] = _Entry(check, ttl_ns, now + ttl_ns)

    def renew(self, permit: str, now: int) -> int | None:
        """Hold a permit for as long again, and return that time; None if it is not held."""
        entry = self._entries.get(permit)
        if entry is None or entry.until <= now:
            return None
        entry.until = now + entry.ttl_ns
        return entry.ttl_ns

    def release(self, permit: str) -> bool:
        """Return whether it was held."""
        self._unsure.discard(permit)
        return self._entries.pop(permit, None) is not None

    def confirm(self, permit: str, ttl_ns: int, now: int) -> None:
        """The server knows a permit, and holds it for this long from now on."""
        self._unsure.discard(permit)
        entry = self._entries.get(permit)
        if entry is not None:
            entry.ttl_ns, entry.until = ttl_ns, now + ttl_ns

    def is_current(self, permit: str, now: int) -> bool:
        """Whether a permit is held, and its time has not passed: the server should know it, too."""
        entry = self._entries.get(permit)
        return entry is not None and entry.until > now

    def doubt_all(self) -> None:
        """The server was away or has lost a permit, and may have forgotten what it knew."""
        self._unsure.update(self._entries)

    def has_unsure(self, policy: str, is_same: Callable[[Key], bool], now: int) -> bool:
        """Whether permits of a policy are held, with keys that count as one, that the server may not know."""
        return bool(self._unsure) and not self._unsure.isdisjoint(self.held(policy, is_same, 1, now))

    def held(self, policy: str, is_same: Callable[[Key], bool], cost: int, now: int) -> dict[str, Held]:
        """What the permits of a policy take of a limit, with keys that count as one, and until when."""
        return {
            permit: (entry.check.cost * cost, entry.until)
            for permit, entry in self._entries.items()
            if entry.check.policy == policy and entry.until > now and is_same(entry.check.key)
        }
