"""Whether uv or pip installs: each reason for pip, what is done about it, and what uv is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from xpubuild.errors import UsageError
from xpubuild.install.installer import _device, _settings, installer_for
from xpubuild.install.options import PlanOptions
from xpubuild.install.request import Downloads, Installer
from xpubuild.supply.uv import cache, program, settings
from xpubuild.supply.uv.program import Program

UV, NONE = Program("/bin/uv", "1.2.3"), Program(why="no uv", remedy="mend it")


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(settings, "reason_for_pip", lambda _: "")
    monkeypatch.setattr(cache, "not_ours", lambda _: "")
    monkeypatch.setattr(program, "find_uv", lambda *_, **__: UV)


def found(tmp_path: Path, **asked: str) -> Installer:
    return installer_for(PlanOptions(None, **asked), tmp_path / "ws" / "new", Downloads())  # type: ignore[arg-type]


def test_uv_has_a_cache_beside_what_is_cached(tmp_path: Path) -> None:
    expected = Installer("/bin/uv", "1.2.3", tmp_path / "cache" / "xpubuild" / "uv", links=True)
    assert found(tmp_path) == found(tmp_path, installer="uv") == expected
    assert found(tmp_path, installer="pip") == Installer(why="--installer pip")
    other = installer_for(PlanOptions(None), Path("/proc/x"), Downloads())
    assert (other.links, other.uv) == (False, "/bin/uv")
    assert _device(tmp_path / "a" / "b") == tmp_path.stat().st_dev


def test_each_reason_for_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(tmp_path, env="conda") == Installer(why="the environment is of conda")
    with pytest.raises(UsageError):
        found(tmp_path, env="conda", installer="uv")
    for module, name, why in ((cache, "not_ours", "of somebody"), (settings, "reason_for_pip", "a setting")):
        monkeypatch.setattr(module, name, lambda _, why=why: why)
        assert found(tmp_path) == Installer(why=why)
    monkeypatch.setattr(program, "find_uv", lambda *_, **__: NONE)
    assert found(tmp_path) == Installer(why="no uv")
    with pytest.raises(UsageError):
        found(tmp_path, installer="uv")


def test_what_an_offline_build_says_of_the_cache_is_no_setting() -> None:
    environment = {"PIP_NO_CACHE_DIR": "1", "PIP_CONFIG_FILE": "/dev/null"}
    assert "no-cache-dir" in _settings(environment, Downloads())
    assert "no-cache-dir" not in _settings(environment, Downloads(pip={"PIP_NO_CACHE_DIR": "1"}))
    told = _settings({"PIP_CONFIG_FILE": "/dev/null"}, Downloads(pip={"PIP_INDEX_URL": "https://host/i"}))
    assert told["index-url"] == "https://host/i"
