"""What is asked for a request, and what whoever is refused is told: the same for ASGI and FastAPI."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar, Union

from .answers import Decision

T = TypeVar("T")
S = TypeVar("S")
Given: TypeAlias = Union[T, Callable[[S], T | Awaitable[T]]]  # noqa: UP007 (or it is no alias to mypy)


async def resolve(given: Given[T, S], subject: S) -> T:
    """What was given, or what the function answers that was given instead."""
    if not callable(given):
        return given
    value = given(subject)
    return await value if inspect.isawaitable(value) else value


@dataclass(frozen=True, slots=True)
class Refusal:
    """The response to who is refused."""

    status: int
    error: str
    message: str
    retry_after: int | None
    headers: dict[str, str]

    def body(self) -> dict[str, str | int | None]:
        """What is sent as JSON."""
        return {"error": self.error, "message": self.message, "retryAfter": self.retry_after}


def refusal(decision: Decision) -> Refusal:
    """Tell a refusal. A failure is 503: it does not look like somebody's limit."""
    seconds = _seconds(decision)
    when = "" if seconds is None else f" Retry after {seconds} seconds."
    headers = dict(decision.headers)
    if seconds is not None:
        headers["retry-after"] = str(seconds)
    if decision.by_failure:
        words = f"The rate limiter is unavailable.{when}"
        return Refusal(503, "Service Unavailable", words, seconds, headers)
    return Refusal(429, "Too Many Requests", f"Rate limit exceeded.{when}", seconds, headers)


def _seconds(decision: Decision) -> int | None:
    """Whole seconds, with the server's jitter if it has told them; None if no wait would help."""
    if decision.retry_after_ms is None:
        return None
    told = decision.headers.get("retry-after", "")
    if told.isdecimal() and len(told) <= 12:
        return int(told)
    return max(1, -(-decision.retry_after_ms // 1000))
