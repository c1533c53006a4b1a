"""Servers that are down, hang or send nonsense cost at most the timeout; then on_error applies."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest
from conftest import StartServer
from support import CONFIG, DEADLINE, Handler, wrong_server

from tidegate import Check, OnError, Tidegate, TidegateError

pytestmark = pytest.mark.anyio
GOOD = {
    "allowed": True, "limit": 9, "remaining": 8, "retry_after_ms": 0, "reset_after_ms": 5,
    "policy": "p", "binding": "p", "source": "store",
}  # fmt: skip


def says(body: bytes, status: str = "200 OK", kind: str = "application/json") -> Handler:
    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()

    return behave


def decides(**other: object) -> Handler:
    return says(json.dumps(GOOD | other).encode())


def raw(data: bytes) -> Handler:
    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return behave


async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


async def endless(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        await writer.drain()


async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.01)


WRONG: dict[str, tuple[Handler, str]] = {
    "hangs": (hang, "no answer within 0.3 s"),
    "drips": (drip, "no answer within 0.3 s"),
    "hangs up": (raw(b""), "no answer"),
    "garbage": (raw(b"\x00\xff\x16\x03\x01 nonsense\r\n\r\n"), "no answer"),
    "another protocol": (raw(b"-ERR unknown command 'POST'\r\n"), "no answer"),
    "cut off in the head": (raw(b"HTTP/1.1 200 OK\r\ncontent-le"), "no answer"),
    "cut off in the body": (raw(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{"), "no answer"),
    "an endless head": (raw(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000), "no answer"),
    "an endless body": (endless, "the reply has more than 2097152 bytes"),
    "not JSON": (says(b"<html>hello</html>"), "invalid reply"),
    "no object": (says(b"[1]"), "invalid reply: not an object"),
    "nested too deep": (says(b"[" * 100_000), "invalid reply"),
    "a number of 10,000 digits": (says(b'{"limit":' + b"9" * 10_000 + b"}"), "invalid reply"),
    "not UTF-8": (says(b'{"a":"\xff"}'), "invalid reply"),
    "nothing of ours": (says(b"{}"), "`allowed` is None"),
    "allowed by a string": (decides(allowed="yes"), "`allowed` is 'yes'"),
    "a fraction": (decides(limit=1.5), "`limit` is 1.5"),
    "a negative wait": (decides(retry_after_ms=-1), "`retry_after_ms` is -1"),
    "a count that is a flag": (decides(remaining=True), "`remaining` is True"),
    "no source": (decides(source=None), "`source` is None"),
    "a permit that is a number": (decides(permit=7), "`permit` is 7"),
    "status 500": (says(b"oops", "500 Internal Server Error"), "unexpected status 500"),
    "status 204": (raw(b"HTTP/1.1 204 No Content\r\n\r\n"), "unexpected status 204"),
    "somebody else's 404": (says(b"not here", "404 Not Found"), "unexpected status 404"),
    "a problem of somebody else": (
        says(b'{"type":"about:blank","detail":"no"}', "400 Bad Request", "application/problem+json"),
        "no (status 400)",
    ),
    "a redirect": (
        raw(b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"),
        "unexpected status 302",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_an_invalid_reply_is_a_fallback(wrong: str) -> None:
    behave, why = WRONG[wrong]
    timeout = 0.3 if behave in (hang, drip) else DEADLINE
    async with wrong_server(behave) as url, Tidegate(url, timeout=timeout) as client:
        decision = await client.check("p", "k")
        assert (decision.allowed, decision.source, decision.policy) == (True, "fallback", "p")
        assert why in str(decision.error)
        assert client.fallbacks == 1


async def test_a_valid_reply_is_no_fallback() -> None:
    """The control of the rows above: a valid reply passes."""
    async with wrong_server(decides()) as url, Tidegate(url, timeout=DEADLINE) as client:
        decision = await client.check("p", "k")
    assert (decision.source, decision.remaining, client.fallbacks) == ("store", 8, 0)


@pytest.mark.parametrize(("on_error", "allowed"), [("allow", True), ("deny", False)])
@pytest.mark.parametrize("behave", [hang, raw(b"")])
async def test_every_call_follows_on_error(behave: Handler, on_error: OnError, allowed: bool) -> None:
    async with wrong_server(behave) as url, Tidegate(url, timeout=0.05, on_error=on_error) as client:
        many = await client.check_many([Check("p", "k")] * 1500)
        together = await asyncio.gather(*(client.check("p", "k") for _ in range(100)))
        ones = [
            await client.check("p", "k", headers=True),
            await client.peek("p", "k"),
            await client.refund("p", "k"),
            await client.acquire("p", "k"),
        ]
        for decision in (*many, *together, *ones):
            assert (decision.allowed, decision.source, decision.permit) == (allowed, "fallback", None)
            assert decision.retry_after_ms == (0 if allowed else 1000)
        place = await client.schedule("p", "k")
        assert (place.accepted, place.source, place.delay_ms) == (allowed, "fallback", 0)
        async with client.permit("p", "k") as held:
            assert held.allowed is allowed
        assert await client.release("p", "k", permit="p0.1") is False
        assert await client.observe("db", 3) is False
        assert client.fallbacks == 1500 + 100 + 4 + 1 + 1 + 1 + 1
        with pytest.raises(TidegateError, match="no answer"):
            await client.reset("p", "k")


async def test_on_error_raise_raises() -> None:
    async with wrong_server(hang) as url, Tidegate(url, timeout=0.05, on_error="raise") as client:
        with pytest.raises(TidegateError) as caught:
            await client.check("p", "k")
        assert (caught.value.status, caught.value.is_mistake) == (None, False)
        with pytest.raises(TidegateError):
            await client.check_many([Check("p", "k")])
        with pytest.raises(TidegateError):
            await client.reserve("p", "k")
        with pytest.raises(TidegateError):
            await client.observe("db", 1)
        assert client.fallbacks == 0


async def test_a_check_can_override_on_error(dead_url: str) -> None:
    async with Tidegate(dead_url, timeout=DEADLINE, on_error="allow") as client:
        for headers in (False, True):
            denied = await client.check("p", "k", headers=headers, on_error="deny")
            assert (denied.allowed, denied.source) == (False, "fallback")
            with pytest.raises(TidegateError):
                await client.check("p", "k", headers=headers, on_error="raise")
        with pytest.raises(ValueError, match="on_error: expected allow, deny, raise or local, got 'no'"):
            await client.check("p", "k", on_error="no")  # type: ignore[arg-type]


async def test_a_failed_release_does_not_lose_the_result_of_the_block(start_server: StartServer) -> None:
    server = start_server()
    async with Tidegate(server.address, timeout=DEADLINE, on_error="raise") as client:
        async with client.permit("work", "k") as held:
            assert held.allowed
            server.kill()
        assert client.fallbacks == 1


async def test_a_thousand_failed_checks_raise_their_own_errors() -> None:
    async with wrong_server(raw(b"")) as url, Tidegate(url, timeout=0.3, on_error="raise") as client:
        asked = (client.check("p", "k") for _ in range(1000))
        errors = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(error, TidegateError) for error in errors)
    assert len({id(error) for error in errors}) == 1000


async def test_a_server_that_is_down_is_a_fallback(dead_url: str, tmp_path: Path) -> None:
    for client in (Tidegate(dead_url), Tidegate(socket=tmp_path / "none")):
        async with client:
            assert (await client.check("p", "k")).source == "fallback"


async def test_a_batch_with_a_missing_decision_is_invalid() -> None:
    body = json.dumps({"decisions": [GOOD]}).encode()
    async with wrong_server(says(body)) as url, Tidegate(url, timeout=DEADLINE) as client:
        decisions = await client.check_many([Check("p", "k")] * 2)
        assert [str(one.error) for one in decisions] == ["invalid reply: expected 2 decisions"] * 2


async def test_headers_with_invalid_characters_are_not_passed_on() -> None:
    headers = {
        "ratelimit": '"p";r=8;t=1',
        "x-ratelimit-limit": "9\r\nx: y",
        "set-cookie": "a=b",
        "retry-after": 3,
    }
    body = json.dumps({"decisions": [GOOD | {"headers": headers}] * 2}).encode()
    async with wrong_server(says(body)) as url, Tidegate(url, timeout=DEADLINE, on_error="raise") as client:
        asked = (client.check("p", "k", headers=True) for _ in range(2))
        assert [one.headers for one in await asyncio.gather(*asked)] == [{"ratelimit": '"p";r=8;t=1'}] * 2


async def test_a_decision_without_requested_headers_is_invalid() -> None:
    body = json.dumps({"decisions": [GOOD] * 2}).encode()
    async with wrong_server(says(body)) as url, Tidegate(url, timeout=DEADLINE) as client:
        decisions = await asyncio.gather(*(client.check("p", "k", headers=True) for _ in range(2)))
        assert [str(one.error) for one in decisions] == ["invalid reply: a decision without headers"] * 2


async def test_a_thousand_fallbacks_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async with wrong_server(raw(b"")) as url, Tidegate(url, timeout=0.3) as client:
        with caplog.at_level(logging.WARNING, "tidegate"):
            await asyncio.gather(*(client.check("p", "k") for _ in range(1000)))
    assert [record.message.split(":")[0] for record in caplog.records] == [
        "answered without the server (allow)"
    ]


async def test_failing_closed_is_a_decision(start_server: StartServer, dead_redis: str) -> None:
    """The policy decides, not on_error, in single and in shared calls."""
    server = start_server(
        config=f"""
