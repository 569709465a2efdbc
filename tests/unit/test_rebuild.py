"""An editable install that is built again: changed files are replaced, or pip runs."""

from __future__ import annotations

import csv
import json
import zipfile
from pathlib import Path

import pytest

from xpubuild.artifacts.installed import verify_installed
from xpubuild.artifacts.record import record_hash
from xpubuild.engine.fingerprint import file_digest
from xpubuild.install.rebuild import hook, installed, replace

_INFO = "mine-1.0.dist-info"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a site-packages folder with an editable install as pip leaves it."""
    files = {
        "mine.pth": "/src\n",
        "mine.so": "1",
        "../bin/mine": "#!/usr/bin/python3\n",
        f"{_INFO}/entry_points.txt": "[console_scripts]\nmine = mine:main\n",
        "__pycache__/a.pyc": "",
        f"{_INFO}/METADATA": "Name: mine\n",
    }
    files[f"{_INFO}/INSTALLER"] = "pip\n"
    direct = {"url": "file:///src/my%20tree", "dir_info": {"editable": True}}
    files[f"{_INFO}/direct_url.json"] = json.dumps(direct)
    rows = [[f"{_INFO}/RECORD", "", ""]]
    for name, text in files.items():
        file = tmp_path / "site" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        hashed = [record_hash(file_digest(file)), str(len(text))]
        rows.append([name, *(["", ""] if name.endswith(".pyc") else hashed)])
    with (tmp_path / "site" / _INFO / "RECORD").open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)
    return tmp_path / "site"


def _wheel(site: Path, **files: str) -> Path:
    wheel = site.parent / "mine-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        own = [f"{_INFO}/{name}" for name in ("METADATA", "RECORD", "entry_points.txt")]
        for name in ("mine.pth", "mine.so", *own):
            archive.writestr(name, files.pop(name, (site / name).read_text()))
        for name, text in files.items():
            archive.writestr(name, text)
    return wheel


def test_what_is_new_is_replaced_and_recorded(site: Path) -> None:
    (site / "mine.so").chmod(0o755)
    before = (site / "mine.pth").stat().st_mtime_ns
    assert replace(_wheel(site, **{"mine.so": "2, longer"}), site / _INFO)
    assert (site / "mine.so").read_text() == "2, longer"
    assert (site / "mine.so").stat().st_mode & 0o777 == 0o755
    assert (site / "mine.pth").stat().st_mtime_ns == before
    assert verify_installed(site, ("mine",))["mine"]["problems"] == []


def test_another_file_is_left_to_pip(site: Path) -> None:
    record = (site / _INFO / "RECORD").read_text()
    assert not replace(_wheel(site, **{"mine.so": "2", "added.py": ""}), site / _INFO)
    assert (site / "mine.so").read_text() == "1"
    assert (site / _INFO / "RECORD").read_text() == record
    other_script = {f"{_INFO}/entry_points.txt": "[console_scripts]\nother = mine:main\n"}
    assert not replace(_wheel(site, **other_script), site / _INFO)


def test_an_install_of_another_tree_is_left_to_pip(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(site))
    assert installed("mine", Path("/src/my tree")) == site / _INFO
    assert installed("mine", Path("/src/other")) is None


def test_the_backend_is_the_one_that_pip_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "own_backend_of_test.py").write_text("class Inside:\n    here = True\n")
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "x"\n\n[build-system]\nrequires = []\n'
        'build-backend = "own_backend_of_test:Inside"\nbackend-path = ["hooks"]\n\n'
        '[tool.x]\nbuild-backend = "wrong"\n'
    )
    assert getattr(hook(tmp_path), "here", False)
