"""Misspelt policy names: reported when an application starts, with the nearest names."""

from __future__ import annotations

import difflib
import logging
import threading
from collections.abc import Iterable

# Names in a message.
SHOWN_MAX = 10

log = logging.getLogger("tidegate")


class ExpectedPolicies:
    """The policies that an application uses. Each is compared with the server's once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: set[str] = set()

    def add(self, names: Iterable[str]) -> list[str]:
        """Return the names that are new."""
        names = [name for name in names if name not in self._names]
        if not names:
            return []
        with self._lock:
            new = sorted(set(names) - self._names)
            self._names.update(new)
        return new


def report_unknown(names: Iterable[str], known: list[str]) -> None:
    """Log an error for each name that the server does not have."""
    for name in names:
        if name not in known:
            log.error("no policy is called `%s`: %s. Its checks fail", name, _suggestion(name, known))


def _suggestion(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.65)
    if near:
        return f"the nearest name is {_quoted(near)}"
    return f"the server has {_quoted(known)}" if known else "the server has no policies"


def _quoted(names: list[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:SHOWN_MAX])
    return f"{shown} and others" if len(names) > SHOWN_MAX else shown
