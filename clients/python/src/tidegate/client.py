"""The client: one method per call of the server's API."""

from __future__ import annotations

import asyncio
import json
import os
import ssl as tls
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self, TypeVar

from . import replies
from .checks import Check, Key, number, text, whole
from .coalesce import BATCH_BYTES_MAX, BATCH_MAX
from .errors import TidegateError
from .fallback import Fallback, OnError, check_on_error
from .replies import Decision, Reply, Reservation
from .session import BATCH, Session, batch_body, renumbered
from .wire import Address

T = TypeVar("T")


class Tidegate:
    """A client of a tidegate server, over TCP (`url`) or a Unix socket.

    A denial is a value. If the server is silent for `timeout` seconds, `on_error` applies: `allow` and
    `deny` return a decision with `source` `fallback`, `raise` raises `TidegateError`. Invalid arguments
    always raise: a `ValueError` before anything is sent, or a `TidegateError` if only the server can
    know, e.g. for an unknown policy.

    A client belongs to the event loop that first uses it. Concurrent checks share calls; at most
    `max_connections` connections are open.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        socket: str | os.PathLike[str] | None = None,
        timeout: float = 1.0,
        on_error: OnError = "allow",
        token: str | None = None,
        ssl: tls.SSLContext | None = None,
        max_connections: int = 32,
    ) -> None:
        self._address = Address.parse(url, socket, token, ssl)
        if not number("timeout", timeout, 3600) > 0:
            raise ValueError("timeout: expected more than 0 seconds")
        self._timeout = timeout
        if not whole("max_connections", max_connections, 10_000):
            raise ValueError("max_connections: expected at least 1")
        self._max_connections = max_connections
        self._fallback = Fallback(on_error)
        self._current_session: Session | None = None
        self._background: set[asyncio.Task[bool]] = set()
        self._closed = False

    @property
    def fallbacks(self) -> int:
        """The number of decisions made without the server."""
        return self._fallback.count

    async def check(
        self,
        policy: str,
        key: Key,
        cost: int = 1,
        *,
        headers: bool = False,
        on_error: OnError | None = None,
    ) -> Decision:
        """Check a key against a policy, and charge `cost` if allowed.

        With `headers`, the decision has the headers for your own client. `on_error` overrides the
        client's. A check that is cancelled before it was sent is not charged.
        """
        check = Check(policy, key, cost)
        if on_error is not None:
            check_on_error(on_error)
        return await self._or_fallback(check, self._session().coalescer.check(check, headers), on_error)

    async def check_many(self, checks: Iterable[Check], *, atomic: bool = False) -> list[Decision]:
        """Make many checks, with decisions in the same order. With `atomic`, all are charged or none.

        More than 1000 checks are sent as several concurrent calls, so they cannot be atomic.
        """
        parts = _parts(list(checks))
        if atomic and len(parts) > 1:
            raise ValueError(f"checks: an atomic call has at most {BATCH_MAX} checks and 1 MB")
        starts = [sum(len(part) for part in parts[:index]) for index in range(len(parts))]
        numbered = zip(starts, parts, strict=True)
        decided = await asyncio.gather(*(self._part(start, part, atomic) for start, part in numbered))
        return [one for part in decided for one in part]

    async def peek(self, policy: str, key: Key, cost: int = 1) -> Decision:
        """Return what a check would, and charge nothing. Cost 0 shows what is left."""
        check = Check(policy, key, cost)
        return await self._or_fallback(check, self._one("/v1/peek", check))

    async def refund(self, policy: str, key: Key, cost: int = 1) -> Decision:
        """Return up to `cost` units, and report what is left."""
        check = Check(policy, key, cost)
        return await self._or_fallback(check, self._one("/v1/refund", check))

    async def reset(self, policy: str, key: Key) -> Decision:
        """Reset a key. Needs the server's `token`, or a server on the same machine.

        Raises if it fails, regardless of `on_error`.
        """
        return await self._one("/v1/reset", Check(policy, key))

    async def reserve(self, policy: str, key: Key, cost: int = 1) -> Reservation:
        """Reserve a slot in a leaky bucket. Wait its `delay`, then start."""
        body = Check(policy, key, cost).encoded()
        try:
            return await self._call("/v1/reserve", body, replies.reservation)
        except TidegateError as error:
            return self._fallback.reservation(error)

    async def schedule(self, policy: str, key: Key, cost: int = 1) -> Reservation:
        """Reserve a slot in a leaky bucket, and wait until it begins.

        Returns at once if not accepted. A slot stays reserved if the wait is cancelled.
        """
        reservation = await self.reserve(policy, key, cost)
        await asyncio.sleep(reservation.delay)
        return reservation

    async def acquire(self, policy: str, key: Key, cost: int = 1) -> Decision:
        """Acquire a permit of a concurrency limit. Pass the decision's `permit` to `release`."""
        check = Check(policy, key, cost)
        return await self._or_fallback(check, self._one("/v1/acquire", check))

    async def release(self, policy: str, key: Key, permit: str) -> bool:
        """Release a permit. Return whether the server did; releasing twice is safe.

        A permit that is not released expires by itself.
        """
        check = Check(policy, key)
        body = check.encoded(permit=text("permit", permit))
        try:
            return await self._call("/v1/release", body, replies.released)
        except TidegateError as error:
            self._fallback.allows(error)
            return False

    @asynccontextmanager
    async def permit(self, policy: str, key: Key, cost: int = 1) -> AsyncIterator[Decision]:
        """Hold a permit of a concurrency limit for a block, if the decision is `allowed`.

        If the release fails, the permit expires by itself. This never raises, regardless of `on_error`:
        the result of the block must not be lost.
        """

        async def release_permit(decision: Decision) -> bool:
            if decision.permit is None:
                return False
            try:
                return await self.release(policy, key, decision.permit)
            except TidegateError as error:
                self._fallback.record(error, "permit not released")
                return False

        decision = await self._acquire_or_release(self.acquire(policy, key, cost), release_permit)
        try:
            yield decision
        finally:
            await asyncio.shield(self._in_background(release_permit(decision)))

    async def observe(
        self,
        target: str,
        latency_ms: float | None = None,
        *,
        ok: bool = True,
        queue_ms: float | None = None,
        saturation: float | None = None,
        url: str | None = None,
    ) -> bool:
        """Report the latency and load of a service, for adaptive limits. Return whether it was sent."""
        fields: dict[str, object] = {"target": text("target", target), "ok": bool(ok)}
        year_ms = 366.0 * 24 * 3600 * 1000
        for name, value, most in (
            ("latency_ms", latency_ms, year_ms),
            ("queue_ms", queue_ms, year_ms),
            ("saturation", saturation, 1.0),
        ):
            if value is not None:
                fields[name] = number(name, value, most)
        if url is not None:
            fields["url"] = text("url", url)
        try:
            return await self._call("/v1/observe", json.dumps(fields).encode(), _accepted)
        except TidegateError as error:
            self._fallback.allows(error)
            return False

    async def aclose(self) -> None:
        """Wait for pending calls, and close the connections."""
        while self._background:
            await asyncio.wait(self._background)
        self._closed = True
        session = self._current_session
        if session is not None and session.loop is asyncio.get_running_loop():
            await session.close()

    async def __aenter__(self) -> Self:
        """Connections are opened on demand."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the client."""
        await self.aclose()

    def _session(self) -> Session:
        """The session of this event loop. A session of a closed loop is dropped, as tests leave them."""
        if self._closed:
            raise RuntimeError("the client is closed")
        session = self._current_session
        if session is None or session.loop.is_closed():
            session = Session(self._address, self._timeout, self._max_connections)
            self._current_session = session
            self._background.clear()
        elif session.loop is not asyncio.get_running_loop():
            raise RuntimeError("the client is in use by another event loop: create one per loop")
        return session

    async def _call(self, path: str, body: bytes, read: Callable[[Reply], T]) -> T:
        return await self._session().call(path, body, read)

    async def _one(self, path: str, check: Check) -> Decision:
        body = check.encoded()
        return await self._call(path, body, lambda reply: replies.decision(reply, check.policy))

    async def _or_fallback(
        self, check: Check, call: Coroutine[object, object, Decision], on_error: OnError | None = None
    ) -> Decision:
        try:
            return await call
        except TidegateError as error:
            return self._fallback.decision(check, error, on_error)

    async def _part(self, start: int, part: list[Check], atomic: bool) -> list[Decision]:
        body = batch_body([check.encoded() for check in part], atomic=atomic)
        try:
            return await self._call(BATCH, body, lambda it: replies.decisions(it, len(part)))
        except TidegateError as error:
            numbered = renumbered(error, lambda index: f"checks[{start + index}]")
            return [self._fallback.decision(check, numbered) for check in part]

    async def _acquire_or_release(
        self,
        acquire: Coroutine[object, object, Decision],
        release_permit: Callable[[Decision], Coroutine[object, object, bool]],
    ) -> Decision:
        """Acquire a permit. If the caller is cancelled meanwhile, release it when it arrives."""
        acquiring = asyncio.ensure_future(acquire)
        try:
            return await asyncio.shield(acquiring)
        except asyncio.CancelledError:

            async def acquire_and_release() -> bool:
                try:
                    return await release_permit(await acquiring)
                except TidegateError:
                    return False  # no caller is left to report to

            self._in_background(acquire_and_release())
            raise

    def _in_background(self, work: Coroutine[object, object, bool]) -> asyncio.Task[bool]:
        """Run it even if no caller waits for it. The timeout bounds its duration."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[bool]) -> None:
        self._background.discard(task)
        if not task.cancelled():
            task.exception()  # marks it as retrieved


def _accepted(reply: Reply) -> bool:
    if reply.status != 204:
        raise reply.problem()
    return True


def _parts(checks: list[Check]) -> list[list[Check]]:
    """Split a list into batches that the server accepts."""
    parts: list[list[Check]] = []
    size = 0
    for check in checks:
        if not isinstance(check, Check):
            raise TypeError(f"checks: expected a tidegate.Check, got {check!r:.80}")
        length = len(check.encoded()) + 1
        if not parts or len(parts[-1]) == BATCH_MAX or size + length > BATCH_BYTES_MAX:
            parts.append([])
            size = 0
        parts[-1].append(check)
        size += length
    return parts
