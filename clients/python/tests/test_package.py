from __future__ import annotations

import re
import tomllib
import zipfile
from pathlib import Path

import flit_core.buildapi  # type: ignore[import-untyped]
import pytest

import tidegate

ROOT = Path(__file__).parents[1]


def test_the_wheel_has_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with zipfile.ZipFile(tmp_path / flit_core.buildapi.build_wheel(str(tmp_path))) as wheel:
        packed = {name for name in wheel.namelist() if name.startswith("tidegate/")}
    source = ROOT / "src"
    files = {str(path.relative_to(source)) for path in source.rglob("*") if path.suffix in (".py", ".typed")}
    assert packed == files
    assert "tidegate/py.typed" in packed


def test_the_package_is_as_old_as_the_server() -> None:
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    cargo = (ROOT.parents[1] / "Cargo.toml").read_text()
    found = re.search(r'^version = "(.*)"', cargo, re.MULTILINE)
    assert found is not None
    assert found[1] == ours == tidegate.__version__


def test_aiohttp_is_the_only_thing_that_is_needed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [re.split("[<>=]", one)[0] for one in project["dependencies"]] == ["aiohttp"]
