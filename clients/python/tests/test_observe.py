"""The latency of responses, reported by the middleware, moves an adaptive limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from conftest import StartServer
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory, override_settings
from flask import Flask, Response
from support import DEADLINE, Server, serving

from tidegate import SyncTidegate, Tidegate, TidegateError
from tidegate.asgi import RateLimitMiddleware, Receive, Scope, Send
from tidegate.django import RateLimitMiddleware as DjangoMiddleware
from tidegate.django import client as django_client
from tidegate.flask import RateLimit
from tidegate.observations import SAMPLE_MAX, SINGLES_MAX, Observations
from tidegate.policies import ServerPolicies

ADAPTIVE = """
drain: 0s
policies:
  api: { limit: 1000/s, adaptive: { source: { latency: db } } }
  three: { algorithm: sliding-log, limit: 3/day }
"""


async def read(server: Server, path: str) -> Any:  # noqa: ANN401
    async with httpx.AsyncClient(timeout=DEADLINE) as http:
        return (await http.get(f"{server.address}{path}")).json()


async def target(server: Server) -> dict[str, Any]:
    found: dict[str, Any] = (await read(server, "/v1/pressure"))["targets"].get(
        "db", {"count": 0, "errors": 0}
    )
    return found


async def effective(server: Server) -> int:
    found: int = (await read(server, "/v1/policies"))["api"]["effective"]
    return found


async def until(what: str, probe: Callable[[], Awaitable[bool]]) -> None:
    end = time.monotonic() + 5 * DEADLINE
    while not await probe():
        assert time.monotonic() < end, f"waited in vain for {what}"
        await asyncio.sleep(0.05)


class App:
    """Answers after a delay, with a status, or not at all."""

    delay = 0.0
    status = 200

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return
        await asyncio.sleep(self.delay)
        if self.status == 0:
            raise RuntimeError("on purpose")
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": b"hello"})


@asynccontextmanager
async def observed(
    server: Server, app: App, policy: str = "api", on: str | None = "db"
) -> AsyncIterator[httpx.AsyncClient]:
    async with Tidegate(server.address, timeout=DEADLINE, on_error="raise") as client:
        middleware = RateLimitMiddleware(app, client=client, policy=policy, key="k", observe=on)
        async with serving(middleware) as url, httpx.AsyncClient(base_url=url, timeout=DEADLINE) as http:
            yield http


@pytest.mark.anyio
async def test_slow_responses_make_a_limit_fall_and_fast_ones_raise_it_again(
    start_server: StartServer,
) -> None:
    server, app = start_server(config=ADAPTIVE), App()
    is_on = True

    async def load() -> None:
        while is_on:
            await http.get("/")
            await asyncio.sleep(0.02)

    async with observed(server, app) as http:
        loads = [asyncio.ensure_future(load()) for _ in range(4)]

        async def has_fallen() -> bool:
            return await effective(server) < 300

        async def has_risen() -> bool:
            return await effective(server) > 600

        try:
            await until("the usual latency to be known", lambda: has_counted(server, 200))
            await until("the limit to be whole", has_risen)
            app.delay = 0.5
            await until("the limit to fall", has_fallen)
            app.delay = 0.0
            await until("the limit to rise", has_risen)
        finally:
            is_on = False
            await asyncio.gather(*loads)


@pytest.mark.anyio
async def test_failures_are_reported_as_such_and_refusals_not_at_all(start_server: StartServer) -> None:
    server, app = start_server(config=ADAPTIVE), App()
    async with observed(server, app, on=None) as http:
        await http.get("/")
    async with observed(server, app, "three") as http:
        statuses = []
        for app.status in (404, 503, 0, 200):
            statuses.append((await http.get("/")).status_code)
        assert statuses == [404, 503, 500, 429]

        await until("the reports", lambda: has_counted(server, 3))
    found = await target(server)
    assert (found["count"], found["errors"]) == (3, 2)


@pytest.mark.anyio
async def test_a_caller_that_leaves_counts_with_the_time_it_has_waited(start_server: StartServer) -> None:
    server, app = start_server(config=ADAPTIVE), App()
    app.delay = DEADLINE

    async def nothing(*_: object) -> Any:  # noqa: ANN401
        raise AssertionError

    async with Tidegate(server.address, timeout=DEADLINE, on_error="raise") as client:
        middleware = RateLimitMiddleware(app, client=client, policy="api", key="k", observe="db")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await middleware({"type": "http", "method": "GET"}, nothing, nothing)
        await until("the report", lambda: has_counted(server, 1))
    assert (await target(server))["errors"] == 0


async def has_counted(server: Server, count: int) -> bool:
    return int((await target(server))["count"]) >= count


@pytest.mark.anyio
@pytest.mark.parametrize("framework", ["Flask", "Django"])
async def test_synchronous_frameworks_report_too(start_server: StartServer, framework: str) -> None:
    server = start_server(config=ADAPTIVE)
    await asyncio.to_thread(ASK[framework], server)

    await until("the reports", lambda: has_counted(server, 3))
    found = await target(server)
    assert (found["count"], found["errors"]) == (3, 1)


def ask_flask(server: Server) -> None:
    app = Flask(__name__)
    app.get("/<int:status>")(lambda status: Response("hello", status))
    with SyncTidegate(server.address, timeout=DEADLINE, on_error="raise") as client:
        app.before_request(RateLimit("three", client=client, key="k", observe="db").check)
        answers = [app.test_client().get(f"/{status}").status_code for status in (200, 404, 503, 200)]
        assert answers == [200, 404, 503, 429]
        wait_for_reports(client)


def ask_django(server: Server) -> None:
    if not settings.configured:
        settings.configure()

    def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse("hello", status=int(request.path.strip("/")))

    options = {"url": server.address, "timeout": DEADLINE, "policy": "three", "key": "k", "observe": "db"}
    with override_settings(TIDEGATE=options):
        middleware = DjangoMiddleware(view)
        answers = [middleware(RequestFactory().get(f"/{one}")).status_code for one in (200, 404, 503, 200)]
        assert answers == [200, 404, 503, 429]
        wait_for_reports(django_client())


def wait_for_reports(client: SyncTidegate) -> None:
    end = time.monotonic() + DEADLINE
    while client._observations._is_reporting and time.monotonic() < end:
        time.sleep(0.01)


ASK = {"Flask": ask_flask, "Django": ask_django}


def test_a_flood_of_observations_is_sampled() -> None:
    observations = Observations()
    begun = [observations.add("db", float(n), n % 10 != 0) for n in range(50_000)]
    assert begun == [True] + [False] * 49_999
    sample = observations.take()
    assert len(sample) == SAMPLE_MAX
    # A tenth failed, of the sample, too.
    assert 50 <= sum(not one.ok for one in sample) <= 200
    assert len(observations.calls(sample)) == 1
    assert observations.take() == []
    assert observations.add("db", 1.0, True)


def test_a_server_without_batches_gets_a_few_reports_one_by_one() -> None:
    observations = Observations()
    for _ in range(SAMPLE_MAX):
        observations.add("db", 1.0, True)
    sample = observations.take()
    assert not observations.failed(TidegateError("no answer"))
    assert [call.path for call in observations.calls(sample)] == ["/v1/observe/batch"]
    missing = TidegateError("no such route", 404, "urn:tidegate:unknown-path")
    assert observations.failed(missing)
    assert [call.path for call in observations.calls(sample)] == ["/v1/observe"] * SINGLES_MAX
    assert not observations.failed(missing)


@pytest.mark.anyio
async def test_a_server_that_is_away_disturbs_no_response(
    dead_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = App()
    async with Tidegate(dead_url, timeout=DEADLINE) as client:
        middleware = RateLimitMiddleware(app, client=client, policy="api", key="k", observe="db")
        async with serving(middleware) as url, httpx.AsyncClient(base_url=url, timeout=DEADLINE) as http:
            assert [(await http.get("/")).status_code for _ in range(20)] == [200] * 20

            async def has_reported() -> bool:
                return not client._observations._is_reporting

            await until("the reports to be dropped", has_reported)
    assert [one.split(":")[0] for one in caplog.messages] == ["answered without the server (allow)"]


SAID = "no limit follows `observe='dbb'`: the nearest name is `db`. Its reports change nothing"


@pytest.mark.anyio
async def test_a_target_that_no_limit_follows_is_logged_once_with_the_nearest(
    start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_server(config=ADAPTIVE)

    async def is_told() -> bool:
        return bool(caplog.messages)

    async with observed(server, App(), on="dbb") as http, observed(server, App(), on="db") as other:
        for _ in range(3):
            await http.get("/")
            await other.get("/")
        await until("the warning", is_told)
    assert caplog.messages == [SAID]
    caplog.clear()
    with SyncTidegate(server.address, timeout=DEADLINE) as client:
        client.observe_later("dbb", 1.0)
        client.observe_later("db", 1.0)
        await until("the warning", is_told)
    assert caplog.messages == [SAID]


@pytest.mark.parametrize(("targets", "told"), [(["db"], [SAID]), (["all"], []), (None, []), ("db", [])])
def test_a_target_is_not_logged_if_a_limit_follows_all_or_the_server_tells_none(
    caplog: pytest.LogCaptureFixture, targets: object, told: list[str]
) -> None:
    policies = ServerPolicies()
    policies.expect_target("dbb")
    limit = {"algorithm": "gcra", "limit": 5, "period_us": 1_000_000, "targets": targets}
    for _ in range(2):
        policies.loaded({"api": {"mode": "all", "members": [limit]}})
        policies.expect_target("dbb")
    assert caplog.messages == told
