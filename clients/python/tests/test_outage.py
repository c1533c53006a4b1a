"""A server that is killed under load, and started again."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import StartServer
from flask import Flask
from outage import CLIENTS, RATE, admitted, measure
from support import CONFIG, DEADLINE

from tidegate import Check, Decision, OnError, SyncTidegate, Tidegate, TidegateError
from tidegate.fallback import Fallback
from tidegate.flask import RateLimit
from tidegate.local import RECOVERING, LocalLimits
from tidegate.policies import ServerPolicies


def wait(probe: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE
    while not probe():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("on_error", ["allow", "deny", "raise", "local"])
def test_an_outage_under_load_admits_what_on_error_says(client: str, on_error: OnError) -> None:
    outage = measure(client, on_error, up=1.0, away=2.0)
    away = [
        one
        for one in outage.between(outage.killed, outage.back)
        # A call that was answered in the moment of the kill is the server's.
        if one.source != "store" and one.at + one.took < outage.back
    ]
    assert away, "nothing was asked while the server was away"
    sources = {one.source for one in away}
    if on_error == "local":
        assert sources == {"local"}
        # A fresh burst, and the rate.
        assert admitted(away) <= RATE + RATE * (outage.back - outage.killed) + 1
        assert admitted(away) > 0
    else:
        assert sources == {"raised" if on_error == "raise" else "fallback"}
        assert admitted(away) == (len(away) if on_error == "allow" else 0)
    assert outage.comeback >= 0, "the server never decided again"


@pytest.mark.anyio
async def test_a_process_counts_its_share_while_the_server_is_away(start_server: StartServer) -> None:
    server = start_server()
    async with Tidegate(server.address, timeout=DEADLINE, on_error="local", processes=5) as client:
        assert (await client.check("ten", "k")).source == "store"
        end = time.monotonic() + DEADLINE
        while client._policies.known is None and time.monotonic() < end:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        server.kill()
        answers = [await client.check("ten", "k") for _ in range(4)]
        assert [(one.allowed, one.source, one.limit) for one in answers] == [
            (True, "local", 2),
            (True, "local", 2),
            (False, "local", 2),
            (False, "local", 2),
        ]
        assert all(one.error is not None for one in answers)
        assert answers[3].retry_after is not None
        many = await client.check_many([Check("exact", "k", 60), Check("exact", "k", 60)], atomic=True)
        assert [one.allowed for one in many] == [False, False]
        assert (await client.peek("exact", "k", 0)).remaining == 100
        assert [(await client.reserve("full", f"{n // 2}")).accepted for n in range(4)] == [True, False] * 2
        async with client.permit("work", "k") as held:
            assert (held.allowed, held.source) == (True, "local")
            assert not (await client.acquire("work", "k")).allowed
        assert (await client.acquire("work", "k")).allowed
        assert (await client.refund("ten", "k")).source == "fallback"
        with pytest.raises(TidegateError):
            await client.check("ten", "k", on_error="raise")
        assert client.fallbacks == 4 + 1 + 1 + 4 + 3 + 1


COSTS = """
drain: 0s
policies:
  plan:
    all:
      - { name: second, limit: 1000/s }
      - { name: day, algorithm: sliding-log, limit: 20/day, cost: 5 }
  either:
    any:
      - { name: small, algorithm: fixed-window, limit: 4/day, cost: 2 }
      - { name: large, algorithm: fixed-window, limit: 9/day, cost: 3 }
  work:
    all:
      - { name: dear, algorithm: concurrency, limit: 10, cost: 5 }
      - { name: cheap, algorithm: concurrency, limit: 10 }
  part: { algorithm: sliding-log, limit: 3/day, enforce: 10% }
  everyone: { algorithm: sliding-log, limit: 3/day, enforce: 100% }
