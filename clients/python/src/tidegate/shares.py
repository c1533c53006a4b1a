"""A process' share of a limit, as pure functions: share, state, now and cost in; outcome and state out.

Times are integers, in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# What a permit costs, and when it expires.
Held = tuple[int, int]
State = int | tuple[int, int, int] | dict[str, Held]


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
    """A number per period, for all other algorithms: the last period's count weighs less as this one passes.

    After a burst of all units, less than twice as many pass within a period, and then the rate holds.
    The state is the number of the period, its count, and the count of the one before.
    """

    period_ns: int

    def decide(self, state: State | None, now: int, cost: int) -> Outcome:
        """Allow if the weighted count has room."""
        index, passed = divmod(now, self.period_ns)
        count, before = self._counts(state, index)
        left = self.units - count - -(-before * (self.period_ns - passed) // self.period_ns)
        reset = (2 if count + cost else 1) * self.period_ns - passed if count + before + cost else 0
        if cost <= left:
            return Outcome(True, (index, count + cost, before), left - cost, 0, reset)
        retry = None if cost > self.units else self._retry(count, before, passed, cost)
        return Outcome(False, (index, count, before), max(0, left), retry, reset)

    def _counts(self, state: State | None, index: int) -> tuple[int, int]:
        if not isinstance(state, tuple):
            return 0, 0
        last, count, before = state
        return (count, before) if last == index else (0, count) if last == index - 1 else (0, 0)

    def _retry(self, count: int, before: int, passed: int, cost: int) -> int:
        """Until the older count weighs so little that the cost fits."""
        room = self.units - cost - count
        if room >= 0:
            return self.period_ns - room * self.period_ns // before - passed
        return 2 * self.period_ns - (self.units - cost) * self.period_ns // count - passed


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
        """Allow if enough permits are free. An expired one is."""
        held = state if isinstance(state, dict) else {}
        for permit in [one for one, (_, until) in held.items() if until <= now]:
            del held[permit]
        left = self.units - sum(each for each, _ in held.values())
        until = max((until - now for _, until in held.values()), default=0)
        if cost <= left:
            return Outcome(True, held, left - cost, 0, max(until, self.ttl_ns))
        first = min((until - now for _, until in held.values()), default=0)
        return Outcome(False, held, max(0, left), None if cost > self.units else first, until)


AnyShare = Bucket | Window | Queue | Permits


def shares_of(policy: Mapping[str, Any], name: str, processes: int) -> list[AnyShare]:
    """The shares of a policy as `/v1/policies` describes it. Raises a `ValueError` if it cannot be read."""
    members = policy.get("members", [policy])
    try:
        return [_share(member, member.get("name", name), processes) for member in members]
    except (AttributeError, KeyError, TypeError, ZeroDivisionError) as error:
        raise ValueError(f"policy `{name}`: {error!r}") from error


def _share(member: Mapping[str, Any], name: str, processes: int) -> AnyShare:
    key, algorithm, limit = member.get("key"), member["algorithm"], int(member["limit"])
    units = int(member.get("effective", limit)) if member.get("adaptive") == "enforce" else limit
    if algorithm == "concurrency":
        return Permits(name, key, _part(units, processes), int(member["ttl_us"]) * 1000)
    period_ns = int(member["period_us"]) * 1000
    interval_ns = period_ns * processes // units
    if algorithm == "leaky-bucket":
        return Queue(name, key, units, interval_ns, int(member["max_wait_us"]) * 1000)
    if algorithm in ("gcra", "token-bucket"):
        burst = int(member.get("burst", member.get("capacity", limit)))
        return Bucket(name, key, _part(burst * units // limit, processes), interval_ns)
    return Window(name, key, _part(units, processes), period_ns)


def _part(units: int, processes: int) -> int:
    return max(1, units // processes)
