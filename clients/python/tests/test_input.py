from __future__ import annotations

from typing import Any

import pytest

from tidegate import Check, Tidegate


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ({"policy": ""}, "policy: expected a string that is not empty, got ''"),
        ({"policy": 7}, "policy: expected a string that is not empty, got 7"),
        ({"key": ""}, "key: expected a string"),
        ({"key": 42}, "key: expected a string, or several by name like {'ip': '192.0.2.7'}, got 42"),
        ({"key": b"k"}, "key: expected a string"),
        ({"key": "\ud800"}, "key: '\\\\ud800' has half a character"),
        ({"key": None}, "key: expected a string, or several by name like {'ip': '192.0.2.7'}, got None"),
        ({"key": ["ip"]}, "key: expected a string, or several by name"),
        ({"key": {}}, "key: expected from 1 to 32 identifiers by name, got 0"),
        ({"key": {str(n): "a" for n in range(33)}}, "key: expected from 1 to 32 identifiers by name, got 33"),
        ({"key": {"ip": ""}}, "key.ip: expected a string that is not empty"),
        ({"key": {"ip": None}}, "key.ip: expected a string that is not empty, got None"),
        ({"cost": -1}, "cost: expected a whole number from 0 to 9007199254740992, got -1"),
        ({"cost": 2**53 + 1}, "cost: expected a whole number"),
        ({"cost": 1.5}, "cost: expected a whole number"),
        ({"cost": True}, "cost: expected a whole number"),
        ({"cost": "1"}, "cost: expected a whole number"),
    ],
)
def test_bad_questions_are_told_before_they_are_sent(question: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says.replace("(", r"\(")):
        Check(**({"policy": "api", "key": "k"} | question))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"url": "127.0.0.1:8080"}, "url: expected something like http://127.0.0.1:8080"),
        ({"url": "ftp://h"}, "url: expected something like"),
        ({"url": "http://"}, "url: expected something like"),
        ({"url": "http://u:p@h"}, "url: expected no user"),
        ({"url": "http://h?q"}, "url: expected no user"),
        ({"url": "http://h:99999"}, "Port out of range"),
        ({"url": "http://h", "socket": "/s"}, "socket: give either"),
        ({"timeout": 0}, "timeout: expected more than 0"),
        ({"timeout": -1}, "timeout: expected a number"),
        ({"timeout": float("nan")}, "timeout: expected a number"),
        ({"timeout": "1"}, "timeout: expected a number"),
        ({"on_error": "alow"}, "on_error: expected allow, deny or raise, got 'alow'"),
        ({"token": "a\r\nb"}, "token: expected printable ASCII"),
        ({"max_connections": 0}, "max_connections: expected at least 1"),
        ({"max_connections": 1.5}, "max_connections: expected a whole number"),
    ],
)
def test_bad_options_are_told_at_once(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Tidegate(**options)


@pytest.mark.anyio
async def test_bad_calls_are_told_before_they_are_sent(dead_url: str) -> None:
    # What is sent is answered by the fallback, and raises nothing.
    async with Tidegate(dead_url, on_error="allow") as nobody:
        assert (await nobody.check("api", "k")).source == "fallback"
        with pytest.raises(ValueError, match="key: a check of 70"):
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