drain: 0s
store: {dead_redis}
policies:
  login: {{ limit: 5/h, on_store_error: deny }}
  api: {{ limit: 5/h, on_store_error: allow }}
"""
    )
    async with Tidegate(server.address, timeout=DEADLINE, on_error="allow") as client:
        single = [await client.check("login", "k"), await client.check("login", "k", headers=True)]
        shared = await asyncio.gather(*(client.check("login", "k", headers=n > 9) for n in range(20)))
        assert {bool(one.headers.get("retry-after")) for one in shared[10:]} == {True}
        for decision in (*single, *shared):
            assert (decision.allowed, decision.source) == (False, "fail-closed")
            assert decision.retry_after is not None
            assert decision.retry_after >= 1
            assert decision.by_failure
        assert (await client.check("api", "k")).source == "fail-open"
        assert client.fallbacks == 0


async def test_the_circuit_opens_when_a_server_hangs() -> None:
    asked = 0

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await hang(reader, writer)

    async with wrong_server(count) as url, Tidegate(url, timeout=0.02) as client:
        decisions = [await client.check("p", "k", headers=n % 2 == 0) for n in range(100)]
    assert {one.source for one in decisions} == {"fallback"}
    told = [str(one.error) for one in decisions]
    assert told[:5] == ["no answer within 0.02 s"] * 5
    assert "no answer 5 times in a row (no answer within 0.02 s): no calls for up to 1 s" in told
    assert 5 <= asked < 100


async def test_a_restarted_server_is_called_again(start_server: StartServer, tmp_path: Path) -> None:
    path = tmp_path / "http.sock"
    server = start_server(f"unix:{path}", CONFIG)
    async with Tidegate(socket=path, timeout=DEADLINE) as client:
        assert (await client.check("ten", "k")).remaining == 9
        server.kill()
        assert (await client.check("ten", "k")).source == "fallback"
        start_server(f"unix:{path}", CONFIG)
        assert (await client.check("ten", "k")).remaining == 9


@pytest.mark.parametrize("held", [1, 4])
async def test_a_restart_costs_at_most_one_reply_per_connection(
    start_server: StartServer, tmp_path: Path, held: int
) -> None:
    """Stale connections fail when they are used, and nothing is sent twice."""
    path = tmp_path / "http.sock"
    server = start_server(f"unix:{path}", CONFIG)
    async with Tidegate(socket=path, timeout=DEADLINE, max_connections=held) as client:
        await asyncio.gather(*(client.peek("plenty", f"{n}") for n in range(20)))
        server.kill()
        start_server(f"unix:{path}", CONFIG)
        decisions = [await client.check("exact", "k") for _ in range(held + 3)]
        assert [one.source for one in decisions[held:]] == ["store"] * 3
        answered = [one for one in decisions if one.source == "store"]
        assert decisions[-1].remaining == 500 - len(answered)
