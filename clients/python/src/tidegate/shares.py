"""A process' share of a limit, as pure functions: share, state, now and cost in; outcome and state out.

Times are integers, in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# Slices of a window's period.
SLICES = 10
# A month has up to 31 days and a day up to 25 hours, where `/v1/policies` says 30 and 24.
QUOTA_STRETCH_PERCENT = 105

# The number of a slice, and its count.
Slices = tuple[tuple[int, int], ...]
# What a permit takes of its limit, and when it expires.
Held = tuple[int, int]
State = int | Slices | dict[str, Held]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a share says to a check."""

    allowed: bool
    state: State
    """The state if it is charged."""
    remaining: int
    retry_after_ns: int | None
    """None if this cost can never be allowed."""
    reset_after_ns: int


@dataclass(frozen=True, slots=True)
class Share:
    """A share of `units`, of the limit `name`, counted by the identifier `key`."""

    name: str
    key: str | None
    units: int
    cost: int = field(default=1, kw_only=True)
    """What each unit of a check's cost takes of this limit."""


@dataclass(frozen=True, slots=True)
class Bucket(Share):
    """A rate with a burst: GCRA and token buckets. The state is the time up to which the key has spent."""

    interval_ns: int

    def decide(self, state: State | None, now: int, cost: int) -> Outcome:
        """Allow if the burst has room."""
        spent = max(state if isinstance(state, int) else now, now)
        after, burst = spent + cost * self.interval_ns, self.units * self.interval_ns
        if after - now <= burst:
            return Outcome(True, after, (burst - after + now) // self.interval_ns, 0, after - now)
        retry = None if cost > self.units else after - now - burst
        left = max(0, burst - spent + now) // self.interval_ns
        return Outcome(False, spent, left, retry, spent - now)


@dataclass(frozen=True, slots=True)
class Window(Share):
    """A number per period, for all other algorithms: never more in any period.

    The state is the counts of the last slices of time, oldest first. A unit counts up to a tenth longer than
    the period.
    """

    slice_ns: int

    def decide(self, state: State | None, now: int, cost: int) -> Outcome:
        """Allow if the period has room."""
        index = now // self.slice_ns
        slices = state if isinstance(state, tuple) else ()
        slices = tuple((at, count) for at, count in slices if index - at <= SLICES)
        left = self.units - _total(slices)
        if cost <= left:
            if slices and slices[-1][0] == index:
                slices, cost = slices[:-1], slices[-1][1] + cost
            after = (*slices, (index, cost)) if cost else slices
            return Outcome(True, after, self.units - _total(after), 0, self._reset(after, now))
        retry = None if cost > self.units else self._retry(slices, now, cost - left)
        return Outcome(False, slices, max(0, left), retry, self._reset(slices, now))

    def _retry(self, slices: Slices, now: int, missing: int) -> int:
        """Until the oldest slices have freed what is missing."""
        for at, count in slices:
            missing -= count
            if missing <= 0:
                return self._freed(at) - now
        return self._reset(slices, now)

    def _reset(self, slices: Slices, now: int) -> int:
        return self._freed(slices[-1][0]) - now if slices else 0

    def _freed(self, at: int) -> int:
        return (at + SLICES + 1) * self.slice_ns


@dataclass(frozen=True, slots=True)
class Queue(Share):
    """A leaky bucket. The state is the time at which the next slot begins."""

    interval_ns: int
    max_wait_ns: int

    def delay(self, state: State | None, now: int) -> int:
        """The wait for the next slot."""
        return max(0, state - now) if isinstance(state, int) else 0


@dataclass(frozen=True, slots=True)
class Permits(Share):
    """A concurrency limit. The state is the permits that are held."""

    ttl_ns: int

    def decide(self, state: State | None, now: int, cost: int) -> Outcome:
        """Allow if enough permits are free."""
        held = state if isinstance(state, dict) else {}
        left = self.units - sum(each for each, _ in held.values())
        until = max((until - now for _, until in held.values()), default=0)
        if cost <= left:
            return Outcome(True, held, left - cost, 0, max(until, self.ttl_ns))
        first = min((until - now for _, until in held.values()), default=0)
        return Outcome(False, held, max(0, left), None if cost > self.units else first, until)


AnyShare = Bucket | Window | Queue | Permits


def shares_of(policy: Mapping[str, Any], name: str, processes: int) -> list[AnyShare]:
    """The shares of a policy as `/v1/policies` describes it. Raises a `ValueError` if it cannot be read."""
    try:
        shares = [
            _share(member, member.get("name", name), processes) for member in policy.get("members", [policy])
        ]
    except (ArithmeticError, AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"policy `{name}`: {error!r}") from error
    if not shares:
        raise ValueError(f"policy `{name}`: no limits")
    return shares


def _share(member: Mapping[str, Any], name: str, processes: int) -> AnyShare:
    key, algorithm, limit = member.get("key"), member["algorithm"], int(member["limit"])
    # The counts are kept by name and key.
    if not all(isinstance(one, str) for one in (name, algorithm, "" if key is None else key)):
        raise TypeError(f"expected names, got {name!r:.40}, {algorithm!r:.40} and {key!r:.40}")
    cost = int(member.get("cost", 1))
    if limit < 1 or cost < 1:
        raise ValueError(f"`{name}`: expected a limit and a cost of at least 1, got {limit} and {cost}")
    units = max(1, int(member.get("effective", limit))) if member.get("adaptive") == "enforce" else limit
    if algorithm == "concurrency":
        ttl_ns = int(member["ttl_us"]) * 1000
        return Permits(name, key, _part(units, processes, cost), ttl_ns, cost=cost)
    period_ns = int(member["period_us"]) * 1000
    interval_ns = period_ns * processes // units
    if algorithm == "leaky-bucket":
        return Queue(name, key, units, interval_ns, int(member["max_wait_us"]) * 1000, cost=cost)
    if algorithm in ("gcra", "token-bucket"):
        burst = int(member.get("burst", member.get("capacity", limit)))
        return Bucket(name, key, _part(burst * units // limit, processes, cost), interval_ns, cost=cost)
    if algorithm == "quota":
        period_ns = period_ns * QUOTA_STRETCH_PERCENT // 100
    if units < processes * cost:  # one check in a longer time
        period_ns = period_ns * processes * cost // units
    return Window(name, key, _part(units, processes, cost), -(-period_ns // SLICES), cost=cost)


def _total(slices: Slices) -> int:
    return sum(count for _, count in slices)


def _part(units: int, processes: int, least: int) -> int:
    # A share in which no check fits would refuse for as long as the server is away.
    return max(least, units // processes)
