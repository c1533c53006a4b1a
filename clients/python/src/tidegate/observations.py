"""Latencies of an application's responses, reported in batches, and never in the way of a request."""

from __future__ import annotations

import random
import threading
import time
import unicodedata
from dataclasses import dataclass
from typing import Protocol

from . import calls
from .calls import Call
from .checks import text
from .errors import TidegateError
from .fallback import log

# The server looks once a second: a fraction of that, so that no second is without reports.
INTERVAL_SECONDS = 0.25
# The server's limit for one batch. Of more responses in an interval, an even sample is sent.
SAMPLE_MAX = 1000
# So many are sent one by one to a server without batches.
SINGLES_MAX = 50
# The server's limits.
LATENCY_MS_MAX = 3_600_000.0
TARGET_BYTES_MAX = 100


@dataclass(frozen=True, slots=True)
class Observation:
    """How long a response took, and whether it was one."""

    target: str
    latency_ms: float
    ok: bool


class Observations:
    """What is not reported yet. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sample: list[Observation] = []
        self._seen = 0
        self._is_reporting = False
        self._has_batches = True
        self._has_warned = False

    def add(self, target: str, latency_ms: float, ok: bool) -> bool:
        """Add one. Return whether to begin to report."""
        observation = Observation(target, min(max(0.0, latency_ms), LATENCY_MS_MAX), ok)
        with self._lock:
            self._seen += 1
            if len(self._sample) < SAMPLE_MAX:
                self._sample.append(observation)
            elif (index := random.randrange(self._seen)) < SAMPLE_MAX:  # noqa: S311 (no secret)
                self._sample[index] = observation
            begins = not self._is_reporting
            self._is_reporting = True
        return begins

    def take(self) -> list[Observation]:
        """What to report now. If there is nothing, reporting ends."""
        with self._lock:
            sample, self._sample, self._seen = self._sample, [], 0
            self._is_reporting = bool(sample)
        return sample

    def calls(self, sample: list[Observation]) -> list[Call[bool]]:
        """The calls that report a sample."""
        if self._has_batches:
            return [calls.observe_many([(one.target, one.latency_ms, one.ok) for one in sample])]
        some = random.sample(sample, min(len(sample), SINGLES_MAX))
        return [calls.observe(one.target, one.latency_ms, one.ok) for one in some]

    def failed(self, error: TidegateError) -> bool:
        """Whether to try again, one by one. Else drop the sample: the checks report a server that is away."""
        if error.type == "urn:tidegate:unknown-path" and self._has_batches:
            self._has_batches = False
            return True
        if error.is_answer and not self._has_warned:
            self._has_warned = True
            log.warning("the server rejects what `observe` reports: %s", error)
        return False


class _Client(Protocol):
    def observe_later(self, target: str, latency_ms: float, *, ok: bool = True) -> None: ...


class Stopwatch:
    """Measures one response, from now on, for a target if there is one."""

    def __init__(self, client: _Client, target: str | None) -> None:
        self._client = client
        self._target = target
        self._begun = time.monotonic()

    def stop(self, *, ok: bool) -> None:
        """Report it, the first time."""
        target, self._target = self._target, None
        if target is not None:
            self._client.observe_later(target, (time.monotonic() - self._begun) * 1000, ok=ok)


def check_target(target: str | None) -> str | None:
    """Return the target of a middleware, or raise if it is invalid."""
    if target is None:
        return None
    if len(text("observe", target).encode()) > TARGET_BYTES_MAX:
        raise ValueError(f"observe: expected a name of at most {TARGET_BYTES_MAX} bytes")
    # The server rejects a report with such a name: the limit would not follow the application.
    if any(unicodedata.category(one) == "Cc" for one in target):
        raise ValueError(f"observe: expected a name without control characters, got {target!r}")
    return target
