"""Where distributions, their files and their interpreters are: looked up by files alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.artifacts import install_by_hand, pack, record_text

from xpubuild.artifacts.installed import installed_stamp
from xpubuild.artifacts.site_packages import (
    declared,
    installed_dists,
    is_environment,
    prefix_of,
    runtime_folder,
    site_packages_of,
)
from xpubuild.artifacts.wheel import read_wheel, record_of
from xpubuild.errors import XpuBuildError


def refuses(action: Callable[[], object], said: str) -> None:
    with pytest.raises(XpuBuildError, match=said):
        action()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "env" / "lib" / "python3.12" / "site-packages"
    folder.mkdir(parents=True)
    (tmp_path / "env" / "pyvenv.cfg").write_text("version = 3.12\n")
    return folder


def test_environments_and_what_is_none(tmp_path: Path, site: Path) -> None:
    env = tmp_path / "env"
    assert (is_environment(env), is_environment(tmp_path)) == (True, False)
    assert (prefix_of(site), prefix_of(tmp_path / "a")) == (env, tmp_path / "a")
    (env / "lib" / "python3.1").symlink_to("python3.12")
    assert site_packages_of(env) == site == runtime_folder(env)
    (env / "pyvenv.cfg").unlink()
    refuses(lambda: site_packages_of(env), "is not a complete Python environment")
    refuses(lambda: runtime_folder(env), "is neither a Python environment nor")
    assert prefix_of(site) == site
    (env / "conda-meta").mkdir()
    assert is_environment(env)
    site.rmdir()
    refuses(lambda: site_packages_of(env), "is not a complete Python environment")
    target = tmp_path / "target"
    refuses(lambda: runtime_folder(target), "is neither a Python environment nor")
    install_by_hand(target, "demo", "1.0", {})
    assert runtime_folder(target) == target


def test_requirements_are_read_without_extras_and_by_the_markers_given(site: Path) -> None:
    info = install_by_hand(site, "demo", "1.0", {})
    (info / "METADATA").write_text(
        "Name: demo\nRequires-Dist: a>=1\nRequires-Dist: not valid >\nRequires-Dist: b; extra == 'x'\n"
        "Requires-Dist: c; python_version < '3.0'\nRequires-Dist: d; platform_machine == 'abacus'\n\n"
    )
    (dist,) = installed_dists(site)
    assert [item.name for item in declared(dist)] == ["a"]
    given = {"python_version": "2.7", "platform_machine": "abacus"}
    assert [item.name for item in declared(dist, given)] == ["a", "c", "d"]
    (info / "METADATA").unlink()
    assert declared(dist) == []


def test_a_stamp_changes_with_every_file_but_compiled_ones(site: Path) -> None:
    info = install_by_hand(site, "demo", "1.0", {"demo/a.py": b"1", "demo/b.pyc": b"2"})
    install_by_hand(site, "other", "1.0", {"other.py": b"1"})
    stamp = installed_stamp(site, ["Demo"])
    assert installed_stamp(site, ["demo"]) == stamp != installed_stamp(site, ["demo", "other"])
    assert stamp < 1 << 56
    (site / "demo/b.pyc").unlink()
    assert installed_stamp(site, ["demo"]) == stamp
    seen = {stamp}
    for change in (
        lambda: os.utime(site / "demo/a.py", (1, 1)), lambda: (site / "demo/a.py").write_bytes(b"22"),
        lambda: os.link(site / "demo/a.py", site / "twin"), (site / "demo/a.py").unlink,
        lambda: (info / "RECORD").write_text("one,two\n"), (info / "RECORD").unlink,
    ):  # fmt: skip
        change()
        seen.add(installed_stamp(site, ["demo"]))
    assert len(seen) == 6, "a RECORD that cannot be read and none are alike"


def test_a_file_with_several_names_keeps_its_stamp(site: Path) -> None:
    install_by_hand(site, "demo", "1.0", {"demo/a.py": b"1"})
    os.link(site / "demo/a.py", site / "one")
    stamp = installed_stamp(site, ["demo"])
    os.link(site / "demo/a.py", site / "two")
    assert installed_stamp(site, ["demo"]) == stamp


def test_wheels_that_would_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = pack(tmp_path, "demo", "1.0", {"a": bytes(100_000)})
    monkeypatch.setattr("xpubuild.artifacts.wheel._HARMLESS_BYTES", 100_000)
    assert [item.kind for item in read_wheel(wheel).problems] == ["bomb", "metadata"]
    refuses(lambda: record_of(wheel), "is not a readable wheel")
    monkeypatch.setattr("xpubuild.artifacts.wheel._HARMLESS_BYTES", 200_000)
    assert read_wheel(wheel).problems == ()
    monkeypatch.setattr("xpubuild.artifacts.wheel._MOST_MEMBERS", 3)
    assert read_wheel(wheel).problems[0].message == "it has 4 files"
    monkeypatch.setattr("xpubuild.artifacts.wheel._MOST_MEMBERS", 4)
    assert read_wheel(wheel).problems == ()
    assert set(record_of(wheel)) == {
        "a",
        *(f"demo-1.0.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD")),
    }
    twice = pack(tmp_path, "demo", "1.0", {}, record=[("a", "", ""), ("a", "", "")])
    refuses(lambda: record_of(twice), "is not a readable wheel")
    assert record_text([("a", "b", "1")]) == "a,b,1\n"
