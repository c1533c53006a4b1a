"""Which calls time out, and when: in virtual time, to the microsecond."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest
import virtual

from tidegate import TidegateError
from tidegate import slots as slots_module
from tidegate.slots import CallSlots

TIMEOUT = 1.6


async def call(slots: CallSlots, work: Callable[[], Awaitable[object]]) -> float:
    """Make a call. Return its duration, negative if it timed out."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    try:
        async with slots.slot():
            await work()
            slots.answered()
    except TidegateError as error:
        if error.detail != "no answer within 1.6 s":
            raise
        return begun - loop.time()
    return loop.time() - begun


def takes(seconds: float) -> Callable[[], Awaitable[object]]:
    return lambda: asyncio.sleep(seconds)


async def hang() -> object:
    return await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("others", [0, 1, 2, 999])
def test_a_server_that_hangs_costs_each_call_the_timeout_once(others: int) -> None:
    async def test() -> list[float]:
        slots = CallSlots(2, TIMEOUT)
        return await asyncio.gather(*(call(slots, hang) for _ in range(1 + others)))

    assert virtual.run(test()) == [pytest.approx(-TIMEOUT, abs=1e-6)] * (1 + others)


def test_a_call_between_two_slices_waits_at_most_the_timeout() -> None:
    async def test() -> list[float]:
        slots = CallSlots(100, TIMEOUT)

        async def later(after: float) -> float:
            await asyncio.sleep(after)
            return await call(slots, hang)

        return await asyncio.gather(*(later(n * 0.013) for n in range(100)))

    waits = [-wait for wait in virtual.run(test())]
    assert max(waits) <= TIMEOUT + 1e-6
    assert min(waits) >= TIMEOUT * 15 / 16 - 1e-6


