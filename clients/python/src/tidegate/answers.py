"""What is answered. Whatever comes from the wire is checked here, once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .errors import TidegateError

# What a server tells those who ask, and they may tell their own clients.
PASSED_ON = (
    "ratelimit-policy",
    "ratelimit",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "retry-after",
)


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to go ahead, what is left, and when to come back."""

    allowed: bool
    """Whether to go ahead."""
    limit: int
    """The ceiling: the burst, or the limit. 0 in a fallback, which knows none."""
    remaining: int
    """Whole units left. 0 in a fallback."""
    retry_after_ms: int | None
    """0 if allowed; None if this cost will never be allowed."""
    reset_after_ms: int
    """Until everything is available again."""
    policy: str
    """The policy that was asked."""
    binding: str
    """Which of the policy's limits the answer speaks of."""
    source: str
    """Who decided: `store` and others of the server, or `fallback`, when it did not answer."""
    permit: str | None = None
    """The place that was taken, if one was: give it back with `release`."""
    headers: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """What to tell your own client, by lower-case name. Asked for with `check(…, headers=True)`."""
    error: TidegateError | None = field(default=None, compare=False)
    """Why it is a fallback."""

    @property
    def retry_after(self) -> float | None:
        """How long to wait, in seconds."""
        return None if self.retry_after_ms is None else self.retry_after_ms / 1000

    @property
    def by_failure(self) -> bool:
        """Whether no limit has decided this: nobody who could have known has answered."""
        return self.source in ("fallback", "fail-closed")


@dataclass(frozen=True, slots=True)
class Reservation:
    """A place in the queue of a leaky bucket: wait `delay`, then go ahead."""

    accepted: bool
    """Whether there is a place."""
    delay_ms: int
    """How long to wait before going ahead."""
    retry_after_ms: int | None
    """If there is none: when to ask again; None if this cost will never have one."""
    source: str
    """`store`, or `fallback`, when the server did not answer."""
    error: TidegateError | None = field(default=None, compare=False)
    """Why it is a fallback."""

    @property
    def delay(self) -> float:
        """How long to wait before going ahead, in seconds."""
        return self.delay_ms / 1000

    @property
    def retry_after(self) -> float | None:
        """When to ask again, in seconds."""
        return None if self.retry_after_ms is None else self.retry_after_ms / 1000


@dataclass(frozen=True, slots=True)
class Reply:
    """What came over the wire."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def fields(self) -> dict[str, Any]:
        """The object that the body is. Any other status than 200 is an error."""
        if self.status != 200:
            raise self.problem()
        return _object(self.body)

    def problem(self) -> TidegateError:
        """What the server says is wrong, or that it is not our server at all."""
        unknown = TidegateError(f"answered with status {self.status}", self.status)
        if not self.headers.get("content-type", "").startswith("application/problem+json"):
            return unknown
        try:
            fields = _object(self.body)
        except TidegateError:
            return unknown
        detail, kind, where = (fields.get(name) for name in ("detail", "type", "field"))
        if not isinstance(detail, str) or not isinstance(kind, str):
            return unknown
        return TidegateError(detail, self.status, kind, where if isinstance(where, str) else None)

    def fail_closed_seconds(self) -> int | None:
        """When to come back, if the policy admits nothing while the server's store fails."""
        seconds = self.headers.get("retry-after", "")
        if self.status != 503 or not seconds.isdecimal() or len(seconds) > 9:
            return None
        ours = self.problem().type == "urn:tidegate:store-unavailable"
        return int(seconds) if ours else None


def decision(reply: Reply, policy: str) -> Decision:
    """Read the answer to one check. A server that fails closed has decided, too."""
    seconds = reply.fail_closed_seconds()
    if seconds is not None:
        wait = seconds * 1000
        return Decision(False, 0, 0, wait, wait, policy, policy, "fail-closed", error=reply.problem())
    return replace(_decision(reply.fields()), headers=_passed_on(reply.headers))


def decisions(reply: Reply, count: int, *, headers: bool = False) -> list[Decision]:
    """Read the answers to a batch of so many, with their headers if they were asked for."""
    many = reply.fields().get("decisions")
    if not isinstance(many, list) or len(many) != count:
        raise TidegateError(f"not an answer of tidegate: expected {count} decisions")
    if not headers:
        return [_decision(one) for one in many]
    return [replace(_decision(one), headers=_passed_on(_headers(one))) for one in many]


def reservation(reply: Reply) -> Reservation:
    """Read the answer to a reservation."""
    seconds = reply.fail_closed_seconds()
    if seconds is not None:
        return Reservation(False, 0, seconds * 1000, "fail-closed", reply.problem())
    fields = reply.fields()
    return Reservation(
        accepted=_flag(fields, "accepted"),
        delay_ms=_count(fields, "delay_ms"),
        retry_after_ms=_count_or_none(fields, "retry_after_ms"),
        source="store",
    )


def released(reply: Reply) -> bool:
    """Read the answer to a release."""
    return _flag(reply.fields(), "released")


def _decision(fields: object) -> Decision:
    if not isinstance(fields, dict):
        raise TidegateError("not an answer of tidegate: a decision is no object")
    permit = fields.get("permit")
    return Decision(
        allowed=_flag(fields, "allowed"),
        limit=_count(fields, "limit"),
        remaining=_count(fields, "remaining"),
        retry_after_ms=_count_or_none(fields, "retry_after_ms"),
        reset_after_ms=_count(fields, "reset_after_ms"),
        policy=_text(fields, "policy"),
        binding=_text(fields, "binding"),
        source=_text(fields, "source"),
        permit=None if permit is None else _text(fields, "permit"),
    )


def _headers(fields: dict[str, Any]) -> dict[str, Any]:
    value = fields.get("headers")
    if not isinstance(value, dict):
        raise TidegateError("not an answer of tidegate: a decision without headers")
    return value


def _passed_on(headers: Mapping[str, object]) -> dict[str, str]:
    """Those that your own clients may see, and that can be written."""
    told = ((name, headers.get(name)) for name in PASSED_ON)
    return {name: value for name, value in told if isinstance(value, str) and _is_visible(value)}


def _is_visible(value: str) -> bool:
    return value != "" and value.isascii() and value.isprintable()


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise TidegateError(f"not an answer of tidegate: {error}") from error
    if not isinstance(value, dict):
        raise TidegateError("not an answer of tidegate: no object")
    return value


def _flag(fields: dict[str, Any], name: str) -> bool:
    value = fields.get(name)
    if not isinstance(value, bool):
        raise TidegateError(f"not an answer of tidegate: `{name}` is {value!r:.40}")
    return value


def _count(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TidegateError(f"not an answer of tidegate: `{name}` is {value!r:.40}")
    return value


def _count_or_none(fields: dict[str, Any], name: str) -> int | None:
    return None if name in fields and fields[name] is None else _count(fields, name)


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise TidegateError(f"not an answer of tidegate: `{name}` is {value!r:.40}")
    return value
