"""Permits are renewed while they are held."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from conftest import StartServer
from support import DEADLINE, Server

from tidegate import Check, Decision, SyncTidegate, Tidegate, TidegateError
from tidegate.local import LocalLimits
from tidegate.renewals import HeldPermit, Renewals, RenewalThread

TTL_MS = 300
# The numbers of a permit are those of a rate, if that binds.
DAY_MS = 86_400_000
Answer = tuple[int, dict[str, object]]
JOBS = """
drain: 0s
policies:
  work:
    all:
      - { name: jobs, algorithm: concurrency, limit: 5, ttl: 2s }
      - { name: day, algorithm: fixed-window, limit: 4/day }
"""
OK: Answer = (200, {"renewed": True, "ttl_ms": TTL_MS})
LOST: Answer = (200, {"renewed": False})
UNKNOWN: Answer = (404, {"type": "urn:tidegate:unknown-path", "detail": "no such route"})
AWAY: Answer = (502, {})
GRANTED = {
    "allowed": True, "limit": 1, "remaining": 0, "retry_after_ms": 0, "reset_after_ms": DAY_MS,
    "policy": "work", "binding": "day", "source": "store", "permit": "p1", "ttl_ms": TTL_MS,
}  # fmt: skip


class Fake(ThreadingHTTPServer):
    """A server of which only the answers to renewals matter. The last one is repeated."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = answers
        self.renewals: list[dict[str, str]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    server: Fake

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        status, fields = 200, {"released": True} if self.path == "/v1/release" else GRANTED
        if self.path == "/v1/renew":
            seen = self.server.renewals
            status, fields = self.server.answers[min(len(seen), len(self.server.answers) - 1)]
            seen.append(json.loads(body))
        text = json.dumps(fields).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json" if status == 200 else "application/problem+json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


def wait(probe: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE
    while not probe():
        assert time.monotonic() < end
        time.sleep(0.01)


# Runs work while a permit is held, with a function that says whether it is still being renewed.
Work = Callable[[Callable[[], bool]], None]
Hold = Callable[[str, Work], None]


def hold_async(url: str, work: Work) -> None:
    async def main() -> None:
        async with Tidegate(url, timeout=DEADLINE, on_error="raise") as client:
            async with client.permit("work", "k") as held:
                assert held.allowed
                await asyncio.to_thread(work, lambda: bool(client._tasks))
            assert not client._tasks

    asyncio.run(main())


def hold_sync(url: str, work: Work) -> None:
    with SyncTidegate(url, timeout=DEADLINE, on_error="raise") as client:
        with client.permit("work", "k") as held:
            assert held.allowed
            work(lambda: client._renewal_thread._is_running)
        wait(lambda: not client._renewal_thread._is_running)


BOTH = pytest.mark.parametrize("hold", [hold_async, hold_sync])


@BOTH
def test_a_held_permit_is_renewed_until_it_is_released(hold: Hold) -> None:
    with Fake(OK) as fake:
        hold(fake.url, lambda _: wait(lambda: len(fake.renewals) >= 4))
        assert fake.renewals[0] == {"policy": "work", "key": "k", "permit": "p1"}


@BOTH
def test_a_renewal_that_fails_is_tried_again(hold: Hold, caplog: pytest.LogCaptureFixture) -> None:
    with Fake(AWAY, AWAY, OK) as fake:
        hold(fake.url, lambda _: wait(lambda: len(fake.renewals) >= 4))
    assert caplog.messages == []


@BOTH
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (UNKNOWN, "the server cannot renew permits: they expire after the `ttl` of their limit"),
        (LOST, "a permit of `work` was lost before it was released"),
    ],
)
def test_a_renewal_that_cannot_succeed_is_logged_once_and_not_repeated(
    hold: Hold, caplog: pytest.LogCaptureFixture, answer: Answer, said: str
) -> None:
    with Fake(answer) as fake:
        hold(fake.url, lambda is_renewing: wait(lambda: bool(fake.renewals) and not is_renewing()))
        assert len(fake.renewals) == 1
    assert [one for one in caplog.messages if "permit" in one] == [said]


