from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest
import trustme
from conftest import StartServer
from support import CONFIG, DEADLINE, Server

from tidegate import Check, OnError, Tidegate, TidegateError

pytestmark = pytest.mark.anyio


async def test_a_denial_is_a_value(client: Tidegate, key: str) -> None:
    allowed = await client.check("ten", key, 10)
    refused = await client.check("ten", key)
    never = await client.check("ten", key, cost=11)
    assert (allowed.allowed, allowed.limit, allowed.remaining, allowed.retry_after) == (True, 10, 0, 0)
    assert not refused.allowed
    assert refused.retry_after is not None
    assert 86_000 < refused.retry_after <= 86_400
    assert (never.allowed, never.retry_after_ms, never.retry_after) == (False, None, None)
    assert {one.source for one in (allowed, refused, never)} == {"store"}
    assert (allowed.policy, allowed.binding, allowed.permit, allowed.error) == ("ten", "ten", None, None)


async def test_headers_are_returned_on_request(client: Tidegate, key: str) -> None:
    plain, full = await asyncio.gather(client.check("ten", key), client.check("ten", key, headers=True))
    refused = await client.check("ten", key, 10, headers=True)
    assert full.headers["ratelimit-policy"] == '"ten";q=10;w=86400'
    assert set(full.headers) == {
        "ratelimit-policy", "ratelimit", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset",
    }  # fmt: skip
    assert int(refused.headers["retry-after"]) >= 1
    assert plain.source == "store"


async def test_several_keys_are_counted(client: Tidegate, key: str) -> None:
    who = {"ip": key, "email_domain": f"{key}.example"}
    decisions = [await client.check("signup", who) for _ in range(4)]
    assert [one.allowed for one in decisions] == [True, True, True, False]
    assert {one.binding for one in decisions} == {"ip"}


async def test_a_peek_charges_nothing_and_a_refund_returns_units(client: Tidegate, key: str) -> None:
    await client.check("ten", key, 4)
    assert (await client.peek("ten", key)).remaining == 5
    assert (await client.peek("ten", key, 0)).remaining == 6
    assert (await client.refund("ten", key, 3)).remaining == 9
    assert (await client.reset("ten", key)).remaining == 10


async def test_many_checks_are_answered_in_order_and_split(client: Tidegate, key: str) -> None:
    checks = [Check("plenty", f"{key}-{n}", cost=n) for n in range(2500)]
    decisions = await client.check_many(checks)
    assert [1_000_000_000 - one.remaining for one in decisions] == list(range(2500))
    assert await client.check_many([]) == []


async def test_many_long_checks_are_split_by_size(client: Tidegate, key: str) -> None:
    checks = [Check("plenty", f"{key}-{n}-" + "x" * 60_000) for n in range(40)]
    assert len(await client.check_many(checks)) == 40
    together = await asyncio.gather(*(client.check("plenty", one.key) for one in checks))
    assert [1_000_000_000 - one.remaining for one in together] == [2] * 40


async def test_an_atomic_batch_charges_all_or_none(client: Tidegate, key: str) -> None:
    checks = [Check("ten", key, 2), Check("few", key, 4)]
    first, second = await client.check_many(checks, atomic=True)
    assert (first.allowed, second.allowed) == (True, False)
    assert (await client.peek("ten", key, 0)).remaining == 10
    with pytest.raises(ValueError, match="at most 1000 checks"):
        await client.check_many([Check("ten", key)] * 1001, atomic=True)


async def test_a_reservation_says_how_long_to_wait(client: Tidegate, key: str) -> None:
    first = await client.reserve("queue", key, 50)
    second = await client.reserve("queue", key)
    assert (first.accepted, first.delay_ms) == (True, 0)
    assert second.accepted
    assert second.delay > 0
    assert (await client.reserve("full", key)).accepted
    refused = await client.reserve("full", key)
    assert (refused.accepted, refused.source) == (False, "store")
    assert refused.retry_after is not None
    assert refused.retry_after > 3000
    assert (await client.schedule("full", key)).accepted is False


