"""Decisions when the server does not answer."""

from __future__ import annotations

import logging
import threading
import time
from typing import Literal, get_args

from .checks import Check
from .errors import TidegateError
from .replies import Decision, Reservation

OnError = Literal["allow", "deny", "raise"]
# Retry-After of a denial by fallback.
RETRY_AFTER_MS = 1000
# At most one log line per interval.
WARNING_INTERVAL_SECONDS = 10.0

log = logging.getLogger("tidegate")


def check_on_error(value: OnError) -> OnError:
    """Return the value, or raise if it is invalid."""
    if value not in get_args(OnError):
        raise ValueError(f"on_error: expected allow, deny or raise, got {value!r}")
    return value


class Fallback:
    """Applies `on_error`, counts fallbacks, and logs them. Threads may share it."""

    def __init__(self, on_error: OnError) -> None:
        self._on_error = check_on_error(on_error)
        self._lock = threading.Lock()
        self._warned_at: float | None = None
        self.count = 0

    def decision(self, check: Check, error: TidegateError, on_error: OnError | None = None) -> Decision:
        """Decide without the server, or raise."""
        allowed = self.allows(error, on_error)
        wait = 0 if allowed else RETRY_AFTER_MS
        return Decision(allowed, 0, 0, wait, wait, check.policy, check.policy, "fallback", error=error)

    def reservation(self, error: TidegateError) -> Reservation:
        """Accept or reject without the server, or raise."""
        accepted = self.allows(error)
        return Reservation(accepted, 0, 0 if accepted else RETRY_AFTER_MS, "fallback", error)

    def allows(self, error: TidegateError, on_error: OnError | None = None) -> bool:
        """Whether to allow. Raises for an invalid call, and if `on_error` is `raise`."""
        action = self._on_error if on_error is None else on_error
        if error.is_mistake or action == "raise":
            raise error
        self.record(error, action)
        return action == "allow"

    def record(self, error: TidegateError, action: str) -> None:
        """Count a fallback, and log it with the action taken."""
        now = time.monotonic()
        with self._lock:
            self.count += 1
            is_due = self._warned_at is None or now - self._warned_at >= WARNING_INTERVAL_SECONDS
            if is_due:
                self._warned_at = now
        if is_due:
            log.warning("answered without the server (%s): %s", action, error)
