"""What is asked: checked before it is sent, and written as the server reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

COST_MAX = 2**53
KEYS_MAX = 32
# What the server takes: 64 KiB for a call. The rest of the call is its braces and its permit.
QUESTION_BYTES_MAX = 63 * 1024


@dataclass(frozen=True, slots=True)
class Check:
    """One question: may `key` spend `cost` of what `policy` gives it?

    For policies that count several identifiers, give `keys` by name instead of `key`.
    """

    policy: str
    key: str | None = None
    cost: int = 1
    keys: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        """Say what is wrong, as a `ValueError` that names the field."""
        text("policy", self.policy)
        if (self.key is None) == (self.keys is None):
            raise ValueError("key: give either `key`, or `keys` by name")
        if self.key is not None:
            text("key", self.key)
        if self.keys is not None:
            _check_keys(self.keys)
        whole("cost", self.cost, COST_MAX)

    @property
    def shape(self) -> tuple[str, ...]:
        """The policy and which identifiers are given.

        All that a server may dislike about a well-formed check is a matter of these.
        """
        names = () if self.keys is None else tuple(sorted(self.keys))
        return (self.policy, "" if self.keys is None else "keys", *names)

    def encoded(self, **more: str) -> bytes:
        """Write it as JSON, with further fields."""
        fields: dict[str, object] = {"policy": self.policy}
        if self.keys is None:
            fields["key"] = self.key
        else:
            fields["keys"] = dict(self.keys)
        if self.cost != 1:
            fields["cost"] = self.cost
        body = json.dumps(fields | more, separators=(",", ":")).encode()
        if len(body) > QUESTION_BYTES_MAX:
            raise ValueError(
                f"key: a check of {len(body)} bytes, and the most is {QUESTION_BYTES_MAX}: give a hash of it"
            )
        return body


def _check_keys(keys: Mapping[str, str]) -> None:
    if not isinstance(keys, Mapping) or not 1 <= len(keys) <= KEYS_MAX:
        raise ValueError(f"keys: expected from 1 to {KEYS_MAX} identifiers by name, got {keys!r}")
    for name, value in keys.items():
        text("keys", name)
        text(f"keys.{name}", value)


def text(field: str, value: object) -> str:
    """Insist on a string that is not empty, and that can be written."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{field}: expected a string that is not empty, got {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{field}: {value!r} has half a character, a lone surrogate") from None
    return value


def whole(field: str, value: object, most: int) -> int:
    """Insist on a whole number from 0 to `most`."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"{field}: expected a whole number from 0 to {most}, got {value!r}")
    return value


def number(field: str, value: object, most: float) -> float:
    """Insist on a number from 0 to `most`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise ValueError(f"{field}: expected a number from 0 to {most}, got {value!r}")
    return value
