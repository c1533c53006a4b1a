from __future__ import annotations

import re
import tarfile
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
        info = {Path(name).name: wheel.read(name) for name in wheel.namelist() if ".dist-info/" in name}
    source = ROOT / "src"
    files = {str(path.relative_to(source)) for path in source.rglob("*") if path.suffix in (".py", ".typed")}
    assert packed == files
    assert "tidegate/py.typed" in packed
    for licence in ("LICENSE-APACHE", "LICENSE-MIT"):
        assert info[licence] == (ROOT.parents[1] / licence).read_bytes()


def test_the_source_distribution_builds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    ours = flit_core.buildapi.build_wheel(str(tmp_path))
    with tarfile.open(tmp_path / flit_core.buildapi.build_sdist(str(tmp_path))) as source:
        source.extractall(tmp_path, filter="data")
    (tmp_path / "again").mkdir()
    monkeypatch.chdir(next(path for path in tmp_path.iterdir() if (path / "pyproject.toml").exists()))
    theirs = flit_core.buildapi.build_wheel(str(tmp_path / "again"))
    with zipfile.ZipFile(tmp_path / ours) as one, zipfile.ZipFile(tmp_path / "again" / theirs) as other:
        assert sorted(one.namelist()) == sorted(other.namelist())


def test_the_package_has_the_version_of_the_server() -> None:
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    cargo = (ROOT.parents[1] / "Cargo.toml").read_text()
    found = re.search(r'^version = "(.*)"', cargo, re.MULTILINE)
    assert found is not None
    assert found[1] == ours == tidegate.__version__


def test_aiohttp_is_the_only_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [re.split("[<>=]", one)[0] for one in project["dependencies"]] == ["aiohttp"]
