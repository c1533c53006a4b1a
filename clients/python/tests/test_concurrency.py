from __future__ import annotations

import asyncio

import pytest
from support import DEADLINE, Server

from tidegate import Tidegate

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("headers", [False, True])
async def test_of_ten_thousand_at_once_none_is_lost(server: Server, key: str, headers: bool) -> None:
    async with Tidegate(server.address, timeout=DEADLINE, on_error="raise") as client:
        asked = (client.check("plenty", key, headers=headers) for _ in range(10_000))
        decisions = await asyncio.gather(*asked)
        # Each has an answer of its own: every number of units left is told once.
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
    """What makes bursts cheap: ten thousand checks are ten calls, not ten thousand."""
    async with Tidegate(server.address, timeout=DEADLINE, on_error="raise") as client:
        await client.check("plenty", key)
        calls = 0
        line = client._line()
        post = line._wire.post

        async def counted(path: str, body: bytes) -> object:
            nonlocal calls
            calls += 1
            return await post(path, body)

        line._wire.post = counted  # type: ignore[method-assign, assignment]
        await asyncio.gather(*(client.check("plenty", key, headers=headers) for _ in range(10_000)))
    assert calls == 10


async def test_who_is_cancelled_before_being_sent_is_not_charged(client: Tidegate, key: str) -> None:
    asked = [asyncio.ensure_future(client.check("ten", key)) for _ in range(9)]
    await asyncio.sleep(0)  # all have asked, and nothing is sent yet
    for one in asked[::2]:
        one.cancel()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [isinstance(one, asyncio.CancelledError) for one in answers] == [True, False] * 4 + [True]
    assert (await client.peek("ten", key, 0)).remaining == 6


@pytest.mark.parametrize("turns", range(12))
async def test_who_is_cancelled_at_any_time_harms_nobody(server: Server, key: str, turns: int) -> None:
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
        # Before them in the queue, so that the place is still to be given back at the second time.
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
async def test_closing_waits_for_what_is_under_way(server: Server, key: str, headers: bool) -> None:
    client = Tidegate(server.address, timeout=DEADLINE, on_error="raise", max_connections=2)
    asked = [asyncio.ensure_future(client.check("ten", key, headers=headers)) for _ in range(5)]
    await asyncio.sleep(0)
    await client.aclose()
    assert [(await one).allowed for one in asked] == [True] * 5
