from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tidegate import Check, Tidegate
from tidegate.observations import check_target


@pytest.mark.parametrize(
    ("check", "says"),
    [
        ({"policy": ""}, "policy: expected a non-empty string, got ''"),
        ({"policy": 7}, "policy: expected a non-empty string, got 7"),
        ({"key": ""}, "key: expected a non-empty string"),
        (
            {"key": 4.2},
            "a whole number or a mapping like {'ip': '192.0.2.7'}, got 4.2",
        ),
        ({"key": True}, "key: expected a string, a whole number or a mapping"),
        ({"key": b"k"}, "key: expected a string"),
        ({"key": "\ud800"}, "key: '\\\\ud800' contains a lone surrogate"),
        (
            {"key": None},
            "a whole number or a mapping like {'ip': '192.0.2.7'}, got None",
        ),
        ({"key": ["ip"]}, "key: expected a string, a whole number or a mapping"),
        ({"key": {}}, "key: expected 1 to 32 named keys, got 0"),
        ({"key": {str(n): "a" for n in range(33)}}, "key: expected 1 to 32 named keys, got 33"),
        ({"key": {"ip": ""}}, "key.ip: expected a non-empty string"),
        ({"key": {"ip": None}}, "key.ip: expected a string or a whole number, got None"),
        ({"cost": -1}, "cost: expected a whole number from 0 to 9007199254740992, got -1"),
        ({"cost": 2**53 + 1}, "cost: expected a whole number"),
        ({"cost": 1.5}, "cost: expected a whole number"),
        ({"cost": True}, "cost: expected a whole number"),
        ({"cost": "1"}, "cost: expected a whole number"),
    ],
)
def test_invalid_checks_raise_before_they_are_sent(check: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says.replace("(", r"\(")):
        Check(**({"policy": "api", "key": "k"} | check))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"url": "127.0.0.1:8080"}, "url: expected a URL like http://127.0.0.1:8080"),
        ({"url": "ftp://h"}, "url: expected a URL like"),
        ({"url": "http://"}, "url: expected a URL like"),
        ({"url": "http://u:p@h"}, "url: expected no user"),
        ({"url": "http://h?q"}, "url: expected no user"),
        ({"url": "http://h:99999"}, "Port out of range"),
        ({"url": "http://h", "socket": "/s"}, "socket: set either"),
        ({"timeout": 0}, "timeout: expected more than 0"),
        ({"timeout": -1}, "timeout: expected a number"),
        ({"timeout": float("nan")}, "timeout: expected a number"),
        ({"timeout": "1"}, "timeout: expected a number"),
        ({"on_error": "alow"}, "on_error: expected allow, deny, raise or local, got 'alow'"),
        ({"token": "a\r\nb"}, "token: expected printable ASCII"),
        ({"max_connections": 0}, "max_connections: expected a whole number from 1 to 10000, got 0"),
        ({"max_connections": 1.5}, "max_connections: expected a whole number"),
        ({"on_error": "local", "processes": 0}, "processes: expected a whole number from 1 to 100000, got 0"),
        ({"processes": "4"}, "processes: expected a whole number from 1 to 100000, got '4'"),
    ],
)
def test_invalid_options_raise_at_once(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Tidegate(**options)


@pytest.mark.parametrize(
    ("observe", "says"),
    [
        ("", "observe: expected a non-empty string, got ''"),
        (5, "observe: expected a non-empty string, got 5"),
        (True, "observe: expected a non-empty string, got True"),
        ("x" * 101, "observe: expected a name of at most 100 bytes"),
        ("\u00e9" * 51, "observe: expected a name of at most 100 bytes"),
        ("a\nb", r"observe: expected a name without control characters, got 'a\\nb'"),
        ("\x00", "observe: expected a name without control characters"),
        ("a\x7f", "observe: expected a name without control characters"),
        ("\x85", "observe: expected a name without control characters"),
    ],
)
def test_an_invalid_target_raises_at_once(observe: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        check_target(observe)  # type: ignore[arg-type]


def test_a_target_may_have_any_letters() -> None:
    assert check_target(None) is None
    assert check_target("Datenbank für Züge") == "Datenbank für Züge"


@pytest.mark.anyio
async def test_invalid_calls_raise_before_they_are_sent(dead_url: str) -> None:
    # A valid call falls back and does not raise.
    async with Tidegate(dead_url, on_error="allow") as nobody:
        assert (await nobody.check("api", "k")).source == "fallback"
        with pytest.raises(ValueError, match="key: the check has 70"):
            await nobody.check("api", "x" * 70_000)
        with pytest.raises(ValueError, match="cost"):
            await nobody.reserve("api", "k", -1)
        with pytest.raises(ValueError, match="permit"):
            await nobody.release("api", "k", permit="")
        with pytest.raises(ValueError, match="latency_ms: expected a number"):
            await nobody.observe("db", -1)
        with pytest.raises(ValueError, match="saturation: expected a number from 0 to 1"):
            await nobody.observe("db", saturation=2)
        with pytest.raises(TypeError, match=r"expected a tidegate\.Check"):
            await nobody.check_many([("api", "k")])  # type: ignore[list-item]
        assert nobody.fallbacks == 1


def test_a_number_is_its_text_as_a_key() -> None:
    named: dict[str, str | int | UUID] = {"ip": "192.0.2.7", "user": 42, "device": UUID(int=7)}
    assert (Check("p", 42).key, Check("p", 0), Check("p", -1).key) == ("42", Check("p", "0"), "-1")
    assert Check("p", named).key == {"ip": "192.0.2.7", "user": "42", "device": str(UUID(int=7))}
    assert Check("p", 42).encoded() == b'{"policy":"p","key":"42"}'