@BOTH
def test_a_real_server_renews_a_held_permit(
    hold: Hold, start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that cannot is named in the log, once."""
    server = start_server(
        config="drain: 0s\npolicies:\n  work: { algorithm: concurrency, limit: 1, ttl: 12s }\n"
    )
    cannot = "the server cannot renew permits: they expire after the `ttl` of their limit"

    left_ms = 12_000

    def is_renewed() -> bool:
        """Whether the time that the permit has left grew."""
        nonlocal left_ms
        refused = other.acquire("work", "k")
        assert not refused.allowed
        before, left_ms = left_ms, refused.reset_after_ms
        return left_ms > before or caplog.messages == [cannot]

    with SyncTidegate(server.address, timeout=DEADLINE, on_error="raise") as other:
        hold(server.address, lambda _: wait(is_renewed))
        assert caplog.messages in ([], [cannot])
        assert other.acquire("work", "k").allowed


@BOTH
def test_a_permit_is_renewed_by_its_own_ttl_where_a_rate_binds(
    hold: Hold, start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(config=JOBS)
    ttls: list[int | None] = []
    renewed = Renewals.renewed

    def record(self: Renewals, held: HeldPermit, ttl_ms: int | None) -> bool:
        ttls.append(ttl_ms)
        return renewed(self, held, ttl_ms)

    monkeypatch.setattr(Renewals, "renewed", record)
    # The pauses before four renewals are longer than the ttl.
    hold(server.address, lambda _: wait(lambda: len(ttls) >= 4 or None in ttls))
    assert ttls[:4] == [2000] * 4


def test_a_permit_of_a_server_that_tells_no_ttl_is_renewed_soon() -> None:
    untold = Decision(True, 1, 0, 0, DAY_MS, "work", "day", "store", permit="p1")
    held = HeldPermit.from_decision(untold, "k")
    assert held is not None
    assert held.pause < 1
    held.set_ttl(10**400)
    assert held.pause < threading.TIMEOUT_MAX
    assert HeldPermit.from_decision(replace(untold, permit=None), "k") is None


def test_one_thread_renews_many_permits_and_ends_without_any() -> None:
    renewed: dict[str, int] = {}

    def renew(held: HeldPermit) -> bool:
        renewed[held.permit] = renewed.get(held.permit, 0) + 1
        return held.permit != "once"

    thread = RenewalThread(renew)
    held = [HeldPermit("p", "k", name, 0.02) for name in ("once", "a", "b")]
    before = threading.active_count()
    for one in held:
        thread.add(one)
    assert threading.active_count() <= before + 1
    wait(lambda: min(renewed.get("a", 0), renewed.get("b", 0)) >= 5)
    assert renewed["once"] == 1
    for one in held:
        thread.remove(one)
    wait(lambda: not thread._is_running)
    thread.add(held[1])
    seen = renewed["a"]
    wait(lambda: renewed["a"] > seen)
    thread.remove(held[1])


def test_permits_of_this_process_are_renewed_too() -> None:
    now = 10**15
    limits = LocalLimits(1, lambda: now)
    jobs = {"name": "jobs", "algorithm": "concurrency", "limit": 1, "ttl_us": 1_000_000}
    day = {"name": "day", "algorithm": "fixed-window", "limit": 1, "period_us": DAY_MS * 1000}
    check, error = Check("work", "k"), TidegateError("no answer")
    acquired = limits.acquire({"members": [day, jobs]}, check, error)
    permit = acquired.permit
    assert permit is not None
    assert (acquired.binding, acquired.ttl_ms) == ("day", 1000)
    policy = {"members": [jobs]}
    now += 900_000_000
    assert limits.renew(permit) == 1000
    now += 900_000_000
    assert not limits.acquire(policy, check, error).allowed
    now += 200_000_000
    assert limits.renew(permit) is None


def renew_async(url: str, policy: str, permit: str) -> int | None:
    async def main() -> int | None:
        async with Tidegate(url, timeout=DEADLINE) as client:
            return await client.renew(policy, "k", permit)

    return asyncio.run(main())


def renew_sync(url: str, policy: str, permit: str) -> int | None:
    with SyncTidegate(url, timeout=DEADLINE) as client:
        return client.renew(policy, "k", permit)


@pytest.mark.parametrize("renew", [renew_async, renew_sync])
def test_whoever_acquires_can_renew(server: Server, dead_url: str, renew: Any) -> None:  # noqa: ANN401
    with SyncTidegate(server.address, timeout=DEADLINE) as other:
        permit = other.acquire("work", "k").permit
        assert permit is not None
        assert renew(server.address, "work", permit) == 3_600_000
        assert other.release("work", "k", permit)
    assert renew(server.address, "work", permit) is None
    assert renew(server.address, "work", "local.7") is None
    with pytest.raises(TidegateError, match="no answer"):
        renew(dead_url, "work", permit)
    with pytest.raises(ValueError, match="permit: expected a non-empty string"):
        renew(server.address, "work", "")


def test_an_error_names_the_method_of_the_client_that_the_policy_is_for(server: Server) -> None:
    with SyncTidegate(server.address, timeout=DEADLINE) as client:
        for ask, policy, said in (
            (client.check, "work", r"limits concurrency.*: use `client\.permit\(\.\.\.\)`"),
            (client.acquire, "ten", r"has no permits: use `client\.check\(\.\.\.\)`"),
            (client.check, "queue", r"leaky bucket.*: use `client\.schedule\(\.\.\.\)`"),
        ):
            with pytest.raises(TidegateError, match=said):
                ask(policy, "k")