async def test_schedule_waits_its_turn(client: Tidegate, key: str) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    places = await asyncio.gather(*(client.schedule("queue", key) for _ in range(5)))
    assert all(place.accepted for place in places)
    # Four intervals of 20 ms, minus the time that the server took for the first reply.
    assert loop.time() - begun >= max(place.delay for place in places)


async def test_permits_are_held_for_a_block(client: Tidegate, key: str) -> None:
    async with client.permit("work", key) as first, client.permit("work", key) as second:
        async with client.permit("work", key) as third:
            assert (first.allowed, second.allowed, third.allowed) == (True, True, False)
            assert third.permit is None
        assert (await client.peek("work", key, 0)).remaining == 0
    assert (await client.peek("work", key, 0)).remaining == 2


async def test_a_permit_is_given_back_when_the_block_fails(client: Tidegate, key: str) -> None:
    with pytest.raises(ZeroDivisionError):
        async with client.permit("work", key):
            raise ZeroDivisionError
    assert (await client.peek("work", key, 0)).remaining == 2


async def test_acquire_and_release(client: Tidegate, key: str) -> None:
    taken = await client.acquire("work", key)
    assert taken.permit is not None
    assert await client.release("work", key, permit=taken.permit) is True
    assert (await client.peek("work", key, 0)).remaining == 2
    assert await client.release("work", key, permit=taken.permit) is False
    assert (await client.peek("work", key, 0)).remaining == 2


async def test_observations_arrive(client: Tidegate, server: Server, key: str) -> None:
    assert await client.observe(key, 12.5, queue_ms=1, saturation=0.5, url="/a")
    assert await client.observe(key, 40, ok=False)
    async with httpx.AsyncClient(base_url=server.address) as http:
        seen = (await http.get("/v1/pressure")).json()["targets"][key]
    assert (seen["count"], seen["errors"]) == (2, 1)


async def test_a_unix_socket_works_as_tcp_does(start_server: StartServer, tmp_path: Path) -> None:
    path = tmp_path / "http.sock"
    start_server(f"unix:{path}")
    async with Tidegate(socket=path, timeout=DEADLINE, on_error="raise") as client:
        decisions = await asyncio.gather(*(client.check("ten", "k") for _ in range(20)))
    assert sum(one.allowed for one in decisions) == 10


async def test_ipv6_works_as_ipv4_does(start_server: StartServer) -> None:
    server = start_server("[::1]:0")
    assert server.address.startswith("http://[::1]:")
    async with Tidegate(server.address, timeout=DEADLINE, on_error="raise") as client:
        assert (await client.check("ten", "k")).remaining == 9


async def test_a_path_in_the_url_is_a_prefix_of_every_route(server: Server) -> None:
    async with Tidegate(f"{server.address}/limits/", timeout=DEADLINE) as client:
        with pytest.raises(TidegateError, match="/limits/v1/check"):
            await client.check("ten", "k")


