"""Flask and Django under a real gunicorn with threads and several workers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import httpx
import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.test import RequestFactory, override_settings
from flask import Flask, Request, g, request
from support import DEADLINE, Server, gunicorn

from tidegate import SyncTidegate
from tidegate.django import RateLimitMiddleware, rate_limit
from tidegate.django import client as django_client
from tidegate.flask import RateLimit

HERE = Path(__file__).parent


async def statuses(url: str, count: int) -> Counter[int]:
    limits = httpx.Limits(max_connections=count)
    async with httpx.AsyncClient(timeout=2 * DEADLINE, limits=limits) as http:
        answers = await asyncio.gather(*(http.get(url) for _ in range(count)))
    return Counter(answer.status_code for answer in answers)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("app", "path", "preload"),
    [
        ("flask_app", "", True),
        ("flask_app", "/view", False),
        ("django_app", "", False),
        ("django_app", "/view", True),
    ],
)
async def test_of_600_concurrent_requests_exactly_500_pass_and_none_fails(
    server: Server, tmp_path: Path, key: str, app: str, path: str, preload: bool
) -> None:
    environment = {"TIDEGATE_URL": server.address, "TIDEGATE_KEY": key}
    options = ["--preload"] if preload else []
    if preload:
        environment["TIDEGATE_CONNECT_BEFORE_FORK"] = "1"
    log = tmp_path / "gunicorn"
    with gunicorn(HERE, f"wsgi_apps:{app}", log, environment, *options) as url:
        counts = await statuses(url + path, 600)
    assert counts == {200: 500, 429: 100}, log.read_text()


def test_a_misspelt_setting_fails_the_start(tmp_path: Path) -> None:
    (tmp_path / "site.py").write_text(
        "from django.conf import settings\n"
        "from django.core.handlers.wsgi import WSGIHandler\n"
        "settings.configure(MIDDLEWARE=['tidegate.django.RateLimitMiddleware'],\n"
        "                   TIDEGATE={'policy': 'api', 'cots': 10})\n"
        "WSGIHandler()\n"
    )
    environment = os.environ | {"PYTHONPATH": str(HERE.parent / "src")}
    ran = subprocess.run(
        [sys.executable, str(tmp_path / "site.py")], env=environment, capture_output=True, check=False
    )
    assert ran.returncode == 1
    assert b"TIDEGATE: expected only url, socket, " in ran.stderr
    assert b"got `cots`" in ran.stderr


class User:
    def __init__(self, name: str) -> None:
        self.id = name


def test_flask_counts_by_user_then_by_address(server: Server, key: str) -> None:
    app = Flask(__name__)
    with SyncTidegate(server.address, timeout=DEADLINE, on_error="raise") as client:

        @app.before_request
        def authenticate() -> None:
            g.user = User(request.headers["x-user"]) if "x-user" in request.headers else None

        app.before_request(RateLimit("ten", client=client, cost=lambda it: int(it.args["cost"])).check)
        app.get("/")(lambda: "hello")
        http = app.test_client()
        answer = http.get("/?cost=3", headers={"x-user": key})
        assert (answer.status_code, answer.headers["x-ratelimit-remaining"]) == (200, "7")
        assert http.get("/?cost=8", headers={"x-user": key}).status_code == 429
        http.get("/?cost=4", environ_base={"REMOTE_ADDR": "2001:db8::7"})
        assert client.peek("ten", "2001:db8::/64", 0).remaining == 6


def test_flask_rejects_async_functions(server: Server) -> None:
    async def later(_: Request) -> str:
        return "key"

    app = Flask(__name__)
    with SyncTidegate(server.address, timeout=DEADLINE) as client:
        limit = RateLimit("ten", client=client, key=later)  # type: ignore[arg-type]
        with app.test_request_context("/"), pytest.raises(TypeError, match="key: an async function needs"):
            limit.check()


def test_django_counts_by_user_then_by_address(server: Server, key: str) -> None:
    if not settings.configured:
        settings.configure()
    options = {"url": server.address, "timeout": DEADLINE, "on_error": "raise", "policy": "few"}
    requests = RequestFactory()
    with override_settings(TIDEGATE=options):
        django_client.cache_clear()
        middleware = RateLimitMiddleware(lambda _: HttpResponse("hello"))

        def ask(user: User | None, **meta: str) -> HttpResponseBase:
            asked = requests.get("/", **meta)  # type: ignore[arg-type]
            asked.user = user  # type: ignore[assignment]
            return middleware(asked)

        answers = [ask(User(key)) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert [answer.headers["x-ratelimit-remaining"] for answer in answers] == ["2", "1", "0", "0"]
        ask(None, REMOTE_ADDR="203.0.113.99")
        assert django_client().peek("few", "203.0.113.99", 0).remaining == 2
        preflight = requests.options(
            "/", HTTP_ORIGIN="https://page.example", HTTP_ACCESS_CONTROL_REQUEST_METHOD="GET"
        )
        assert "x-ratelimit-limit" not in middleware(preflight).headers
        django_client().close()
        django_client.cache_clear()


def test_django_names_what_is_missing_or_async() -> None:
    if not settings.configured:
        settings.configure()
    with override_settings(TIDEGATE={}), pytest.raises(ImproperlyConfigured, match="`policy` is missing"):
        RateLimitMiddleware(lambda _: HttpResponse("hello"))

    async def view(_: HttpRequest) -> HttpResponse:
        return HttpResponse("hello")

    with pytest.raises(TypeError, match=r"view: for async views, use tidegate\.asgi"):
        rate_limit("few")(view)  # type: ignore[arg-type]