def test_a_moving_queue_fails_no_call() -> None:
    async def test() -> list[float]:
        slots = CallSlots(3, TIMEOUT)
        return await asyncio.gather(*(call(slots, takes(1.0)) for _ in range(300)))

    waits = virtual.run(test())
    assert waits == [pytest.approx(1 + n // 3) for n in range(300)]


def test_a_stalled_queue_times_out() -> None:
    async def test() -> list[float]:
        slots = CallSlots(1, TIMEOUT)
        works = [takes(1.0), takes(1.0), hang, hang, hang]
        return await asyncio.gather(*(call(slots, work) for work in works))

    answered, waits = virtual.run(test()), [1.0, 2.0, -3.6, -3.6, -3.6]
    # Slices start with the first call; an answer counts for its slice.
    assert answered == [pytest.approx(wait, abs=TIMEOUT / 16 + 1e-6) for wait in waits]


def test_answers_to_other_calls_do_not_extend_a_hung_call() -> None:
    async def test() -> list[float]:
        slots = CallSlots(2, TIMEOUT)
        return await asyncio.gather(call(slots, hang), *(call(slots, takes(0.5)) for _ in range(20)))

    stuck, *others = virtual.run(test())
    assert stuck == pytest.approx(-TIMEOUT, abs=1e-6)
    assert min(others) > 0


def test_a_blocked_event_loop_does_not_count_as_silence() -> None:
    async def test() -> list[float]:
        slots = CallSlots(2, TIMEOUT)

        async def answered_meanwhile() -> None:
            virtual.stall(10.0)
            for _ in range(12):  # the turns that it takes to read what has arrived
                await asyncio.sleep(0)

        return await asyncio.gather(*(call(slots, answered_meanwhile) for _ in range(5)))

    assert min(virtual.run(test())) > 0


def test_a_stall_gives_a_silent_server_no_more_than_one_slice() -> None:
    async def test() -> float:
        slots = CallSlots(2, TIMEOUT)

        async def stalled() -> None:
            virtual.stall(10.0)
            await hang()

        return await call(slots, stalled)

    assert virtual.run(test()) == pytest.approx(-(10 + TIMEOUT * 15 / 16), abs=TIMEOUT / 16)


def test_the_circuit_opens_and_one_call_per_second_probes() -> None:
    async def test() -> list[float]:
        slots, loop = CallSlots(2, TIMEOUT), asyncio.get_running_loop()
        asked: list[float] = []

        async def note() -> None:
            asked.append(loop.time())
            await hang()

        waited: list[float] = []
        while loop.time() < 1020:
            begun = loop.time()
            with pytest.raises(TidegateError, match="no answer"):
                async with slots.slot():
                    await note()
            waited.append(loop.time() - begun)
            await asyncio.sleep(0.01)
        assert max(waited) <= TIMEOUT + 1e-6
        assert sum(wait == 0 for wait in waited) > 300
        return [later - earlier for earlier, later in pairwise(asked)]

    gaps = virtual.run(test())
    # Five calls in a row time out, then one per second probes.
    assert gaps[:4] == [pytest.approx(TIMEOUT + 0.01, abs=TIMEOUT / 16)] * 4
    assert gaps[4:] == [pytest.approx(TIMEOUT + 1.0, abs=TIMEOUT / 16 + 0.02)] * len(gaps[4:])
    assert len(gaps) >= 7


def test_an_answer_closes_the_circuit() -> None:
    async def test() -> list[float]:
        slots = CallSlots(100, TIMEOUT)
        assert max(await asyncio.gather(*(call(slots, hang) for _ in range(5)))) < 0
        with pytest.raises(TidegateError, match="no calls for"):
            await call(slots, takes(0))
        await asyncio.sleep(1.0)
        probe = asyncio.ensure_future(call(slots, takes(0.5)))
        await asyncio.sleep(0.1)
        with pytest.raises(TidegateError, match="no calls for"):
            await call(slots, takes(0))
        await probe
        return await asyncio.gather(*(call(slots, takes(0.1)) for _ in range(50)))

    assert virtual.run(test()) == [pytest.approx(0.1)] * 50


@pytest.mark.parametrize(("took", "pause"), [(0.002, 0.02), (0.05, 0.5), (0.1, 1.0), (1.0, 1.0)])
def test_the_pause_is_ten_times_the_duration_of_the_failure(took: float, pause: float) -> None:
    async def fails(slots: CallSlots) -> None:
        async with slots.slot():
            await asyncio.sleep(took)
            raise TidegateError("refused")

    async def test() -> None:
        slots = CallSlots(100, TIMEOUT)
        await asyncio.gather(*(fails(slots) for _ in range(5)), return_exceptions=True)
        await asyncio.sleep(pause - 0.001)
        with pytest.raises(TidegateError, match="no calls for"):
            await call(slots, takes(0))
        await asyncio.sleep(0.002)
        await call(slots, takes(0))

    virtual.run(test())


def test_after_a_cancelled_probe_the_next_call_probes() -> None:
    async def test() -> float:
        slots = CallSlots(100, TIMEOUT)
        await asyncio.gather(*(call(slots, hang) for _ in range(5)))
        await asyncio.sleep(1.0)
        probe = asyncio.ensure_future(call(slots, hang))
        await asyncio.sleep(0.1)
        probe.cancel()
        await asyncio.gather(probe, return_exceptions=True)
        return await call(slots, takes(0.2))

    assert virtual.run(test()) == pytest.approx(0.2)


def test_failures_with_an_answer_between_them_do_not_open_the_circuit() -> None:
    async def test() -> list[float]:
        slots = CallSlots(2, TIMEOUT)
        return [await call(slots, takes(0.1) if n % 5 == 4 else hang) for n in range(20)]

    answered = [wait > 0 for wait in virtual.run(test())]
    assert answered == [n % 5 == 4 for n in range(20)]


def test_a_cancelled_call_frees_its_slot() -> None:
    async def test() -> float:
        slots = CallSlots(1, TIMEOUT)
        held, waiting = (asyncio.ensure_future(call(slots, hang)) for _ in range(2))
        await asyncio.sleep(0.1)
        waiting.cancel()
        held.cancel()
        await asyncio.gather(held, waiting, return_exceptions=True)
        assert held.cancelled()
        assert waiting.cancelled()
        return await call(slots, takes(0.2))

    assert virtual.run(test()) == pytest.approx(0.2)


def test_a_slot_handed_to_a_cancelled_call_goes_to_the_next() -> None:
    async def test() -> float:
        slots = CallSlots(1, TIMEOUT)
        async with slots.slot():
            second, third = (asyncio.ensure_future(call(slots, takes(0.2))) for _ in range(2))
            await asyncio.sleep(0.1)
        second.cancel()  # it has the place, and does not know yet
        await asyncio.gather(second, return_exceptions=True)
        assert second.cancelled()
        return await third

    assert virtual.run(test()) == pytest.approx(0.3)


def test_the_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots_module, "WAITING_MAX", 10)

    async def test() -> list[object]:
        slots = CallSlots(2, TIMEOUT)
        calls = (call(slots, takes(0.1)) for _ in range(13))
        return await asyncio.gather(*calls, return_exceptions=True)

    *others, last = virtual.run(test())
    assert all(isinstance(one, float) and one > 0 for one in others)
    assert isinstance(last, TidegateError)
    assert "10 calls are already waiting" in str(last)
