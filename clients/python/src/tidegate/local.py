"""Counts in this process while the server does not answer: each limit with this process' share."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .checks import Check, Key
from .errors import TidegateError
from .ledger import PermitLedger
from .replies import Decision, Reservation
from .shares import AnyShare, Bucket, Outcome, Permits, Queue, State, Window, shares_of

# The keys in memory, about 400 bytes each. The key that was not asked for longest is forgotten first.
KEYS_MAX = 50_000
# The time of a permit if the server did not tell.
TTL_NS = 60_000_000_000
FOREVER_NS = 2**63

# A share, and the key that it counts.
Slot = tuple[str, AnyShare, str]
Policy = Mapping[str, Any]


# The limits of checks and permits.
CHARGED = (Bucket, Window, Permits)
RECOVERING = TidegateError("permits from before or during an outage are still held")


class LocalLimits:
    """The counts of one process. Threads may share it."""

    def __init__(self, processes: int, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._processes = processes
        self._clock = clock
        self._lock = threading.RLock()
        self._states: OrderedDict[Slot, State] = OrderedDict()
        self._shares: dict[str, tuple[Policy, list[AnyShare]]] = {}
        self._ledger = PermitLedger()

    def check(self, policy: Policy, check: Check, error: TidegateError) -> Decision:
        """Decide, and charge the cost if allowed. Raises a `ValueError` if the policy has no such limits."""
        return self._decide(policy, check, error, (Bucket, Window), charge=True)

    def check_all(self, asked: Sequence[tuple[Policy, Check]], error: TidegateError) -> list[Decision]:
        """Charge all checks, or none if one of them is denied."""
        with self._lock:
            slots = [slot for policy, check in asked for slot in self._slots(policy, check, (Bucket, Window))]
            before = {slot: self._states.get(slot) for slot in slots}
            decisions = [self.check(policy, check, error) for policy, check in asked]
            if all(one.allowed for one in decisions):
                return decisions
            for slot, state in before.items():
                if state is None:
                    self._states.pop(slot, None)
                else:
                    self._states[slot] = state
            peeks = [self.peek(policy, check, error) for policy, check in asked]
        return [replace(peek, allowed=False) for peek in peeks]

    def peek(self, policy: Policy, check: Check, error: TidegateError) -> Decision:
        """Decide, and charge nothing."""
        return self._decide(policy, check, error, CHARGED, charge=False)

    def acquire(self, policy: Policy, check: Check, error: TidegateError) -> Decision:
        """Acquire a permit that only this process knows."""
        with self._lock:
            if not self._ledger.has_room(self._clock()):
                return replace(self.peek(policy, check, error), allowed=False)
            return self._decide(policy, check, error, CHARGED, charge=True)

    def granted(
        self, policy: Policy | None, check: Check, permit: str, ttl_ms: int | None = None
    ) -> Decision | None:
        """Hold a permit of the server, for as long as it says with the permit or else with the policy.

        The refusal, if the server may have forgotten others that are held.
        """
        with self._lock:
            now = self._clock()
            slots = [] if policy is None else self._slots(policy, check, CHARGED)
            if not self._ledger.has_room(now):
                return None
            ttl_ns = _ttl_ns(slots) if ttl_ms is None else _ns(ttl_ms)
            self._ledger.add(permit, check, ttl_ns, now)
            if policy is None or not any(self._is_unsure(slot, now) for slot in slots):
                return None
            if self.peek(policy, replace(check, cost=0), RECOVERING).allowed:
                return None
            self._ledger.release(permit)
            return replace(self.peek(policy, check, RECOVERING), allowed=False)

    def release(self, permit: str) -> bool:
        """Release a permit. Return whether it was held."""
        with self._lock:
            was_current = self._ledger.is_current(permit, self._clock())
            self._ledger.release(permit)
        return was_current

    def renew(self, permit: str) -> int | None:
        """Renew a permit of this process. Return its time in ms; None if it is not held."""
        with self._lock:
            ttl_ns = self._ledger.renew(permit, self._clock())
        return None if ttl_ns is None else _ms(ttl_ns)

    def renewed(self, permit: str, ttl_ms: int | None) -> None:
        """The server has renewed a permit, or does not know it (None)."""
        with self._lock:
            now = self._clock()
            if ttl_ms is not None:
                self._ledger.confirm(permit, _ns(ttl_ms), now)
            elif self._ledger.is_current(permit, now):
                self._ledger.doubt_all()

    def doubt_permits(self) -> None:
        """The server may have been started again: a call had no answer, or it does not know a permit."""
        with self._lock:
            self._ledger.doubt_all()

    def reserve(self, policy: Policy, check: Check, error: TidegateError) -> Reservation:
        """Reserve a slot in a leaky bucket."""
        with self._lock:
            (slot,) = self._slots(policy, check, (Queue,))
            queue, now = slot[1], self._clock()
            assert isinstance(queue, Queue)  # noqa: S101 (as asked for)
            delay = queue.delay(self._states.get(slot), now)
            accepted = delay <= queue.max_wait_ns
            if accepted:
                self._keep(slot, now + delay + check.cost * queue.cost * queue.interval_ns)
        if accepted:
            return Reservation(True, _ms(delay), 0, "local", error)
        return Reservation(False, 0, _ms(delay - queue.max_wait_ns), "local", error)

    def _decide(
        self,
        policy: Policy,
        check: Check,
        error: TidegateError,
        kinds: tuple[type[AnyShare], ...],
        *,
        charge: bool,
    ) -> Decision:
        is_any = policy.get("mode") == "any"
        with self._lock:
            now = self._clock()
            slots = self._slots(policy, check, kinds)
            outcomes = [self._outcome(slot, now, check.cost) for slot in slots]
            allowed = (any if is_any else all)(one.allowed for one in outcomes)
            # Below 100 %, only the server knows which callers it is enforced for.
            allowed = allowed or policy.get("shadow") is True or policy.get("enforce", "100%") != "100%"
            granted = self._charge(slots, outcomes, check, now) if charge and allowed else None
        permit, ttl_ms = granted or (None, None)
        binding = _binding(outcomes, allowed=allowed, is_any=is_any)
        share, outcome = slots[binding][1], outcomes[binding]
        wait = 0 if allowed else outcome.retry_after_ns
        return Decision(
            allowed, share.units, outcome.remaining, None if wait is None else _ms(wait),
            _ms(outcome.reset_after_ns), check.policy, share.name, "local", permit,
            ttl_ms=ttl_ms, error=error,
        )  # fmt: skip

    def _outcome(self, slot: Slot, now: int, cost: int) -> Outcome:
        name, share, key = slot
        assert not isinstance(share, Queue)  # noqa: S101 (not asked for)
        if isinstance(share, Permits):
            held = self._ledger.held(name, _counts_like(key, share.key), share.cost, now)
            return share.decide(held, now, cost * share.cost)
        state = self._states.get(slot)
        if state is not None:
            self._states.move_to_end(slot)
        return share.decide(state, now, cost * share.cost)

    def _charge(
        self, slots: list[Slot], outcomes: list[Outcome], check: Check, now: int
    ) -> tuple[str, int] | None:
        """Charge, and return a permit and its time in ms if there are limits of permits."""
        # Of `any`, only those that allow.
        charged = [(slot, one.state) for slot, one in zip(slots, outcomes, strict=True) if one.allowed]
        for slot, state in charged:
            if not isinstance(slot[1], Permits):
                self._keep(slot, state)
        places = [slot for slot, _ in charged if isinstance(slot[1], Permits)]
        if not places:
            return None
        ttl_ns = _ttl_ns(places)
        return self._ledger.grant(check, ttl_ns, now), _ms(ttl_ns)

    def _is_unsure(self, slot: Slot, now: int) -> bool:
        name, share, key = slot
        is_same = _counts_like(key, share.key)
        return isinstance(share, Permits) and self._ledger.has_unsure(name, is_same, now)

    def _keep(self, slot: Slot, state: State) -> None:
        self._states[slot] = state
        self._states.move_to_end(slot)
        while len(self._states) > KEYS_MAX:
            self._states.popitem(last=False)

    def _slots(self, policy: Policy, check: Check, kinds: tuple[type[AnyShare], ...]) -> list[Slot]:
        known, shares = self._shares.get(check.policy, (None, []))
        if known is not policy:
            shares = shares_of(policy, check.policy, self._processes)
            self._shares[check.policy] = (policy, shares)
        if not all(isinstance(share, kinds) for share in shares):
            raise ValueError(f"policy `{check.policy}` has no limits for this call")
        # A shared limit is one, by whichever policy it is asked.
        of = policy.get("share", {}).get("of", check.policy)
        return [
            (of if share.key == "global" else check.policy, share, _key(check.key, share.key))
            for share in shares
        ]


def _key(key: Key, name: str | None) -> str:
    """The text that a limit counts by."""
    if name == "global":
        return ""
    if not isinstance(key, Mapping):
        return str(key)
    if name is None:
        return json.dumps(dict(key), sort_keys=True)
    if name not in key:
        raise ValueError(f"key: `{name}` is missing")
    return str(key[name])


def _counts_like(text: str, name: str | None) -> Callable[[Key], bool]:
    """Whether a limit counts a key as this text."""

    def is_same(key: Key) -> bool:
        try:
            return _key(key, name) == text
        except ValueError:  # a reload has changed the names of the keys
            return False

    return is_same


def _ttl_ns(slots: list[Slot]) -> int:
    """The time of a permit: the shortest of its limits."""
    return min((slot[1].ttl_ns for slot in slots if isinstance(slot[1], Permits)), default=TTL_NS)


def _binding(outcomes: list[Outcome], *, allowed: bool, is_any: bool) -> int:
    """The limit that the numbers belong to: the least left, or the longest wait; with `any`, the opposite."""
    if allowed:
        ranks = [one.remaining if one.allowed else -1 for one in outcomes]
        return ranks.index(max(ranks) if is_any else min(ranks))
    waits = [
        0 if one.allowed else FOREVER_NS if one.retry_after_ns is None else one.retry_after_ns
        for one in outcomes
    ]
    return waits.index(min(waits) if is_any else max(waits))


def _ns(ms: int) -> int:
    return ms * 1_000_000


def _ms(ns: int) -> int:
    return -(-ns // 1_000_000)
