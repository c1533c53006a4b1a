"""Flask and Django under a real gunicorn with threads and several workers."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import flask_login  # type: ignore[import-untyped]
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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("'policy': 'api', 'cots': 10", "TIDEGATE: expected only url, socket, .*got `cots`"),
        ("'policy': 'api', 'timeout': '1'", "ImproperlyConfigured: TIDEGATE: timeout: expected a number"),
        ("'policy': 'api', 'url': 'localhost'", "ImproperlyConfigured: TIDEGATE: url: expected a URL like"),
        ("'policy': 'api', 'cost': -1", "ImproperlyConfigured: TIDEGATE: cost: expected a whole number"),
        (
            "'policy': 'api', 'key': 'limits.nope'",
            "key: 'limits.nope' is no path of a function .*lambda",
        ),
        ("'policy': 'api', 'key': 'os.sep'", "key: 'os.sep' is no function of the request, but '/'"),
        ("'policy': 'api', 'skip': 'healthz'", "TIDEGATE: skip: expected True, False or a function"),
    ],
)
def test_an_invalid_setting_fails_the_start(tmp_path: Path, options: str, said: str) -> None:
    starts_with(tmp_path, options, "WSGIHandler()", said)


def test_a_decorator_fails_the_start_for_an_invalid_client(tmp_path: Path) -> None:
    starts_with(tmp_path, "'timeout': '1'", "rate_limit('p')", "TIDEGATE: timeout: expected a number")


def starts_with(tmp_path: Path, options: str, start: str, said: str) -> None:
    (tmp_path / "site.py").write_text(
        "from django.conf import settings\n"
        "from django.core.handlers.wsgi import WSGIHandler\n"
        "from tidegate.django import rate_limit\n"
        "settings.configure(MIDDLEWARE=['tidegate.django.RateLimitMiddleware'],\n"
        f"                   TIDEGATE={{{options}}})\n"
        f"{start}\n"
    )
    environment = os.environ | {"PYTHONPATH": str(HERE.parent / "src")}
    ran = subprocess.run(
        [sys.executable, str(tmp_path / "site.py")], env=environment, capture_output=True, check=False
    )
    assert ran.returncode == 1
    assert re.search(said, ran.stderr.decode()), ran.stderr.decode()


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


def test_a_dotted_path_in_the_settings_is_imported(server: Server) -> None:
    if not settings.configured:
        settings.configure()
    options = {"url": server.address, "timeout": DEADLINE, "on_error": "raise", "policy": "ten"}
    with override_settings(TIDEGATE=options | {"key": "django_keys.number"}):
        middleware = RateLimitMiddleware(lambda _: HttpResponse("hello"))
        for name in ("4711", "4712"):
            middleware(RequestFactory().get(f"/{name}"))
            # The number is its text.
            assert django_client().peek("ten", name, 0).remaining == 9
            assert django_client().peek("ten", int(name), 0).remaining == 9


def test_django_warns_once_of_a_user_that_is_known_too_late(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    if not settings.configured:
        settings.configure()

    def authenticates(asked: HttpRequest) -> HttpResponse:
        asked.user = User("ann")  # type: ignore[assignment]
        return HttpResponse("hello")

    def is_late(message: str) -> bool:
        return "its user was not known yet. Put the middleware below" in message

    options = {"url": server.address, "timeout": DEADLINE, "policy": "plenty"}
    with override_settings(TIDEGATE=options):
        RateLimitMiddleware(lambda _: HttpResponse("hello"))(RequestFactory().get("/"))
        assert not any(map(is_late, caplog.messages))
        wrong = RateLimitMiddleware(authenticates)
        for _ in range(3):
            wrong(RequestFactory().get("/"))
    assert sum(map(is_late, caplog.messages)) == 1


def test_flask_warns_once_of_a_user_that_is_known_too_late(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    app = Flask(__name__)
    with SyncTidegate(server.address, timeout=DEADLINE) as client:
        app.before_request(RateLimit("plenty", client=client).check)

        @app.before_request
        def authenticate() -> None:
            g.user = User("ann") if "x-user" in request.headers else None

        app.get("/")(lambda: "hello")
        http = app.test_client()
        http.get("/")
        assert caplog.messages == []
        for _ in range(3):
            http.get("/", headers={"x-user": "ann"})
    late = [one for one in caplog.messages if "Register `check` after the function" in one]
    assert len(late) == 1


def test_flask_counts_by_the_user_of_flask_login(server: Server, key: str) -> None:
    app = Flask(__name__)
    login = flask_login.LoginManager(app)

    class Account:
        is_authenticated = True

        def get_id(self) -> str:
            return key

    @login.request_loader  # type: ignore[untyped-decorator]
    def load(asked: Request) -> Account | None:
        return Account() if "x-user" in asked.headers else None

    with SyncTidegate(server.address, timeout=DEADLINE, on_error="raise") as client:
        app.before_request(RateLimit("ten", client=client, cost=3).check)
        app.get("/")(lambda: "hello")
        http = app.test_client()
        http.get("/", environ_base={"REMOTE_ADDR": "203.0.113.50"}, headers={"x-user": "1"})
        assert client.peek("ten", key, 0).remaining == 7
        assert client.peek("ten", "203.0.113.50", 0).remaining == 10
        http.get("/", environ_base={"REMOTE_ADDR": "203.0.113.50"})
        assert client.peek("ten", "203.0.113.50", 0).remaining == 7


def test_django_counts_by_user_then_by_address(server: Server, key: str) -> None:
    if not settings.configured:
        settings.configure()
    options = {"url": server.address, "timeout": DEADLINE, "on_error": "raise", "policy": "few"}
    requests = RequestFactory()
    with override_settings(TIDEGATE=options):
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


def test_django_names_what_is_missing_or_async() -> None:
    if not settings.configured:
        settings.configure()
    with override_settings(TIDEGATE={}), pytest.raises(ImproperlyConfigured, match="`policy` is missing"):
        RateLimitMiddleware(lambda _: HttpResponse("hello"))

    async def view(_: HttpRequest) -> HttpResponse:
        return HttpResponse("hello")

    with pytest.raises(TypeError, match=r"view: for async views, use tidegate\.asgi"):
        rate_limit("few")(view)  # type: ignore[arg-type]