async def test_the_token_is_sent(start_server: StartServer, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("0123456789abcdef")
    server = start_server(config="admin: { token_file: token }\npolicies: { a: { limit: 9/day } }\n")
    async with Tidegate(server.address, timeout=DEADLINE, token="0123456789abcdef") as client:
        assert (await client.reset("a", "k")).remaining == 9
    async with Tidegate(server.address, timeout=DEADLINE) as client:
        with pytest.raises(TidegateError) as caught:
            await client.reset("a", "k")
    assert (caught.value.status, caught.value.type) == (401, "urn:tidegate:unauthorized")


async def test_tls_needs_a_trusted_certificate(start_server: StartServer, tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    tls = "listen: { http: { address: 127.0.0.1:0, tls: { cert: cert.pem, key: key.pem } } }"
    server = start_server(None, tls + CONFIG)
    assert server.address.startswith("https://")
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with Tidegate(server.address, timeout=DEADLINE, ssl=trusting) as client:
        assert (await client.check("ten", "k")).remaining == 9
    async with Tidegate(server.address, timeout=DEADLINE) as client:
        decision = await client.check("ten", "k")
    assert decision.source == "fallback"
    assert "certificate verify failed" in str(decision.error)


Ask = Callable[[Tidegate], Awaitable[object]]


@pytest.mark.parametrize(
    ("ask", "status", "field", "detail"),
    [
        (lambda c: c.check("signup", "k"), 400, "keys.ip", "policy `signup` counts by `ip`"),
        (lambda c: c.check("queue", "k"), 400, "policy", "schedule"),
        (lambda c: c.reserve("ten", "k"), 400, "policy", "check"),
        (lambda c: c.acquire("ten", "k"), 400, "policy", "does not limit concurrency"),
        (lambda c: c.release("work", "k", permit="nonsense"), 400, "permit", "`permit` is not a permit"),
        (
            lambda c: c.check_many([*([Check("ten", "k", 0)] * 1500), Check("tem", "k")]),
            404, "checks[1500].policy", "checks[1500]: no policy is called `tem`",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("on_error", ["allow", "deny", "raise", "local"])
async def test_an_invalid_call_raises_regardless_of_on_error(
    server: Server, ask: Ask, status: int, field: str, detail: str, on_error: str
) -> None:
    async with Tidegate(server.address, timeout=DEADLINE, on_error=on_error) as client:  # type: ignore[arg-type]
        with pytest.raises(TidegateError) as caught:
            await ask(client)
    assert (caught.value.status, caught.value.field) == (status, field)
    assert detail in caught.value.detail
    assert str(status) in str(caught.value)


@pytest.mark.parametrize(("on_error", "allowed"), [("allow", True), ("local", True), ("deny", False)])
async def test_an_unknown_policy_follows_on_error(server: Server, on_error: OnError, allowed: bool) -> None:
    async with Tidegate(server.address, timeout=DEADLINE, on_error=on_error) as client:
        decisions = [
            await client.check("tem", "k"),
            await client.check("tem", "k", headers=True),
            *await asyncio.gather(*(client.check("tem", "k") for _ in range(9))),
            await client.peek("tem", "k"),
            await client.acquire("tem", "k"),
        ]
        for one in decisions:
            assert (one.allowed, one.source) == (allowed, "fallback")
            assert one.error is not None
            assert (one.error.status, one.error.field) == (404, "policy")
            assert "no policy is called `tem`; GET /v1/policies lists all policies" in one.error.detail
        assert (await client.reserve("tem", "k")).accepted is allowed
        with pytest.raises(TidegateError, match="no policy is called `tem`"):
            await client.check("tem", "k", on_error="raise")


async def test_an_invalid_check_in_a_batch_fails_alone(client: Tidegate, key: str) -> None:
    asked = [client.check("tem" if n % 3 == 0 else "exact", key) for n in range(300)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(one, TidegateError) for one in answers) == 100
    assert (await client.peek("exact", key, 0)).remaining == 300


async def test_a_closed_client_raises(server: Server) -> None:
    client = Tidegate(server.address)
    await client.aclose()
    await client.aclose()
    with pytest.raises(RuntimeError, match="closed"):
        await client.check("ten", "k")


THREE_LOOPS = """
import asyncio, sys
from tidegate import Tidegate

client = Tidegate(sys.argv[1], timeout=60, on_error="raise")

async def once():
    return (await client.check("ten", sys.argv[2])).remaining

print([asyncio.run(once()) for _ in range(3)])
asyncio.run(client.aclose())
"""


def test_a_client_works_in_the_next_event_loop(server: Server, key: str) -> None:
    """Like application tests, where each request may have its own loop."""
    command = [sys.executable, "-c", THREE_LOOPS, server.address, key]
    source = str(Path(__file__).parents[1] / "src")
    done = subprocess.run(command, capture_output=True, check=True, env={"PYTHONPATH": source})
    assert done.stdout == b"[9, 8, 7]\n"


async def test_a_client_rejects_a_second_event_loop(client: Tidegate, key: str) -> None:
    await client.check("ten", key)
    with pytest.raises(RuntimeError, match="another event loop"):
        await asyncio.to_thread(lambda: asyncio.run(one_check(client)))


async def one_check(client: Tidegate) -> None:
    await client.check("ten", "k")
