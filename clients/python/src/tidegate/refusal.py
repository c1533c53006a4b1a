"""The response to a denied request, the same in every framework."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass

from .replies import Decision

CONTENT_TYPE = "application/json"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The response to a denied request."""

    status: int
    error: str
    message: str
    retry_after: int | None
    headers: dict[str, str]

    def body(self) -> bytes:
        """The JSON body, the same bytes as of the client for Node."""
        fields = {"error": self.error, "message": self.message, "retryAfter": self.retry_after}
        return json.dumps(fields, separators=(",", ":")).encode()


def refusal(decision: Decision) -> Refusal:
    """Build the response: 429 for a limit, 503 for a failure of the limiter."""
    seconds = _seconds(decision)
    when = "Retrying will not help." if seconds is None else f"Retry after {seconds} seconds."
    headers = dict(decision.headers)
    if seconds is not None:
        headers["retry-after"] = str(seconds)
    if decision.by_failure:
        message = f"Rate limiter unavailable. {when}"
        return Refusal(503, "Service Unavailable", message, seconds, headers)
    return Refusal(429, "Too Many Requests", f"Rate limit exceeded. {when}", seconds, headers)


def _seconds(decision: Decision) -> int | None:
    """Whole seconds, with the server's jitter if known; None if a retry cannot help."""
    if decision.retry_after_ms is None:
        return None
    header = decision.headers.get("retry-after", "")
    if header.isdecimal() and len(header) <= 12:
        return int(header)
    return jittered(max(1, -(-decision.retry_after_ms // 1000)))


def jittered(seconds: int) -> int:
    """Up to a fifth more, as the server adds it.

    A fifth of less than 5 s is less than 1 s: there, some get a whole second more.
    """
    if seconds < 5:
        return seconds + (random.random() * 10 < seconds)  # noqa: S311 (no secret)
    return seconds + random.randint(0, seconds // 5)  # noqa: S311
