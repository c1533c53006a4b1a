"""The examples of both READMEs work as written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import StartServer
from support import CHECKOUT, DEADLINE, gunicorn, serving

DEMO_URL = "http://127.0.0.1:8080"


def examples(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


HERE = examples(Path(__file__).parents[1] / "README.md")
PROJECT = examples(CHECKOUT / "README.md")


def adapted(example: str, url: str) -> str:
    """An example for a test server, with a long timeout and no fallbacks."""
    assert example.count(f'"{DEMO_URL}"') == 1
    option = re.search(rf'"url": "{DEMO_URL}"', example)
    if option is not None:
        return example.replace(option[0], f'"url": "{url}", "timeout": {DEADLINE}, "on_error": "raise"')
    return example.replace(f'"{DEMO_URL}"', f'"{url}", timeout={DEADLINE}, on_error="raise"')


def run(example: str, url: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(adapted(example, url), "README.md", "exec"), names)
    return names


def test_the_readmes_have_examples() -> None:
    assert (len(HERE), len(PROJECT)) == (7, 1)


def test_the_first_example_is_short() -> None:
    assert len(HERE[0].splitlines()) < 20


@pytest.mark.parametrize(
    ("example", "prints"),
    [
        (HERE[0], "go ahead, 19 of 20 left\n"),
        (HERE[1], "go ahead, 19 of 20 left\n"),
        (HERE[2], "the report is being made\n"),
        *((example, "go ahead, 19 left\n") for example in PROJECT),
    ],
)
def test_scripts_run(
    start_server: StartServer, capsys: pytest.CaptureFixture[str], example: str, prints: str
) -> None:
    run(example, start_server(config=None).address)
    assert capsys.readouterr().out == prints


@pytest.mark.anyio
@pytest.mark.parametrize("example", HERE[3:5])
async def test_asgi_applications_run(start_server: StartServer, example: str) -> None:
    app = run(example, start_server(config=None).address)["app"]
    headers = {"origin": "https://app.example.com"}
    async with serving(app) as url, httpx.AsyncClient(base_url=url, timeout=DEADLINE) as http:
        answers = [await http.get("/", headers=headers) for _ in range(6)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [429]
        if "/healthz" in example:
            assert (await http.get("/healthz")).status_code == 200
            assert answers[5].headers["access-control-allow-origin"] == "https://app.example.com"
        else:
            for user, left in (("ann", 239), ("ann", 238), ("ben", 239)):
                answer = await http.get("/search?q=a", headers={"x-user": user})
                assert answer.json() == {"q": "a", "left": left}


@pytest.mark.parametrize("example", HERE[5:])
def test_wsgi_applications_run_under_gunicorn(
    start_server: StartServer, tmp_path: Path, example: str
) -> None:
    (tmp_path / "app.py").write_text(adapted(example, start_server(config=None).address))
    log = tmp_path / "gunicorn"
    with gunicorn(tmp_path, "app:app", log, {}) as url, httpx.Client(base_url=url, timeout=DEADLINE) as http:
        answers = [http.get("/") for _ in range(6)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429], log.read_text()
    # The limit of the view, not that of all requests.
    assert {answer.headers["x-ratelimit-limit"] for answer in answers} == {"5"}
