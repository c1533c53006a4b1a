"""A circuit breaker: while the server does not answer, callers do not wait for the timeout."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .errors import TidegateError

# The circuit opens after as many failures in a row.
FAILURES_MAX = 5
# The longest pause between probes.
PAUSE_SECONDS = 1.0
# The pause is this multiple of the time that the failure took: a refused connection is cheap to probe again
# soon.
PAUSE_FACTOR = 10


class Circuit:
    """While it is open, calls fail at once. Threads may share it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._last_failure = ""
        self._paused_until = 0.0
        self._probing = False

    def raise_if_open(self) -> None:
        """Fail at once while the circuit is open."""
        with self._lock:
            self._raise_if_open()

    def _raise_if_open(self) -> None:
        if self._has_failed and (self._probing or self._clock() < self._paused_until):
            pause = f"no calls for up to {PAUSE_SECONDS:g} s"
            raise TidegateError(f"no answer {FAILURES_MAX} times in a row ({self._last_failure}): {pause}")

    @contextmanager
    def call(self) -> Iterator[None]:
        """Wrap a call, and record whether it fails."""
        with self._lock:
            self._raise_if_open()
            probe = self._probing = self._has_failed
        begun = self._clock()
        try:
            yield
        except TidegateError as error:
            if not error.is_answer:
                self._failed(begun, str(error))
            raise
        finally:
            # A cancelled probe has no outcome: the next call probes.
            if probe:
                self._probing = False

    def _failed(self, begun: float, failure: str) -> None:
        now = self._clock()
        with self._lock:
            self._failures += 1
            self._last_failure = failure
            self._paused_until = now + min(PAUSE_SECONDS, PAUSE_FACTOR * (now - begun))

    def answered(self) -> None:
        """Record that the server has answered."""
        self._failures = 0

    @property
    def _has_failed(self) -> bool:
        return self._failures >= FAILURES_MAX
