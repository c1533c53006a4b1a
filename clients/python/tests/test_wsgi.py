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
from support import DEADLINE, Server, gunicorn

HERE = Path(__file__).parent


async def statuses(url: str, count: int) -> Counter[int]:
    limits = httpx.Limits(max_connections=count)
    async with httpx.AsyncClient(timeout=2 * DEADLINE, limits=limits) as http:
        answers = await asyncio.gather(*(http.get(url) for _ in range(count)))
    return Counter(answer.status_code for answer in answers)


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["", "/view"])
@pytest.mark.parametrize("preload", [True, False])
@pytest.mark.parametrize("app", ["flask_app", "django_app"])
async def test_of_600_concurrent_requests_exactly_500_pass_and_none_fails(
    server: Server, tmp_path: Path, key: str, app: str, preload: bool, path: str
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
