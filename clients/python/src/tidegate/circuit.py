"""Leaves a server alone that does not answer, so that not everyone waits for the timeout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .errors import TidegateError

# So many failures in a row are no accident.
FAILURES_MAX = 5
# So long nobody asks at most; then one does, and the others go by what it finds.
PAUSE_SECONDS = 1.0
# So many times as long as it took to fail: to be refused at once costs little, and the server may be back
# soon.
PAUSE_FACTOR = 10


class Circuit:
    """Open while the server is left alone."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = 0
        self._paused_until = 0.0
        self._probing = False

    def insist_on_closed(self) -> None:
        """Raise what whoever comes while it is open is told at once."""
        if self._has_failed and (self._probing or self._clock() < self._paused_until):
            alone = f"the server is left alone for up to {PAUSE_SECONDS:g} s"
            raise TidegateError(f"no answer {FAILURES_MAX} times in a row: {alone}")

    @contextmanager
    def call(self) -> Iterator[None]:
        """Make a call, if it is not open, and note if that fails."""
        self.insist_on_closed()
        probe = self._probing = self._has_failed
        begun = self._clock()
        try:
            yield
        except TidegateError as error:
            if not error.is_answer:
                self._failures += 1
                now = self._clock()
                self._paused_until = now + min(PAUSE_SECONDS, PAUSE_FACTOR * (now - begun))
            raise
        finally:
            # Who is cancelled has found out nothing: the next one does.
            if probe:
                self._probing = False

    def answered(self) -> None:
        """Note that the server is there."""
        self._failures = 0

    @property
    def _has_failed(self) -> bool:
        return self._failures >= FAILURES_MAX
