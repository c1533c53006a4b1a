"""The calls of the API, for both clients: what is sent, how a reply is read, what holds without one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

from . import replies
from .checks import Check, Key, number, text
from .errors import TidegateError
from .fallback import Fallback, Local, OnError
from .local import LocalLimits
from .replies import Decision, Reply, Reservation

T = TypeVar("T")
# The server's limits for one batch: 1000 checks, 1 MiB.
BATCH_MAX = 1000
BATCH_BYTES_MAX = 1_000_000
BATCH = "/v1/check/batch"
# What this process can do by itself. A refund is for what the server has charged.
LOCAL: dict[str, Local[Decision]] = {
    "/v1/check": LocalLimits.check,
    "/v1/peek": LocalLimits.peek,
    "/v1/acquire": LocalLimits.acquire,
}
YEAR_MS = 366.0 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A call that is not sent yet."""

    path: str
    body: bytes | None
    """Without one, it is a GET."""
    read: Callable[[Reply], T]
    without_answer: Callable[[Fallback, TidegateError], T]
    """The result if it fails; or it raises the error."""


def decision(
    path: str, policy: str, key: Key, cost: int = 1, on_error: OnError | None = None
) -> Call[Decision]:
    """`check`, `peek`, `refund` and `acquire`."""
    check = Check(policy, key, cost)
    return Call(
        path,
        check.encoded(),
        lambda reply: replies.decision(reply, policy),
        lambda fallback, error: fallback.decision(check, error, on_error, LOCAL.get(path)),
    )


def reset(policy: str, key: Key) -> Call[Decision]:
    """Raises if it fails."""
    return Call("/v1/reset", Check(policy, key).encoded(), lambda it: replies.decision(it, policy), _raise)


def reserve(policy: str, key: Key, cost: int) -> Call[Reservation]:
    """A slot in a leaky bucket."""
    check = Check(policy, key, cost)
    return Call(
        "/v1/reserve",
        check.encoded(),
        replies.reservation,
        lambda fallback, error: fallback.reservation(check, error),
    )


def release(policy: str, key: Key, permit: str) -> Call[bool]:
    """False if it fails: the permit expires by itself."""
    body = Check(policy, key).encoded(permit=text("permit", permit))
    return Call("/v1/release", body, replies.released, _false)


def renew(policy: str, key: Key, permit: str) -> Call[int | None]:
    """The time that the permit has from now on, in ms; None if it is lost. Raises if it fails."""
    body = Check(policy, key).encoded(permit=text("permit", permit))
    return Call("/v1/renew", body, replies.renewed, _raise)


def observe(
    target: str,
    latency_ms: float | None,
    ok: bool,
    queue_ms: float | None = None,
    saturation: float | None = None,
    url: str | None = None,
) -> Call[bool]:
    """False if it fails."""
    fields: dict[str, object] = {"target": text("target", target), "ok": bool(ok)}
    for name, value, most in (
        ("latency_ms", latency_ms, YEAR_MS),
        ("queue_ms", queue_ms, YEAR_MS),
        ("saturation", saturation, 1.0),
    ):
        if value is not None:
            fields[name] = number(name, value, most)
    if url is not None:
        fields["url"] = text("url", url)
    return Call("/v1/observe", json.dumps(fields).encode(), replies.accepted, _false)


def observe_many(observations: list[tuple[str, float, bool]]) -> Call[bool]:
    """Raises if it fails."""
    many = [{"target": target, "latency_ms": ms, "ok": ok} for target, ms, ok in observations]
    return Call("/v1/observe/batch", json.dumps({"observations": many}).encode(), replies.accepted, _raise)


def policies() -> Call[Mapping[str, Any]]:
    """All policies, by name. Raises if it fails."""
    return Call("/v1/policies", None, Reply.fields, _raise)


def batches(checks: Iterable[Check], atomic: bool) -> list[Call[list[Decision]]]:
    """Many checks, in as few calls as the server accepts."""
    parts = _parts(list(checks))
    if atomic and len(parts) > 1:
        raise ValueError(f"checks: an atomic call has at most {BATCH_MAX} checks and 1 MB")
    starts = [sum(len(part) for part in parts[:index]) for index in range(len(parts))]
    return [_batch(start, part, atomic) for start, part in zip(starts, parts, strict=True)]


def _batch(start: int, part: list[Check], atomic: bool) -> Call[list[Decision]]:
    def without_answer(fallback: Fallback, error: TidegateError) -> list[Decision]:
        numbered = renumbered(error, lambda index: f"checks[{start + index}]")
        return fallback.decisions(part, numbered, atomic=atomic)

    body = batch_body([check.encoded() for check in part], atomic=atomic)
    return Call(BATCH, body, lambda it: replies.decisions(it, len(part)), without_answer)


def _parts(checks: list[Check]) -> list[list[Check]]:
    """Split a list into batches that the server accepts."""
    parts: list[list[Check]] = []
    size = 0
    for check in checks:
        if not isinstance(check, Check):
            raise TypeError(f"checks: expected a tidegate.Check, got {check!r:.80}")
        length = len(check.encoded()) + 1
        if not parts or len(parts[-1]) == BATCH_MAX or size + length > BATCH_BYTES_MAX:
            parts.append([])
            size = 0
        parts[-1].append(check)
        size += length
    return parts


def batch_body(checks: list[bytes], *, atomic: bool = False, headers: bool = False) -> bytes:
    """Join encoded checks into the body of a batch."""
    start = (b'"atomic":true,' if atomic else b"") + (b'"headers":true,' if headers else b"")
    return b"{" + start + b'"checks":[' + b",".join(checks) + b"]}"


def renumbered(error: TidegateError, name: Callable[[int], str]) -> TidegateError:
    """Replace `checks[3]` in an error by another name."""

    def renamed(text: str, end: str) -> str:
        def rename(found: re.Match[str]) -> str:
            new = name(int(found[1]))
            return new + end if new else ""

        return re.sub(rf"^checks\[(\d{{1,4}})\]{re.escape(end)}", rename, text)

    field = None if error.field is None else renamed(error.field, ".")
    return TidegateError(renamed(error.detail, ": "), error.status, error.type, field)


def _raise(_: Fallback, error: TidegateError) -> NoReturn:
    raise error


def _false(fallback: Fallback, error: TidegateError) -> bool:
    fallback.drop(error)
    return False
