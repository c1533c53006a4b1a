"""What is answered instead of a server that does not."""

from __future__ import annotations

import logging
import time
from typing import Literal, get_args

from .answers import Decision, Reservation
from .errors import TidegateError
from .questions import Check

OnError = Literal["allow", "deny", "raise"]
# When those come back who are refused because nobody knows better.
RETRY_AFTER_MS = 1000
# A log line at most so often: trouble comes in thousands.
SECONDS_BETWEEN_WARNINGS = 10.0

log = logging.getLogger("tidegate")


def on_error_word(value: OnError) -> OnError:
    """Insist on a word that there is."""
    if value not in get_args(OnError):
        raise ValueError(f"on_error: expected allow, deny or raise, got {value!r}")
    return value


class Fallback:
    """Answers as `on_error` says, counts it, and tells the log."""

    def __init__(self, on_error: OnError) -> None:
        self._on_error = on_error_word(on_error)
        self._warned_at: float | None = None
        self.count = 0

    def decision(self, check: Check, error: TidegateError, on_error: OnError | None = None) -> Decision:
        """Decide without the server, or raise."""
        allowed = self.allows(error, on_error)
        wait = 0 if allowed else RETRY_AFTER_MS
        return Decision(allowed, 0, 0, wait, wait, check.policy, check.policy, "fallback", error=error)

    def reservation(self, error: TidegateError) -> Reservation:
        """Give a place, or none, without the server; or raise."""
        accepted = self.allows(error)
        return Reservation(accepted, 0, 0 if accepted else RETRY_AFTER_MS, "fallback", error)

    def allows(self, error: TidegateError, on_error: OnError | None = None) -> bool:
        """Whether to go ahead. A mistake in the question, and what `raise` asks for, is raised."""
        word = self._on_error if on_error is None else on_error
        if error.is_mistake or word == "raise":
            raise error
        self.note(error, word)
        return word == "allow"

    def note(self, error: TidegateError, instead: str) -> None:
        """Count it, and tell the log what is done instead."""
        self.count += 1
        now = time.monotonic()
        if self._warned_at is None or now - self._warned_at >= SECONDS_BETWEEN_WARNINGS:
            self._warned_at = now
            log.warning("answered without the server (%s): %s", instead, error)