"""


@pytest.mark.parametrize(("processes", "plan", "either"), [(1, 4, 3), (2, 2, 1), (8, 1, 1)])
def test_the_cost_of_a_limit_counts_while_the_server_is_away(
    start_server: StartServer, processes: int, plan: int, either: int
) -> None:
    server = start_server(config=COSTS)
    with SyncTidegate(server.address, timeout=DEADLINE, on_error="local", processes=processes) as client:
        assert client.check("plan", "k").source == "store"
        end = time.monotonic() + DEADLINE
        while client._policies.known is None and time.monotonic() < end:
            time.sleep(0.01)
        server.kill()

        def admitted(policy: str) -> int:
            decisions = [client.check(policy, "k") for _ in range(10)]
            assert {one.source for one in decisions} == {"local"}
            return sum(one.allowed for one in decisions)

        assert (admitted("plan"), admitted("either")) == (plan, either)
        assert client.peek("plan", "k", 5).retry_after_ms is None
        assert client.peek("plan", "k").binding == "day"
        held = [client.acquire("work", "k") for _ in range(3)]
        assert sum(one.allowed for one in held) == (2 if processes == 1 else 1)
        # Enforced for a part of the callers: for nobody while the server is away.
        assert admitted("part") == 10
        assert admitted("everyone") == max(1, 3 // processes)


def test_a_check_can_ask_for_local_counting(start_server: StartServer) -> None:
    server = start_server()
    with SyncTidegate(server.address, timeout=DEADLINE, on_error="deny") as client:
        client.check("few", "k", on_error="local")
        end = time.monotonic() + DEADLINE
        while client._policies.known is None and time.monotonic() < end:
            time.sleep(0.01)
        server.kill()
        assert [client.check("few", "k", on_error="local").allowed for _ in range(4)] == [True] * 3 + [False]
        assert client.check("few", "k").source == "fallback"
        with client.permit("work", "k") as held:
            assert not held.allowed


def test_a_policy_that_a_reload_drops_is_counted_with_its_last_numbers(
    start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    config = "drain: 0s\npolicies:\n  api: { algorithm: sliding-log, limit: 5/day }\n"
    server = start_server(config=config)
    with SyncTidegate(server.address, timeout=DEADLINE, on_error="local") as client:
        client.check("api", "other")
        wait(lambda: client._policies.known is not None)
        server.reload(config.replace("api:", "apis:"))
        wait(lambda: client.policy_names() == ["apis"])
        decisions = [client.check("api", "k") for _ in range(12)]
        # The server is asked for its policies now, and has no `api` any more.
        wait(lambda: any("no policy is called `api`" in one for one in caplog.messages))
        decisions += [client.check("api", "k") for _ in range(12)]
    assert {one.source for one in decisions} == {"local"}
    assert sum(one.allowed for one in decisions) == 5


def test_numbers_that_cannot_be_read_replace_none_that_could() -> None:
    policies = ServerPolicies()
    fallback = Fallback("local", policies, LocalLimits(1))
    good = {"algorithm": "sliding-log", "limit": 5, "period_us": 86_400_000_000}
    wrong: list[object] = [None, "x", [], {}, {"members": []}, good | {"limit": "x"}, good | {"limit": 0}]
    for orders in (good, *wrong):
        policies.loaded({"orders": orders})
    policies.loaded({})
    away = TidegateError("no answer")
    assert sum(fallback.decision(Check("orders", "k"), away).allowed for _ in range(12)) == 5


async def result(value: Any) -> Any:  # noqa: ANN401
    """What a method of either client returns."""
    return await value if inspect.isawaitable(value) else value


async def until_the_server_decides(client: Tidegate | SyncTidegate) -> None:
    end = time.monotonic() + DEADLINE
    while (await result(client.peek("work", "zoe"))).source != "store":
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


BOTH = pytest.mark.parametrize("kind", [Tidegate, SyncTidegate])


@BOTH
@pytest.mark.anyio
async def test_never_more_at_work_than_places_while_a_server_is_killed_and_started_again(
    start_server: StartServer, tmp_path: Path, kind: Callable[..., Any]
) -> None:
    address = f"unix:{tmp_path / 'http.sock'}"
    config = "drain: 0s\npolicies:\n  work: { algorithm: concurrency, limit: 8, ttl: 1h }\n"
    server = start_server(address, config)
    client = kind(socket=address, timeout=DEADLINE, on_error="local")
    held: list[Decision] = []

    async def fill() -> int:
        more = [await result(client.acquire("work", "k")) for _ in range(9)]
        held.extend(one for one in more if one.allowed)
        return len(held)

    async def free() -> None:
        await result(client.release("work", "k", held.pop(0).permit))

    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(client) if kind is Tidegate else stack.enter_context(client)
        assert await fill() == 8
        while client._policies.known is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        server.kill()
        assert await fill() == 8, "the permits of the server count"
        await free()
        await free()
        assert await fill() == 8
        assert [one.source for one in held] == ["store"] * 6 + ["local"] * 2
        start_server(address, config)
        await until_the_server_decides(client)
        refused = await result(client.acquire("work", "k"))
        assert (refused.allowed, refused.permit, refused.source) == (False, None, "local")
        assert refused.error is RECOVERING
        assert await fill() == 8, "the server has forgotten them, this process has not"
        assert (await result(client.acquire("work", "other"))).source == "store"
        for _ in range(8):
            await free()
            assert await fill() == 8
        assert {one.source for one in held} == {"store"}


@BOTH
@pytest.mark.parametrize("noticed_by", ["renew", "release", "failed renewal"])
@pytest.mark.anyio
async def test_places_that_a_server_has_forgotten_are_not_granted_twice(
    start_server: StartServer, tmp_path: Path, kind: Callable[..., Any], noticed_by: str
) -> None:
    address = f"unix:{tmp_path / 'http.sock'}"
    config = "drain: 0s\npolicies:\n  work: { algorithm: concurrency, limit: 8, ttl: 1h }\n"
    server = start_server(address, config)
    client = kind(socket=address, timeout=DEADLINE, on_error="local")
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(client) if kind is Tidegate else stack.enter_context(client)
        client.expect_policies(["work"])
        held = [(await result(client.acquire("work", "k"))).permit for _ in range(8)]
        await asyncio.to_thread(wait, lambda: client._policies.known is not None)
        if noticed_by == "failed renewal":
            server.kill()
            with pytest.raises(TidegateError, match="no answer"):
                await result(client.renew("work", "k", held[0]))
            start_server(address, config)
        else:
            # It forgets its permits without a call that fails.
            with SyncTidegate(socket=address, timeout=DEADLINE, on_error="raise") as other:
                assert all(other.release("work", "k", permit) for permit in held)
            assert not await result(getattr(client, noticed_by)("work", "k", held[0]))
        more = [await result(client.acquire("work", "k")) for _ in range(9)]
        assert sum(one.allowed for one in more) == (1 if noticed_by == "release" else 0)
        assert more[-1].error is RECOVERING


def test_permits_are_doubted_before_the_outage_ends_for_other_threads() -> None:
    class Limits(LocalLimits):
        def doubt_permits(self) -> None:
            seen.append((fallback._away_since is not None, fallback._lock.locked()))

    seen: list[tuple[bool, bool]] = []
    fallback = Fallback("local", ServerPolicies(), Limits(1))
    fallback.unanswered(TidegateError("no answer"))
    fallback.answered()
    fallback.answered()
    assert seen == [(True, True)]


@BOTH
@pytest.mark.anyio
async def test_the_log_says_when_the_server_decides_again_and_an_open_circuit_why(
    start_server: StartServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: Callable[..., Any]
) -> None:
    caplog.set_level(logging.INFO, "tidegate")
    address = f"unix:{tmp_path / 'http.sock'}"
    client = kind(socket=address, timeout=DEADLINE)
    errors = {str((await result(client.check("ten", "k"))).error) for _ in range(50)}
    assert any("5 times in a row (no answer: " in one for one in errors), errors
    start_server(address)
    while (await result(client.check("ten", "k"))).source != "store":  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    again = [one for one in caplog.messages if one.startswith("the server decides again, after ")]
    assert len(again) == 1
    assert re.search(r"after \d+\.\d s and \d+ calls without it$", again[0])
    await result(client.aclose() if kind is Tidegate else client.close())


def test_a_server_that_was_never_reached_is_allow_with_a_warning(
    dead_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with SyncTidegate(dead_url, on_error="local") as client:
        decisions = [client.check("ten", "k") for _ in range(20)]
    assert {(one.allowed, one.source) for one in decisions} == {(True, "fallback")}
    assert [one.split("): ")[0] for one in caplog.messages] == [
        "answered without the server (allow, because its limits are not known"
    ]


def test_a_local_denial_is_429_and_a_failure_503(start_server: StartServer, tmp_path: Path) -> None:

    path = tmp_path / "http.sock"
    server = start_server(f"unix:{path}", CONFIG)
    app = Flask(__name__)
    app.get("/")(lambda: "hello")
    with SyncTidegate(socket=path, timeout=DEADLINE, on_error="local") as client:
        app.before_request(RateLimit("few", client=client, key="k").check)
        http = app.test_client()
        assert http.get("/").status_code == 200
        end = time.monotonic() + DEADLINE
        while client._policies.known is None and time.monotonic() < end:
            time.sleep(0.01)
        server.kill()
        answers = [http.get("/") for _ in range(4)]
        assert [one.status_code for one in answers] == [200, 200, 200, 429]
        assert int(answers[3].headers["retry-after"]) >= 1
        start_server(f"unix:{path}", CONFIG)
        assert "x-ratelimit-limit" in http.get("/").headers
