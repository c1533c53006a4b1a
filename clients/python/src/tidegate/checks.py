"""Checks: validated and encoded before they are sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

# The key to count by: a string, or several by name for a policy with several keys.
Key = str | Mapping[str, str]
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
        _check_key(self.key)
        whole("cost", self.cost, COST_MAX)

    @property
    def shape(self) -> tuple[str, ...]:
        """The policy and the names of the keys: all that the server can reject in a well-formed check."""
        if isinstance(self.key, str):
            return (self.policy,)
        return (self.policy, "keys", *sorted(self.key))

    def encoded(self, **more: str) -> bytes:
        """Encode as JSON, with further fields."""
        fields: dict[str, object] = {"policy": self.policy}
        if isinstance(self.key, str):
            fields["key"] = self.key
        else:
            fields["keys"] = dict(self.key)
        if self.cost != 1:
            fields["cost"] = self.cost
        body = json.dumps(fields | more, separators=(",", ":")).encode()
        if len(body) > CHECK_BYTES_MAX:
            raise ValueError(
                f"key: the check has {len(body)} bytes, the maximum is {CHECK_BYTES_MAX}: use a hash as key"
            )
        return body


def _check_key(key: object) -> None:
    if isinstance(key, str):
        text("key", key)
        return
    if not isinstance(key, Mapping):
        expected = "a string or a mapping like {'ip': '192.0.2.7'}"
        raise ValueError(f"key: expected {expected}, got {key!r}")  # noqa: TRY004 (as for all invalid checks)
    if not 1 <= len(key) <= KEYS_MAX:
        raise ValueError(f"key: expected 1 to {KEYS_MAX} named keys, got {len(key)}")
    for name, value in key.items():
        text("key", name)
        text(f"key.{name}", value)


def text(field: str, value: object) -> str:
    """Require a non-empty, encodable string."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{field}: expected a non-empty string, got {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{field}: {value!r} contains a lone surrogate") from None
    return value


def whole(field: str, value: object, most: int) -> int:
    """Require a whole number from 0 to `most`."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"{field}: expected a whole number from 0 to {most}, got {value!r}")
    return value


def number(field: str, value: object, most: float) -> float:
    """Require a number from 0 to `most`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise ValueError(f"{field}: expected a number from 0 to {most}, got {value!r}")
    return value
