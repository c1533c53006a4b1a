"""What a process counts by itself: exact, in virtual time."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tidegate import Check, Decision, TidegateError, ledger, local
from tidegate.local import LocalLimits
from tidegate.shares import Bucket, State, Window, shares_of

SECOND = 1_000_000_000
AWAY = TidegateError("no answer")
GCRA = {"algorithm": "gcra", "limit": 100, "period_us": 60_000_000, "burst": 20}
BUCKET = {"algorithm": "token-bucket", "limit": 10, "period_us": 1_000_000, "capacity": 50}
LOG = {"algorithm": "sliding-log", "limit": 10, "period_us": 60_000_000}
QUEUE = {"algorithm": "leaky-bucket", "limit": 2, "period_us": 1_000_000, "max_wait_us": 1_000_000}
WORK = {"algorithm": "concurrency", "limit": 4, "ttl_us": 60_000_000}


class Clock:
    def __init__(self) -> None:
        self.now = 10**15

    def __call__(self) -> int:
        return self.now


@pytest.mark.parametrize(
    ("policy", "processes", "shares"),
    [
        (GCRA, 1, [(Bucket, 20, 600_000_000)]),
        (GCRA, 4, [(Bucket, 5, 2_400_000_000)]),
        (BUCKET, 1, [(Bucket, 50, 100_000_000)]),
        (BUCKET, 100, [(Bucket, 1, 10 * SECOND)]),
        (LOG, 1, [(Window, 10, 6 * SECOND)]),
        (LOG, 3, [(Window, 3, 6 * SECOND)]),
        (LOG, 100, [(Window, 1, 60 * SECOND)]),
        (LOG | {"algorithm": "quota"}, 1, [(Window, 10, 6_300_000_000)]),
        (GCRA | {"effective": 50, "adaptive": "enforce"}, 1, [(Bucket, 10, 1_200_000_000)]),
        (LOG | {"effective": 0, "adaptive": "enforce"}, 1, [(Window, 1, 6 * SECOND)]),
        (GCRA | {"effective": 50, "adaptive": "shadow"}, 1, [(Bucket, 20, 600_000_000)]),
        (LOG | {"limit": 20, "cost": 5}, 4, [(Window, 5, 6 * SECOND)]),
        (LOG | {"limit": 20, "cost": 5}, 8, [(Window, 5, 12 * SECOND)]),
        (GCRA | {"cost": 5}, 10, [(Bucket, 5, 6 * SECOND)]),
        ({"mode": "all", "members": [GCRA, LOG]}, 2, [(Bucket, 10, 1_200_000_000), (Window, 5, 6 * SECOND)]),
    ],
)
def test_a_share_is_the_limit_divided_by_the_processes(
    policy: dict[str, Any], processes: int, shares: list[tuple[type, int, int]]
) -> None:
    found = shares_of(policy, "p", processes)
    times = [one.interval_ns if isinstance(one, Bucket) else one.slice_ns for one in found]  # type: ignore[union-attr]
    assert [(type(one), one.units, time) for one, time in zip(found, times, strict=True)] == shares


@pytest.mark.parametrize(
    "policy",
    [{}, {"algorithm": "gcra"}, GCRA | {"limit": 0}, {"members": [1]}, GCRA | {"limit": "x"}, {"members": 1}]
    + [None, [], "x", {"members": []}, WORK | {"limit": 0}, GCRA | {"period_us": float("inf")}]
    + [GCRA | {"cost": cost} for cost in (0, -1, "x", None, [5])]
    + [WORK | {"name": []}, WORK | {"name": None}, WORK | {"key": []}, WORK | {"algorithm": []}],
)
def test_a_policy_that_cannot_be_read_is_a_value_error(policy: Any) -> None:  # noqa: ANN401
    with pytest.raises(ValueError, match=r"policy `p`: |invalid literal|`p`: expected a limit and a"):
        shares_of(policy, "p", 1)


@pytest.mark.parametrize("share", [Bucket("p", None, 7, 3 * SECOND), Window("p", None, 7, 2 * SECOND)])
def test_retry_after_is_neither_too_short_nor_too_long(share: Bucket | Window) -> None:
    dice = random.Random(7)
    state: State | None = None
    now, refused = 10**15, 0
    for _ in range(10_000):
        now += dice.randrange(6 * SECOND)
        cost = dice.randrange(1, 9)
        outcome = share.decide(state, now, cost)
        if outcome.allowed:
            assert cost <= 7
            state = outcome.state
        elif outcome.retry_after_ns is None:
            assert cost > 7
        else:
            refused += 1
            assert outcome.retry_after_ns > 0
            assert share.decide(state, now + outcome.retry_after_ns, cost).allowed
            assert not share.decide(state, now + outcome.retry_after_ns - 2, cost).allowed
    assert refused > 1000


def test_a_bucket_admits_at_most_its_burst_and_its_rate() -> None:
    share, state, now, admitted = Bucket("p", None, 5, SECOND), None, 10**15, 0
    for _ in range(1000):
        outcome = share.decide(state, now, 1)
        if outcome.allowed:
            state, admitted = outcome.state, admitted + 1
        now += SECOND // 10
    assert admitted == 5 + 99


def test_a_window_never_admits_more_than_its_units_in_any_period() -> None:
    share, state, period = Window("p", None, 100, 6 * SECOND), None, 60 * SECOND
    times: list[int] = []
    # A burst at the end of a period, as at the boundary of fixed windows, and then all the time.
    for now in [*[59 * SECOND] * 200, *range(60 * SECOND, 300 * SECOND, SECOND // 10)]:
        outcome = share.decide(state, now, 1)
        if outcome.allowed:
            state = outcome.state
            times.append(now)
    assert times.count(59 * SECOND) == 100
    assert max(sum(start <= time < start + period for time in times) for start in times) == 100
    # Nearly all of 241 s.
    assert len(times) >= 4 * 100


def decided(limits: LocalLimits, policy: dict[str, Any], key: Any = "k", cost: int = 1) -> Decision:  # noqa: ANN401
    return limits.check(policy, Check("p", key, cost), AWAY)


def test_keys_and_policies_are_counted_apart_and_time_gives_back() -> None:
    clock = Clock()
    limits = LocalLimits(2, clock)
    first = decided(limits, GCRA)
    assert (first.allowed, first.limit, first.remaining, first.source) == (True, 10, 9, "local")
    assert (first.error, first.by_failure, first.binding) == (AWAY, False, "p")
    assert [decided(limits, GCRA).allowed for _ in range(10)] == [True] * 9 + [False]
    denied = decided(limits, GCRA)
    assert (denied.remaining, denied.retry_after_ms, denied.reset_after_ms) == (0, 1200, 12_000)
    assert decided(limits, GCRA, "other").allowed
    assert limits.check(GCRA, Check("q", "k"), AWAY).allowed
    assert decided(limits, GCRA, cost=11).retry_after_ms is None
    clock.now += 1200 * 1_000_000
    assert limits.peek(GCRA, Check("p", "k"), AWAY).allowed
    assert [decided(limits, GCRA).allowed for _ in range(2)] == [True, False]


def test_several_limits_are_charged_together_or_not_at_all() -> None:
    ip, domain = LOG | {"name": "ip", "key": "ip", "limit": 3}, LOG | {"name": "domain", "key": "domain"}
    everyone = LOG | {"name": "all", "key": "global", "limit": 12}
    limits = LocalLimits(1, Clock())
    policy = {"mode": "all", "members": [ip, domain, everyone]}
    asked = [decided(limits, policy, {"ip": "1", "domain": "d"}) for _ in range(5)]
    assert [one.allowed for one in asked] == [True] * 3 + [False] * 2
    assert {one.binding for one in asked} == {"ip"}
    # The refused ones have charged no limit: 7 of 10 are left in the domain, 9 of 12 in all.
    others = [decided(limits, policy, {"ip": f"2-{n}", "domain": "d"}) for n in range(8)]
    assert [one.allowed for one in others] == [True] * 7 + [False]
    assert others[7].binding == "domain"
    last = [decided(limits, policy, {"ip": f"3-{n}", "domain": f"{n}"}) for n in range(3)]
    assert [(one.allowed, one.binding) for one in last] == [(True, "all"), (True, "all"), (False, "all")]
    with pytest.raises(ValueError, match="key: `domain` is missing"):
        decided(limits, policy, {"ip": "1"})


def test_policies_that_share_a_limit_count_it_together_and_so_does_the_shared_one() -> None:
    limits = LocalLimits(1, Clock())
    total = LOG | {"key": "global", "limit": 10}
    share = {"of": "total", "by": "tenant", "active": 0, "contended": False, "level": 1}
    members = [total | {"name": "total"}, LOG | {"key": "tenant", "limit": 10}]
    policies: dict[str, dict[str, Any]] = {
        "total": total,
        "api": {"mode": "all", "members": members, "share": share},
        "batch": {"mode": "all", "members": members, "share": share},
    }

    def admitted(policy: str, count: int) -> int:
        checks = [Check(policy, {"tenant": f"t{n % 3}"}) for n in range(count)]
        return sum(limits.check(policies[policy], check, AWAY).allowed for check in checks)

    assert [admitted("api", 3), admitted("total", 2)] == [3, 2]
    assert [admitted("batch", 30), admitted("api", 30), admitted("total", 30)] == [5, 0, 0]


def test_any_admits_if_one_limit_does_and_a_shadow_always() -> None:
    small, large = LOG | {"name": "small", "limit": 2}, LOG | {"name": "large", "limit": 5}
    limits = LocalLimits(1, Clock())
    asked = [decided(limits, {"mode": "any", "members": [small, large]}) for _ in range(6)]
    assert [one.allowed for one in asked] == [True] * 5 + [False]
    assert [decided(limits, LOG | {"limit": 2, "shadow": True}).allowed for _ in range(9)] == [True] * 9


def admitted(limits: LocalLimits, policy: dict[str, Any], cost: int = 1) -> int:
    return sum(decided(limits, policy, cost=cost).allowed for _ in range(20))


@pytest.mark.parametrize("kind", [GCRA | {"burst": 20}, BUCKET | {"capacity": 20}, LOG | {"limit": 20}])
def test_a_limit_with_a_cost_of_its_own_takes_it_for_each_unit(kind: dict[str, Any]) -> None:
    dear = kind | {"name": "dear", "cost": 5}
    for cost, count in ((1, 4), (2, 2), (3, 1), (5, 0)):
        limits = LocalLimits(1, Clock())
        policy = {"mode": "all", "members": [GCRA | {"limit": 1000, "burst": 1000}, dear]}
        assert admitted(limits, policy, cost) == count
        assert limits.peek(policy, Check("p", "k", 0), AWAY).remaining == 20 - 5 * cost * count
    assert decided(limits, policy, cost=5).retry_after_ms is None
    assert decided(limits, policy, cost=5).binding == "dear"
    either = {"mode": "any", "members": [LOG | {"limit": 6, "name": "small", "cost": 2}, dear]}
    assert admitted(LocalLimits(1, Clock()), either) == 4
    # Eight processes have less than one check each: one, in a longer time.
    assert admitted(LocalLimits(8, Clock()), {"members": [dear]}) == 1


def test_a_cost_of_a_limit_counts_for_permits_slots_and_atomic_batches() -> None:
    limits, check, dear = LocalLimits(1, Clock()), Check("p", "k"), WORK | {"limit": 10, "cost": 5}
    policy = {"mode": "all", "members": [dear | {"name": "dear"}, WORK | {"name": "cheap"}]}
    held = [limits.acquire(policy, check, AWAY) for _ in range(3)]
    assert [one.allowed for one in held] == [True, True, False]
    assert held[1].permit is not None
    assert limits.renew(held[1].permit) == 60_000
    assert limits.release(held[1].permit)
    assert [limits.acquire(policy, check, AWAY).allowed for _ in range(2)] == [True, False]

    slots = [limits.reserve(QUEUE | {"cost": 2}, Check("q", "k"), AWAY) for _ in range(3)]
    assert [(one.accepted, one.delay_ms) for one in slots] == [(True, 0), (True, 1000), (False, 0)]

    batch = [(LOG | {"cost": 4}, Check("b", "k"))] * 3
    assert [one.allowed for one in limits.check_all(batch[:2], AWAY)] == [True] * 2
    assert [one.allowed for one in LocalLimits(1, Clock()).check_all(batch, AWAY)] == [False] * 3


def test_a_policy_enforced_for_a_part_of_the_callers_refuses_nobody() -> None:
    for enforce, count in (("100%", 10), ("99.9999%", 20), ("10%", 20)):
        assert admitted(LocalLimits(1, Clock()), LOG | {"enforce": enforce}) == count


def test_an_atomic_batch_charges_all_or_none() -> None:
    limits = LocalLimits(1, Clock())
    asked = [(LOG, Check("p", "a", 4)), (LOG, Check("p", "a", 4)), (LOG, Check("p", "b", 4))]
    assert [one.allowed for one in limits.check_all(asked, AWAY)] == [True] * 3
    assert [one.allowed for one in limits.check_all(asked, AWAY)] == [False] * 3
    assert [limits.peek(LOG, Check("p", key, 0), AWAY).remaining for key in "abc"] == [2, 6, 10]


def test_permits_are_released_or_expire() -> None:
    clock = Clock()
    limits = LocalLimits(2, clock)
    check = Check("p", "k")
    held = [limits.acquire(WORK, check, AWAY) for _ in range(3)]
    assert [one.allowed for one in held] == [True, True, False]
    assert held[2].permit is None
    assert held[0].permit is not None
    assert limits.release(held[0].permit)
    assert not limits.release(held[0].permit)
    assert limits.acquire(WORK, check, AWAY).allowed
    assert not limits.acquire(WORK, check, AWAY).allowed
    clock.now += 60 * SECOND
    assert limits.acquire(WORK, Check("p", "k", 2), AWAY).allowed


def test_slots_follow_one_another_up_to_the_longest_wait() -> None:
    limits = LocalLimits(2, Clock())
    slots = [limits.reserve(QUEUE, Check("p", "k"), AWAY) for _ in range(3)]
    assert [(one.accepted, one.delay_ms, one.retry_after_ms) for one in slots] == [
        (True, 0, 0),
        (True, 1000, 0),
        (False, 0, 1000),
    ]


def test_a_call_that_a_policy_has_no_limit_for_is_a_value_error() -> None:
    limits = LocalLimits(1, Clock())
    for ask, policy in ((limits.check, QUEUE), (limits.check, WORK), (limits.reserve, GCRA)):
        with pytest.raises(ValueError, match="has no limits for this call"):
            ask(policy, Check("p", "k"), AWAY)


def test_memory_is_bounded_and_the_key_that_asks_on_stays_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "KEYS_MAX", 100)
    limits = LocalLimits(1, Clock())
    for n in range(1000):
        decided(limits, LOG, f"made-up-{n}")
        assert decided(limits, LOG, "busy").allowed == (n < 10)
    assert len(limits._states) == 100


def test_threads_together_admit_exactly_the_share() -> None:
    limits, start = LocalLimits(1, Clock()), threading.Barrier(16)

    def ask(_: int) -> int:
        start.wait()
        return sum(decided(limits, LOG | {"limit": 500}).allowed for _ in range(100))

    with ThreadPoolExecutor(16) as threads:
        assert sum(threads.map(ask, range(16))) == 500


def test_beside_permits_that_the_server_may_have_forgotten_no_more_than_the_share_is_granted() -> None:
    clock = Clock()
    limits = LocalLimits(4, clock)
    policy = {"mode": "all", "members": [GCRA | {"name": "rate"}, WORK | {"limit": 8, "cost": 2}]}

    def refused(permit: str, key: str = "ann", policy: dict[str, Any] | None = policy) -> bool:
        return limits.granted(policy, Check("p", key), permit) is not None

    assert [refused(one) for one in ("p1", "p2", "p3")] == [False] * 3, "the server decides"
    assert not refused("p4", policy=None)
    limits.doubt_permits()
    assert [refused("p5"), refused("p6", "ben")] == [True, False]
    assert not refused("p7", policy=policy | {"shadow": True})
    for permit in ("p1", "p2", "p3", "p4"):
        limits.renewed(permit, 60_000)
    assert not refused("p8"), "renewed by the server: it knows them"
    limits.doubt_permits()
    clock.now += 60 * SECOND
    assert not refused("p9"), "expired ones are gone"
    assert not limits.acquire(policy, Check("p", "ann"), AWAY).allowed, "but it takes the share"


@pytest.mark.parametrize("policy", [None, WORK])
def test_a_permit_is_held_for_as_long_as_the_server_says(policy: dict[str, Any] | None) -> None:
    clock = Clock()
    limits = LocalLimits(1, clock)
    for n in range(4):
        limits.granted(policy, Check("p", "k"), f"p{n}", 600_000)

    def is_full() -> bool:
        return not limits.peek(WORK, Check("p", "k"), AWAY).allowed

    clock.now += 599 * SECOND
    assert is_full()
    for n in range(4):
        assert limits.renew(f"p{n}") == 600_000
        limits.renewed(f"p{n}", 900_000)
    clock.now += 899 * SECOND
    assert is_full()
    clock.now += SECOND
    assert not is_full()


def test_permits_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "PERMITS_MAX", 3)
    clock = Clock()
    limits = LocalLimits(1, clock)
    held = [limits.acquire(WORK, Check("p", f"k{n}"), AWAY).allowed for n in range(4)]
    assert held == [True, True, True, False]
    assert limits.granted(WORK, Check("p", "k"), "p1") is None
    clock.now += 60 * SECOND
    assert limits.acquire(WORK, Check("p", "k"), AWAY).allowed
