"""The examples of both READMEs work as written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import StartServer
from support import CHECKOUT, DEADLINE, serving

DEMO_URL = "http://127.0.0.1:8080"


def examples(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


HERE = examples(Path(__file__).parents[1] / "README.md")
PROJECT = examples(CHECKOUT / "README.md")


def run(example: str, url: str) -> dict[str, Any]:
    """Adapt an example to a test server, with a long timeout and no fallbacks."""
    assert f'Tidegate("{DEMO_URL}")' in example
    ours = f'Tidegate("{url}", timeout={DEADLINE}, on_error="raise")'
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(example.replace(f'Tidegate("{DEMO_URL}")', ours), "README.md", "exec"), names)
    return names


def test_the_readmes_have_examples() -> None:
    assert (len(HERE), len(PROJECT)) == (4, 1)


@pytest.mark.parametrize(
    ("example", "prints"),
    [
        (HERE[0], "go ahead, 19 of 20 left\n"),
        (HERE[1], "the report is being made\n"),
        *((example, "go ahead, 19 left\n") for example in PROJECT),
    ],
)
def test_scripts_run(
    start_server: StartServer, capsys: pytest.CaptureFixture[str], example: str, prints: str
) -> None:
    run(example, start_server(config=None).address)
    assert capsys.readouterr().out == prints


@pytest.mark.anyio
@pytest.mark.parametrize("example", HERE[2:])
async def test_applications_run(start_server: StartServer, example: str) -> None:
    app = run(example, start_server(config=None).address)["app"]
    async with serving(app) as url, httpx.AsyncClient(base_url=url, timeout=DEADLINE) as http:
        statuses = [(await http.get("/")).status_code for _ in range(6)]
        assert statuses == [200] * 5 + [429]
        if "/healthz" in example:
            assert (await http.get("/healthz")).status_code == 200
        else:
            answer = await http.get("/search?q=a", headers={"x-user": "ann"})
            assert answer.json() == {"q": "a", "left": 239}
