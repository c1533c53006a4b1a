"""Misspelt options and policy names are noticed when an application starts."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import StartServer
from fastapi import Depends, FastAPI
from flask import Flask
from starlette.applications import Starlette
from starlette.middleware import Middleware
from support import CONFIG, DEADLINE, Server, serving

from tidegate import OnError, SyncTidegate, Tidegate, policies
from tidegate.asgi import RateLimitMiddleware, Receive, Scope, Send
from tidegate.django import rate_limit as django_limit
from tidegate.fastapi import lifespan, rate_limit
from tidegate.flask import RateLimit

HERE = Path(__file__).parent
URL = "http://127.0.0.1:1"


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.message.split(". ")[0] for one in caplog.records if one.levelno == logging.ERROR]


async def until(probe: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE
    while not probe() and time.monotonic() < end:  # noqa: ASYNC110 (a log has no event)
        await asyncio.sleep(0.01)


MAKERS: list[Callable[..., object]] = [
    lambda client=None, policy="api", **options: RateLimitMiddleware(
        app, client=client or Tidegate(URL), policy=policy, **options
    ),
    lambda policy="api", **options: rate_limit(policy, **options),
    lambda client=None, policy="api", **options: RateLimit(
        policy, client=client or SyncTidegate(URL), **options
    ),
    lambda policy="api", **options: django_limit(policy, **options),
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({}, None, ""),
        ({"cots": 10}, TypeError, "unexpected keyword argument 'cots'"),
        ({"cost": "10"}, ValueError, "cost: expected a whole number"),
        ({"policy": ""}, ValueError, "policy: expected a non-empty string"),
        ({"key": 7}, None, ""),
        ({"key": 7.5}, ValueError, "key: expected a string, a whole number or a mapping like .*, got 7.5"),
        ({"key": {"ip": None}}, ValueError, "key.ip: expected a string or a whole number, got None"),
        ({"on_error": "alow"}, ValueError, "on_error: expected allow, deny, raise or local"),
    ],
)
def test_a_misspelt_option_raises_at_start(
    make: Callable[..., object], options: dict[str, Any], error: type[Exception] | None, said: str
) -> None:
    if error is None:
        make(**options)
        return
    with pytest.raises(error, match=said):
        make(**options)


@pytest.mark.parametrize(
    ("make", "options", "said"),
    [
        (MAKERS[0], {"client": SyncTidegate(URL)}, "the ASGI middleware needs a tidegate.Tidegate, got"),
        (MAKERS[1], {"client": SyncTidegate(URL)}, "FastAPI needs a tidegate.Tidegate, got"),
        (MAKERS[2], {"client": Tidegate(URL)}, "Flask needs a tidegate.SyncTidegate, got"),
        (MAKERS[2], {"client": URL}, r"got 'http://127.0.0.1:1': write SyncTidegate\(URL\)"),
        (MAKERS[0], {"on_denied": "no"}, "on_denied: expected a function, got 'no'"),
        (MAKERS[0], {"skip": "/healthz"}, "skip: expected True, False or a function, got '/healthz'"),
    ],
)
def test_the_wrong_client_or_function_raises_at_start(
    make: Callable[..., object], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(TypeError, match=said):
        make(**options)


@pytest.mark.anyio
async def test_an_option_that_a_lazy_framework_checks_late_is_logged_at_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    starlette = Starlette(middleware=[Middleware(RateLimitMiddleware, client=Tidegate(URL), policy="")])
    async with serving(starlette):
        await until(lambda: bool(errors(caplog)))
    assert errors(caplog) == ["RateLimitMiddleware: policy: expected a non-empty string, got ''"]


def test_type_checkers_report_misspelt_options(tmp_path: Path) -> None:
    lines = [
        "from starlette.applications import Starlette",
        "from tidegate import SyncTidegate, Tidegate",
        "from tidegate.asgi import RateLimitMiddleware",
        "from tidegate.django import rate_limit as django_limit",
        "from tidegate.fastapi import lifespan, rate_limit",
        "from tidegate.flask import RateLimit",
        "Starlette().add_middleware(RateLimitMiddleware, client=Tidegate(), policy='p', cost=1)",
        "Starlette().add_middleware(RateLimitMiddleware, client=Tidegate(), policy='p', cots=1)",
        "rate_limit('p', cots=10)",
        "RateLimit('p', client=SyncTidegate(), cots=10)",
        "django_limit('p', cots=10)",
        "Tidegate(timout=1)",
        "SyncTidegate().check('p', 'k', cots=1)",
        "lifespan(timout=1)",
    ]
    (tmp_path / "use.py").write_text("\n".join(lines))
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "use.py"]
    environment = {"MYPYPATH": str(HERE.parent / "src"), "PATH": "/usr/bin:/bin"}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    reported = {int(line.split(":")[1]) for line in ran.stdout.splitlines() if ": error: " in line}
    assert reported == set(range(8, 15)), ran.stdout + ran.stderr


@pytest.mark.anyio
async def test_asgi_logs_a_misspelt_policy_at_start(
    client: Tidegate, caplog: pytest.LogCaptureFixture
) -> None:
    inner = RateLimitMiddleware(app, client=client, policy="plenty")
    outer = RateLimitMiddleware(inner, client=client, policy="plnety")
    async with serving(outer):
        await until(lambda: bool(errors(caplog)))
    assert errors(caplog) == ["no policy is called `plnety`: the nearest name is `plenty`"]


@pytest.mark.anyio
async def test_fastapi_logs_a_misspelt_policy_at_start(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    application = FastAPI(lifespan=lifespan(server.address, timeout=DEADLINE))
    application.get("/", dependencies=[Depends(rate_limit("exakt"))])(lambda: "hello")
    async with serving(application):
        await until(lambda: any("exakt" in one for one in errors(caplog)))
    assert "no policy is called `exakt`: the nearest name is `exact`" in errors(caplog)


def test_flask_logs_a_misspelt_policy_with_the_first_request(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    application = Flask(__name__)
    with SyncTidegate(server.address, timeout=DEADLINE) as sync:
        application.before_request(RateLimit("qqqq", client=sync).check)
        application.get("/")(lambda: "hello")
        assert application.test_client().get("/").status_code == 200
        end = time.monotonic() + DEADLINE
        while not any("qqqq" in one for one in errors(caplog)) and time.monotonic() < end:
            time.sleep(0.01)
    said = [one for one in errors(caplog) if one.startswith("no policy")]
    assert len(said) == 1
    assert said[0].startswith("no policy is called `qqqq`: the server has `exact`, ")


@pytest.mark.anyio
async def test_a_misspelt_policy_is_logged_if_the_server_comes_later(
    start_server: StartServer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(policies, "RETRY_SECONDS", 0.05)
    path = tmp_path / "http.sock"
    async with Tidegate(socket=path, timeout=DEADLINE) as late:
        limited = RateLimitMiddleware(app, client=late, policy="plnety", key="k", skip=lambda _: True)
        async with serving(limited) as url, httpx.AsyncClient(timeout=DEADLINE) as http:
            await http.get(url)
            assert errors(caplog) == []
            start_server(f"unix:{path}")
            end = time.monotonic() + DEADLINE
            while not errors(caplog) and time.monotonic() < end:
                await http.get(url)
    assert errors(caplog) == ["no policy is called `plnety`: the nearest name is `plenty`"]


@pytest.mark.parametrize(("on_error", "status"), [("allow", 200), ("deny", 503), ("local", 200)])
def test_a_policy_that_a_reload_drops_follows_on_error_and_is_logged(
    start_server: StartServer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    on_error: OnError,
    status: int,
) -> None:
    monkeypatch.setattr(policies, "RETRY_SECONDS", 0.05)
    server = start_server()
    application = Flask(__name__)
    application.get("/")(lambda: "hello")
    http = application.test_client()
    with SyncTidegate(server.address, timeout=DEADLINE, on_error=on_error) as sync:
        application.before_request(RateLimit("plenty", client=sync, key="k").check)
        assert "x-ratelimit-limit" in http.get("/").headers
        server.reload(CONFIG.replace("plenty:", "plenty2:"))
        end = time.monotonic() + DEADLINE
        while not errors(caplog) and time.monotonic() < end:
            answer = http.get("/")
        assert errors(caplog)[0] == "no policy is called `plenty`: the nearest name is `plenty2`"
        assert (answer.status_code, http.get("/").status_code) == (status, status)


def test_the_server_is_asked_for_its_policies_now_and_then() -> None:
    now = 0.0
    seen = policies.ServerPolicies(lambda: now)

    def due_at(*times: float) -> list[bool]:
        nonlocal now
        asked = []
        for each in times:
            now = each
            asked.append(seen.is_due())
        return asked

    assert due_at(0, 1000) == [False, False]
    seen.expect(["a"])
    assert due_at(1000, 1000, 1009, 1010) == [True, False, False, True]
    seen.loaded({"a": {}})
    assert due_at(5000) == [False]
    seen.unknown("a")
    assert due_at(5000, 5001) == [True, False]
    seen.loaded({})
    seen.unknown("a")
    assert due_at(5009, 5010) == [False, True]
    seen.loaded({})
    seen.keep_fresh()
    assert due_at(6000) == [True]
    seen.loaded({})
    assert due_at(6059, 6060) == [False, True]
    for n in range(2 * policies.NAMES_MAX):
        seen.unknown(f"made-up-{n}")
    assert len(seen._names) == policies.NAMES_MAX


@pytest.mark.anyio
async def test_applications_start_without_the_server(dead_url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with Tidegate(dead_url) as dead, serving(RateLimitMiddleware(app, client=dead, policy="nope")):
        pass
    assert errors(caplog) == []
