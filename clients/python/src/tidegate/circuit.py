"""Leaves a server alone that does not answer, so that not everyone waits for the timeout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .errors import TidegateError

# So many failures in a row are no accident.
FAILURES_MAX = 5
# So long nobody asks; then one does, and the others go by what it finds.
PAUSE_SECONDS = 1.0


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
            raise TidegateError(
                f"no answer {FAILURES_MAX} times in a row: the server is left alone for {PAUSE_SECONDS:g} s"
            )

    @contextmanager
    def call(self) -> Iterator[None]:
        """Make a call, if it is not open, and note if that fails."""
        self.insist_on_closed()
        probe = self._probing = self._has_failed
        try:
            yield
        except TidegateError as error:
            if not error.is_answer:
                self._failures += 1
                self._paused_until = self._clock() + PAUSE_SECONDS
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
