"""What is asked: checked before it is sent, and written as the server reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

# Who is asking: one identifier, or several by name for a policy that counts by several.
Key = str | Mapping[str, str]
COST_MAX = 2**53
KEYS_MAX = 32
# What the server takes: 64 KiB for a call. The rest of the call is its braces and its permit.
QUESTION_BYTES_MAX = 63 * 1024


@dataclass(frozen=True, slots=True)
class Check:
    """One question: may `key` spend `cost` of what `policy` gives it?

    For policies that count several identifiers, the key is a mapping of them by name.
    """

    policy: str
    key: Key
    cost: int = 1

    def __post_init__(self) -> None:
        """Say what is wrong, as a `ValueError` that names the field."""
        text("policy", self.policy)
        _check_key(self.key)
        whole("cost", self.cost, COST_MAX)

    @property
    def shape(self) -> tuple[str, ...]:
        """The policy and which identifiers are given.

        All that a server may dislike about a well-formed check is a matter of these.
        """
        if isinstance(self.key, str):
            return (self.policy,)
        return (self.policy, "keys", *sorted(self.key))

    def encoded(self, **more: str) -> bytes:
        """Write it as JSON, with further fields."""
        fields: dict[str, object] = {"policy": self.policy}
        if isinstance(self.key, str):
            fields["key"] = self.key
        else:
            fields["keys"] = dict(self.key)
        if self.cost != 1:
            fields["cost"] = self.cost
        body = json.dumps(fields | more, separators=(",", ":")).encode()
        if len(body) > QUESTION_BYTES_MAX:
            raise ValueError(
                f"key: a check of {len(body)} bytes, and the most is {QUESTION_BYTES_MAX}: give a hash of it"
            )
        return body


def _check_key(key: object) -> None:
    if isinstance(key, str):
        text("key", key)
        return
    if not isinstance(key, Mapping):
        expected = "a string, or several by name like {'ip': '192.0.2.7'}"
        raise ValueError(f"key: expected {expected}, got {key!r}")  # noqa: TRY004 (as all that is wrong with a check)
    if not 1 <= len(key) <= KEYS_MAX:
        raise ValueError(f"key: expected from 1 to {KEYS_MAX} identifiers by name, got {len(key)}")
    for name, value in key.items():
        text("key", name)
        text(f"key.{name}", value)


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
