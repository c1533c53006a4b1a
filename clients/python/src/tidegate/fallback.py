"""Decisions when the server does not answer."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Literal, TypeVar, get_args

from .checks import Check
from .errors import TidegateError
from .local import LocalLimits, Policy
from .policies import ServerPolicies
from .replies import Decision, Reservation

T = TypeVar("T")
OnError = Literal["allow", "deny", "raise", "local"]
# Counts a call in this process.
Local = Callable[[LocalLimits, Policy, Check, TidegateError], T]
# Retry-After of a denial by fallback.
RETRY_AFTER_MS = 1000
# At most one log line per interval.
WARNING_INTERVAL_SECONDS = 10.0

log = logging.getLogger("tidegate")


def check_on_error(value: OnError) -> OnError:
    """Return the value, or raise if it is invalid."""
    if value not in get_args(OnError):
        raise ValueError(f"on_error: expected allow, deny, raise or local, got {value!r}")
    return value


class Fallback:
    """Applies `on_error`, counts fallbacks, and logs them. Threads may share it."""

    def __init__(self, on_error: OnError, policies: ServerPolicies, local: LocalLimits) -> None:
        self._on_error = on_error
        self._policies = policies
        self.local = local
        self._lock = threading.Lock()
        self._warned_at: float | None = None
        self._away_since: float | None = None
        self._away_count = 0
        self._has_warned = False
        self.count = 0

    def decision(
        self,
        check: Check,
        error: TidegateError,
        on_error: OnError | None = None,
        local: Local[Decision] | None = LocalLimits.check,
    ) -> Decision:
        """Decide without the server, or raise."""
        counted = self._counted(check, error, on_error, local)
        if counted is not None:
            return counted
        allowed = self.allows(error, on_error)
        wait = 0 if allowed else RETRY_AFTER_MS
        return Decision(allowed, 0, 0, wait, wait, check.policy, check.policy, "fallback", error=error)

    def decisions(self, checks: list[Check], error: TidegateError, *, atomic: bool) -> list[Decision]:
        """Decide a batch without the server, or raise. One unknown policy has the server reject all of it."""
        if error.is_unknown_policy:
            raise error
        if atomic and self._on_error == "local" and not error.is_mistake:
            policies = [self._policies.find(check.policy) for check in checks]
            counted = [(policy, check) for policy, check in zip(policies, checks, strict=True) if policy]
            if len(counted) == len(checks):
                with contextlib.suppress(ValueError):  # limits for another call
                    decided = self.local.check_all(counted, error)
                    self.record(error, "local")
                    return decided
        return [self.decision(check, error) for check in checks]

    def reservation(self, check: Check, error: TidegateError) -> Reservation:
        """Accept or reject without the server, or raise."""
        counted = self._counted(check, error, None, LocalLimits.reserve)
        if counted is not None:
            return counted
        accepted = self.allows(error)
        return Reservation(accepted, 0, 0 if accepted else RETRY_AFTER_MS, "fallback", error)

    def granted(self, check: Check, decision: Decision) -> Decision | None:
        """Count a permit of the server, for when it is away. The refusal, if it has to be returned."""
        if self._on_error != "local" or decision.permit is None or decision.error is not None:
            return None
        with contextlib.suppress(ValueError):  # limits for another call
            return self.local.granted(
                self._policies.find(check.policy), check, decision.permit, decision.ttl_ms
            )
        return None

    def allows(self, error: TidegateError, on_error: OnError | None = None) -> bool:
        """Whether to allow. Raises for an invalid call, and if `on_error` is `raise`."""
        action = self._action(error, on_error)
        self.record(error, "allow, because its limits are not known" if action == "local" else action)
        return action != "deny"

    def drop(self, error: TidegateError) -> None:
        """Do without a call that decides nothing. Raises as `allows` does."""
        self._action(error, None)
        self.record(error, "dropped")

    def _action(self, error: TidegateError, on_error: OnError | None) -> OnError:
        action = self._on_error if on_error is None else on_error
        if error.is_mistake or action == "raise":
            raise error
        return action

    def _counted(
        self, check: Check, error: TidegateError, on_error: OnError | None, local: Local[T] | None
    ) -> T | None:
        """What this process counts; None if `on_error` is another, or the limits are not known."""
        if error.is_unknown_policy:
            self._policies.unknown(check.policy)
        action = self._on_error if on_error is None else on_error
        policy = self._policies.find(check.policy)
        if error.is_mistake or action != "local" or policy is None or local is None:
            return None
        try:
            counted = local(self.local, policy, check, error)
        except ValueError:  # no limits for this call
            return None
        self.record(error, "local")
        return counted

    def record(self, error: TidegateError, action: str) -> None:
        """Count a fallback, and log it with the action taken."""
        now = time.monotonic()
        with self._lock:
            self.count += 1
            is_due = self._warned_at is None or now - self._warned_at >= WARNING_INTERVAL_SECONDS
            if is_due:
                self._warned_at = now
            if not error.is_answer:
                self._away_since = self._away_since or now
                self._away_count += 1
                self._has_warned = self._has_warned or is_due
        if is_due:
            log.warning("answered without the server (%s): %s", action, error)

    def unanswered(self, error: TidegateError) -> None:
        """A call that decides nothing has failed. The server may be another when it answers again."""
        if not error.is_answer:
            with self._lock:
                self._away_since = self._away_since or time.monotonic()

    def answered(self) -> None:
        """The server has answered. Log the end of an outage whose begin was logged."""
        if self._away_since is not None:
            self._end_outage()

    def _end_outage(self) -> None:
        with self._lock:
            since, count, has_warned = self._away_since, self._away_count, self._has_warned
            if since is None:
                return  # another thread was first
            # Before any thread counts a permit of the server that is back.
            self.local.doubt_permits()
            self._away_since, self._away_count, self._has_warned = None, 0, False
        if has_warned:
            seconds = time.monotonic() - since
            log.info("the server decides again, after %.1f s and %d calls without it", seconds, count)
