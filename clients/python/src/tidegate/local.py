"""Counts in this process while the server does not answer: each limit with this process' share."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .checks import Check, Key
from .errors import TidegateError
from .replies import Decision, Reservation
from .shares import AnyShare, Bucket, Outcome, Permits, Queue, State, Window, shares_of

# The keys in memory, about 400 bytes each. The key that was not asked for longest is forgotten first.
KEYS_MAX = 50_000
PERMIT_PREFIX = "local."
FOREVER_NS = 2**63

# A share, and the key that it counts.
Slot = tuple[str, AnyShare, str]
Policy = Mapping[str, Any]


class LocalLimits:
    """The counts of one process. Threads may share it."""

    def __init__(self, processes: int, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._processes = processes
        self._clock = clock
        self._lock = threading.RLock()
        self._states: OrderedDict[Slot, State] = OrderedDict()
        self._shares: dict[str, tuple[Policy, list[AnyShare]]] = {}
        self._permits = itertools.count()

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
        return self._decide(policy, check, error, (Bucket, Window, Permits), charge=False)

    def acquire(self, policy: Policy, check: Check, error: TidegateError) -> Decision:
        """Acquire a permit that only this process knows."""
        return self._decide(policy, check, error, (Bucket, Window, Permits), charge=True)

    def release(self, policy: Policy, check: Check, permit: str) -> bool:
        """Release a permit of this process. Return whether it was held."""
        with self._lock:
            slots = self._slots(policy, check, (Bucket, Window, Permits))
            states = [self._states.get(slot) for slot in slots]
            found = [state.pop(permit, None) for state in states if isinstance(state, dict)]
        return any(one is not None for one in found)

    def renew(self, policy: Policy, check: Check, permit: str) -> int | None:
        """Renew a permit of this process. Return its time in ms; None if it is not held."""
        with self._lock:
            now, times = self._clock(), []
            for slot in self._slots(policy, check, (Bucket, Window, Permits)):
                share, state = slot[1], self._states.get(slot)
                if isinstance(share, Permits) and isinstance(state, dict) and permit in state:
                    cost, until = state[permit]
                    if until > now:
                        state[permit] = (cost, now + share.ttl_ns)
                        times.append(share.ttl_ns)
        return _ms(min(times)) if times else None

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
            permit = None
            if charge and allowed:
                permit = self._charge(slots, outcomes, now, check.cost)
        binding = _binding(outcomes, allowed=allowed, is_any=is_any)
        share, outcome = slots[binding][1], outcomes[binding]
        wait = 0 if allowed else outcome.retry_after_ns
        return Decision(
            allowed, share.units, outcome.remaining, None if wait is None else _ms(wait),
            _ms(outcome.reset_after_ns), check.policy, share.name, "local", permit, error=error,
        )  # fmt: skip

    def _outcome(self, slot: Slot, now: int, cost: int) -> Outcome:
        state = self._states.get(slot)
        if state is not None:
            self._states.move_to_end(slot)
        share = slot[1]
        assert not isinstance(share, Queue)  # noqa: S101 (not asked for)
        return share.decide(state, now, cost * share.cost)

    def _charge(self, slots: list[Slot], outcomes: list[Outcome], now: int, cost: int) -> str | None:
        permit = None
        for slot, outcome in zip(slots, outcomes, strict=True):
            if not outcome.allowed:
                continue  # a limit of `any`
            if isinstance(slot[1], Permits) and isinstance(outcome.state, dict):
                permit = permit or f"{PERMIT_PREFIX}{next(self._permits)}"
                outcome.state[permit] = (cost * slot[1].cost, now + slot[1].ttl_ns)
            self._keep(slot, outcome.state)
        return permit

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
        if not shares or not all(isinstance(share, kinds) for share in shares):
            raise ValueError(f"policy `{check.policy}` has no limits for this call")
        return [(check.policy, share, _key(check.key, share.key)) for share in shares]


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


def _ms(ns: int) -> int:
    return -(-ns // 1_000_000)
