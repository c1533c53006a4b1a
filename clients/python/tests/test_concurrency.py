from __future__ import annotations

import asyncio

import pytest
from support import DEADLINE, Server

from tidegate import Tidegate

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("headers", [False, True])
async def test_none_of_ten_thousand_concurrent_checks_is_lost(
    server: Server, key: str, headers: bool
) -> None:
    async with Tidegate(server.address, timeout=DEADLINE, on_error="raise") as client:
        asked = (client.check("plenty", key, headers=headers) for _ in range(10_000))
        decisions = await asyncio.gather(*asked)
        # Each check has its own reply: every remaining count occurs once.
        assert sorted(one.remaining for one in decisions) == list(range(999_990_000, 1_000_000_000))
        assert {bool(one.headers) for one in decisions} == {headers}
        if headers:
            assert all(one.headers["x-ratelimit-remaining"] == str(one.remaining) for one in decisions)


async def test_two_clients_together_admit_exactly_the_limit(server: Server, key: str) -> None:
    async with (
        Tidegate(server.address, timeout=DEADLINE, on_error="raise") as one,
        Tidegate(server.address, timeout=DEADLINE, on_error="raise", max_connections=1) as other,
    ):

        async def ask(n: int) -> bool:
            client = one if n % 2 else other
            return (await client.check("exact", key, headers=n % 5 == 0)).allowed

        answers = await asyncio.gather(*(ask(n) for n in range(2000)))
    assert sum(answers) == 500


@pytest.mark.parametrize("headers", [False, True])
async def test_concurrent_checks_share_calls(server: Server, key: str, headers: bool) -> None:
    """Ten thousand checks take ten calls, not ten thousand."""
    async with Tidegate(server.address, timeout=DEADLINE, on_error="raise") as client:
        await client.check("plenty", key)
        calls = 0
        session = client._session()
        post = session._wire.send

        async def counted(path: str, body: bytes) -> object:
            nonlocal calls
            calls += 1
            return await post(path, body)

        session._wire.send = counted  # type: ignore[method-assign, assignment]
        await asyncio.gather(*(client.check("plenty", key, headers=headers) for _ in range(10_000)))
    assert calls == 10


async def test_a_check_cancelled_before_sending_is_not_charged(client: Tidegate, key: str) -> None:
    asked = [asyncio.ensure_future(client.check("ten", key)) for _ in range(9)]
    await asyncio.sleep(0)  # all have asked, and nothing is sent yet
    for one in asked[::2]:
        one.cancel()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [isinstance(one, asyncio.CancelledError) for one in answers] == [True, False] * 4 + [True]
    assert (await client.peek("ten", key, 0)).remaining == 6


@pytest.mark.parametrize("turns", range(12))
async def test_a_cancelled_check_does_not_affect_others(server: Server, key: str, turns: int) -> None:
    async with Tidegate(server.address, timeout=DEADLINE, on_error="raise", max_connections=1) as client:
        first = asyncio.ensure_future(client.check("ten", key, headers=True))
        second = asyncio.ensure_future(client.check("ten", key))
        for _ in range(turns):
            await asyncio.sleep(0)
        first.cancel()
        assert (await second).source == "store"
        assert (await client.check("ten", key)).source == "store"
        await asyncio.gather(first, return_exceptions=True)


@pytest.mark.parametrize("turns", range(0, 24, 2))
async def test_no_permit_is_lost_when_its_holder_is_cancelled(server: Server, key: str, turns: int) -> None:
    async def work(client: Tidegate) -> None:
        async with client.permit("work", key):
            await asyncio.get_running_loop().create_future()

    async with Tidegate(server.address, timeout=DEADLINE, on_error="raise") as client:
        task = asyncio.ensure_future(work(client))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    async with Tidegate(server.address, timeout=DEADLINE, on_error="raise") as other:
        assert (await other.peek("work", key, 0)).remaining == 2


async def test_no_permit_is_lost_when_its_holder_is_cancelled_twice(server: Server, key: str) -> None:
    entered = asyncio.Event()

    async def work(client: Tidegate) -> None:
        async with client.permit("work", key):
            entered.set()
            await asyncio.get_running_loop().create_future()

    async with Tidegate(server.address, timeout=DEADLINE, on_error="raise", max_connections=1) as client:
        task = asyncio.ensure_future(work(client))
        await entered.wait()
        # Ahead of them in the queue, so that the permit is not yet released at the second cancellation.
        others = [asyncio.ensure_future(client.peek("ten", key)) for _ in range(3)]
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, *others, return_exceptions=True)
        assert task.cancelled()
    async with Tidegate(server.address, timeout=DEADLINE, on_error="raise") as other:
        assert (await other.peek("work", key, 0)).remaining == 2


@pytest.mark.parametrize("headers", [False, True])
async def test_closing_waits_for_pending_checks(server: Server, key: str, headers: bool) -> None:
    client = Tidegate(server.address, timeout=DEADLINE, on_error="raise", max_connections=2)
    asked = [asyncio.ensure_future(client.check("ten", key, headers=headers)) for _ in range(5)]
    await asyncio.sleep(0)
    await client.aclose()
    assert [(await one).allowed for one in asked] == [True] * 5
