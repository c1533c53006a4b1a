"""Checks: validated and encoded before they are sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

# One key: text, or an identifier that is sent as text: 42 is "42".
KeyValue = str | int | UUID
# The key to count by, or several by name for a policy with several keys.
Key = KeyValue | Mapping[str, KeyValue]
COST_MAX = 2**53
KEYS_MAX = 32
# The server accepts 64 KiB per call, including the fields of a batch and a permit.
CHECK_BYTES_MAX = 63 * 1024


@dataclass(frozen=True, slots=True)
class Check:
    """One check of `key` against `policy`, for `cost` units.

    For policies with several keys, `key` is a mapping by name.
    """

    policy: str
    key: Key
    cost: int = 1

    def __post_init__(self) -> None:
        """Raise a `ValueError` that names the invalid field."""
        text("policy", self.policy)
        object.__setattr__(self, "key", _key_as_text(self.key))
        whole("cost", self.cost, COST_MAX)

    @property
    def shape(self) -> tuple[str, ...]:
        """The policy and the names of the keys: all that the server can reject in a well-formed check."""
        if isinstance(self.key, Mapping):
            return (self.policy, "keys", *sorted(self.key))
        return (self.policy,)

    def encoded(self, **more: str) -> bytes:
        """Encode as JSON, with further fields."""
        fields: dict[str, object] = {"policy": self.policy}
        if isinstance(self.key, Mapping):
            fields["keys"] = dict(self.key)
        else:
            fields["key"] = self.key
        if self.cost != 1:
            fields["cost"] = self.cost
        body = json.dumps(fields | more, separators=(",", ":")).encode()
        if len(body) > CHECK_BYTES_MAX:
            raise ValueError(
                f"key: the check has {len(body)} bytes, the maximum is {CHECK_BYTES_MAX}: use a hash as key"
            )
        return body


def _key_as_text(key: object) -> str | dict[str, str]:
    if not isinstance(key, Mapping):
        expected = "a string, a whole number or a mapping like {'ip': '192.0.2.7'}"
        return _text_of("key", key, expected)
    if not 1 <= len(key) <= KEYS_MAX:
        raise ValueError(f"key: expected 1 to {KEYS_MAX} named keys, got {len(key)}")
    return {text("key", name): _text_of(f"key.{name}", value) for name, value in key.items()}


def _text_of(field: str, value: object, expected: str = "a string or a whole number") -> str:
    if isinstance(value, int | UUID) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise ValueError(f"{field}: expected {expected}, got {value!r:.80}")  # noqa: TRY004 (as for all invalid checks)
    return text(field, value)


def text(field: str, value: object) -> str:
    """Require a non-empty, encodable string."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{field}: expected a non-empty string, got {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{field}: {value!r} contains a lone surrogate") from None
    return value


def whole(field: str, value: object, most: int, least: int = 0) -> int:
    """Require a whole number from `least` to `most`."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{field}: expected a whole number from {least} to {most}, got {value!r}")
    return value


def number(field: str, value: object, most: float) -> float:
    """Require a number from 0 to `most`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise ValueError(f"{field}: expected a number from 0 to {most}, got {value!r}")
    return value
