"""Replies of the server, decoded and validated."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from .errors import TidegateError

T = TypeVar("T")

# A thousand decisions take about 150 kB.
REPLY_BYTES_MAX = 2 * 1024 * 1024
# Headers that an application may pass on to its own clients.
LIMIT_HEADERS = (
    "ratelimit-policy",
    "ratelimit",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "retry-after",
)
# The methods of the clients for the routes that an error of the server names.
METHODS = {
    "use POST /v1/acquire": "use `client.permit(...)`",
    "use POST /v1/check": "use `client.check(...)`",
    "use POST /v1/reserve": "use `client.schedule(...)`",
}


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of a check."""

    allowed: bool
    limit: int
    """The burst, or the limit if there is none. 0 in a fallback."""
    remaining: int
    """Whole units left. 0 in a fallback."""
    retry_after_ms: int | None
    """0 if allowed; None if this cost can never be allowed."""
    reset_after_ms: int
    """Time until the limit is fully available again."""
    policy: str
    binding: str
    """The limit of the policy that the numbers belong to."""
    source: str
    """Where the decision was made: `store` and others by the server, `fallback` by this client, `local` by
    either: by this client if there is an `error`."""
    permit: str | None = None
    """The permit of a concurrency limit, if one was acquired. Release it with `release`."""
    ttl_ms: int | None = field(default=None, kw_only=True)
    """How long the permit is held unless it is renewed. None without one, or if the server does not tell."""
    headers: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """With `check(…, headers=True)`: headers for your own client, by lower-case name."""
    error: TidegateError | None = field(default=None, compare=False)
    """Why this client decided without the server."""

    @property
    def retry_after(self) -> float | None:
        """`retry_after_ms` in seconds."""
        return None if self.retry_after_ms is None else self.retry_after_ms / 1000

    @property
    def by_failure(self) -> bool:
        """Whether the decision follows from a failure instead of a limit."""
        return self.source in ("fallback", "fail-closed")


@dataclass(frozen=True, slots=True)
class Reservation:
    """A slot in a leaky bucket: wait `delay`, then start."""

    accepted: bool
    delay_ms: int
    """Wait this long, then start."""
    retry_after_ms: int | None
    """0 if accepted; None if this cost can never be accepted."""
    source: str
    """`store`; `fallback` or `local` if the server did not answer."""
    error: TidegateError | None = field(default=None, compare=False)
    """The reason for a fallback."""

    @property
    def delay(self) -> float:
        """`delay_ms` in seconds."""
        return self.delay_ms / 1000

    @property
    def retry_after(self) -> float | None:
        """`retry_after_ms` in seconds."""
        return None if self.retry_after_ms is None else self.retry_after_ms / 1000


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def fields(self) -> dict[str, Any]:
        """The JSON object in the body. Raises for any status but 200."""
        if self.status != 200:
            raise self.problem()
        return _object(self.body)

    def problem(self) -> TidegateError:
        """The error in the body, or a generic one if the reply is not from tidegate."""
        unknown = TidegateError(f"unexpected status {self.status}", self.status)
        if not self.headers.get("content-type", "").startswith("application/problem+json"):
            return unknown
        try:
            fields = _object(self.body)
        except TidegateError:
            return unknown
        detail, kind, where = (fields.get(name) for name in ("detail", "type", "field"))
        if not isinstance(detail, str) or not isinstance(kind, str):
            return unknown
        for route, method in METHODS.items():
            detail = detail.replace(route, method)
        return TidegateError(detail, self.status, kind, where if isinstance(where, str) else None)

    def fail_closed_seconds(self) -> int | None:
        """Retry-After, if the store fails and the policy fails closed; else None."""
        seconds = self.headers.get("retry-after", "")
        if self.status != 503 or not seconds.isdecimal() or len(seconds) > 9:
            return None
        fails_closed = self.problem().type == "urn:tidegate:store-unavailable"
        return int(seconds) if fails_closed else None


def decode(reply: Reply, read: Callable[[Reply], T], answered: Callable[[], None]) -> T:
    """Read a reply, and tell that the server answered; an error from the server is an answer, too."""
    try:
        result = read(reply)
    except TidegateError as error:
        if error.is_answer:
            answered()
        raise
    answered()
    return result


def too_large() -> TidegateError:
    """The error for a reply that is not read to its end."""
    return TidegateError(f"the reply has more than {REPLY_BYTES_MAX} bytes")


def decision(reply: Reply, policy: str) -> Decision:
    """Decode the reply to one check. Failing closed is a decision, too."""
    seconds = reply.fail_closed_seconds()
    if seconds is not None:
        wait = seconds * 1000
        # The header has the server's jitter.
        headers = {"retry-after": str(seconds)}
        return Decision(
            False, 0, 0, wait, wait, policy, policy, "fail-closed", headers=headers, error=reply.problem()
        )
    return replace(_decision(reply.fields()), headers=_limit_headers(reply.headers))


def decisions(reply: Reply, count: int, *, headers: bool = False) -> list[Decision]:
    """Decode the reply to a batch of `count` checks, with their headers if requested."""
    many = reply.fields().get("decisions")
    if not isinstance(many, list) or len(many) != count:
        raise TidegateError(f"invalid reply: expected {count} decisions")
    if not headers:
        return [_decision(one) for one in many]
    return [replace(_decision(one), headers=_limit_headers(_headers(one))) for one in many]


def reservation(reply: Reply) -> Reservation:
    """Decode the reply to a reservation."""
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
    """Decode the reply to a release."""
    return _flag(reply.fields(), "released")


def renewed(reply: Reply) -> int | None:
    """Decode the reply to a renewal: the permit's time in ms, or None if it is lost."""
    fields = reply.fields()
    return _count(fields, "ttl_ms") if _flag(fields, "renewed") else None


def accepted(reply: Reply) -> bool:
    """Decode the reply to an observation."""
    if reply.status != 204:
        raise reply.problem()
    return True


def _decision(fields: object) -> Decision:
    if not isinstance(fields, dict):
        raise TidegateError("invalid reply: a decision is not an object")
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
        ttl_ms=_count(fields, "ttl_ms") if "ttl_ms" in fields else None,
    )


def _headers(fields: dict[str, Any]) -> dict[str, Any]:
    value = fields.get("headers")
    if not isinstance(value, dict):
        raise TidegateError("invalid reply: a decision without headers")
    return value


def _limit_headers(headers: Mapping[str, object]) -> dict[str, str]:
    """The headers that are safe to pass on."""
    found = ((name, headers.get(name)) for name in LIMIT_HEADERS)
    return {name: value for name, value in found if isinstance(value, str) and _is_visible(value)}


def _is_visible(value: str) -> bool:
    return value != "" and value.isascii() and value.isprintable()


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise TidegateError(f"invalid reply: {error}") from error
    if not isinstance(value, dict):
        raise TidegateError("invalid reply: not an object")
    return value


def _flag(fields: dict[str, Any], name: str) -> bool:
    value = fields.get(name)
    if not isinstance(value, bool):
        raise TidegateError(f"invalid reply: `{name}` is {value!r:.40}")
    return value


def _count(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TidegateError(f"invalid reply: `{name}` is {value!r:.40}")
    return value


def _count_or_none(fields: dict[str, Any], name: str) -> int | None:
    return None if name in fields and fields[name] is None else _count(fields, name)


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise TidegateError(f"invalid reply: `{name}` is {value!r:.40}")
    return value
