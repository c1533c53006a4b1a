"""The server's policies as this client last saw them: for misspelt names, and to count without the server."""

from __future__ import annotations

import difflib
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .shares import shares_of

# Names in a message.
SHOWN_MAX = 10
# Names that are remembered: a program may compute them.
NAMES_MAX = 1000
# More policies than a server has: those that it has no longer are kept.
KNOWN_MAX = 10_000
# The pause between two attempts to read them; an unknown policy is reported as often.
RETRY_SECONDS = 10.0
# How old they may become, if checks may have to be counted without the server.
REFRESH_SECONDS = 60.0

log = logging.getLogger("tidegate")


class ServerPolicies:
    """Says when to ask the server for its policies, and keeps them. Threads may share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._names: set[str] = set()
        self._uncompared: set[str] = set()
        self._targets: set[str] = set()
        self._uncompared_targets: set[str] = set()
        self._refreshes = False
        self._due_at = math.inf
        self._asked_at = -math.inf
        self.known: Mapping[str, Any] | None = None
        """By name, as the server describes them or did; None if it was never reached."""

    def keep_fresh(self) -> None:
        """Read them from time to time from now on, because a check may need the limits."""
        if not self._refreshes:
            self._refreshes = True
            self._due_at = -math.inf

    def expect(self, names: Iterable[str]) -> None:
        """Compare the names that an application uses with the server's, once."""
        new = [name for name in names if name not in self._names]
        if new:
            with self._lock:
                self._names.update(new)
                self._uncompared.update(new)
                self._due_at = -math.inf

    def expect_target(self, target: str) -> None:
        """Compare a target that an application reports to with those that limits follow, once."""
        if target not in self._targets and len(self._targets) < NAMES_MAX:
            with self._lock:
                self._targets.add(target)
                self._uncompared_targets.add(target)
                self._due_at = -math.inf

    def unknown(self, name: str) -> None:
        """Compare a name that the server does not know, now or no longer."""
        with self._lock:
            is_new = name not in self._names
            if is_new and len(self._names) >= NAMES_MAX:
                return
            self._names.add(name)
            self._uncompared.add(name)
            self._due_at = -math.inf if is_new else min(self._due_at, self._asked_at + RETRY_SECONDS)

    def find(self, name: str) -> Mapping[str, Any] | None:
        """A policy as the server last described it."""
        return None if self.known is None else self.known.get(name)

    def is_due(self) -> bool:
        """Whether to ask the server now. Then it is not due for a while, whatever becomes of it."""
        now = self._clock()
        if now < self._due_at:
            return False
        with self._lock:
            if now < self._due_at:
                return False
            self._asked_at = now
            self._due_at = now + RETRY_SECONDS
        return True

    def loaded(self, policies: Mapping[str, Any]) -> None:
        """Keep them, and log each expected name that is not among them, and each target that none follows.

        A program may still name those that the server has no longer. What cannot be read replaces nothing.
        """
        readable = {name: policy for name, policy in policies.items() if _is_readable(name, policy)}
        with self._lock:
            before = self.known or {}
            kept = before if len(before.keys() | readable.keys()) <= KNOWN_MAX else {}
            self.known = {**kept, **readable}
            missing = sorted(self._uncompared - set(policies))
            self._uncompared.clear()
            targets = sorted(self._uncompared_targets)
            self._uncompared_targets.clear()
            self._due_at = self._clock() + REFRESH_SECONDS if self._refreshes else math.inf
        for name in missing:
            log.error(
                "no policy is called `%s`: %s. Its checks follow on_error", name, _suggestion(name, policies)
            )
        followed = _followed(readable)
        # A server that names no targets may be an older one.
        if followed and "all" not in followed:
            for target in [one for one in targets if one not in followed]:
                nearest = _suggestion(target, followed)
                log.warning("no limit follows `observe=%r`: %s. Its reports change nothing", target, nearest)


def _followed(policies: Mapping[str, Any]) -> list[str]:
    """The targets that limits follow; `all` stands for every target."""
    limits = [limit for policy in policies.values() for limit in policy.get("members", [policy])]
    lists = [found for limit in limits if isinstance(found := limit.get("targets"), list)]
    return sorted({one for found in lists for one in found if isinstance(one, str)})


def _is_readable(name: str, policy: Any) -> bool:  # noqa: ANN401 (as the server sent it)
    try:
        shares_of(policy, name, 1)
    except ValueError:
        return False
    return True


def _suggestion(name: str, known: Iterable[str]) -> str:
    known = list(known)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.65)
    if near:
        return f"the nearest name is {_quoted(near)}"
    return f"the server has {_quoted(known)}" if known else "the server has no policies"


def _quoted(names: list[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:SHOWN_MAX])
    return f"{shown} and others" if len(names) > SHOWN_MAX else shown
