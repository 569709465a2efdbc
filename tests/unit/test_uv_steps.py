"""How uv is called, step by step, and what is told where it fails or cannot be trusted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.artifacts import install_by_hand
from support.said import Program, program

from xpubuild.artifacts.doubt import Note, read_note, write_note
from xpubuild.artifacts.site_packages import installed_dists
from xpubuild.engine.process import Cancel
from xpubuild.errors import XpuBuildError
from xpubuild.supply.uv import cache as caching
from xpubuild.supply.uv.cache import make_cache, not_ours, wheel_of
from xpubuild.supply.uv.install import Installation, Work, _local, _require_fit, _requirements, install

HASH = "1" * 64
ENV = {
    "PATH": os.defpath, "PIP_CONFIG_FILE": os.devnull, "HOME": "/nowhere",
    "PIP_INDEX_URL": "https://me:word@one.example/s",
}  # fmt: skip
FILES = {"demo/__init__.py": b"x = 1\n"}


def refuses(action: Callable[[], object]) -> None:
    with pytest.raises(XpuBuildError):
        action()


@pytest.fixture
def env(tmp_path: Path) -> Path:
    folder = tmp_path / "my env"
    (folder / "lib" / "python3.12" / "site-packages").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("version = 3.12\n")
    return folder


def site(env: Path) -> Path:
    return env / "lib" / "python3.12" / "site-packages"


class Run:
    """An installation with a uv that notes its calls."""

    def __init__(self, env: Path, says: str = "", **more: Any) -> None:
        self.said: list[str] = []
        self.uv: Program = program(env.parent / "bin", "uv", says)
        self.requirements = env.parent / "r.txt"
        self.requirements.write_text(
            f"demo==1.0 --hash=sha256:{HASH}\nold==1 ; python_version < '3' --hash=sha256:{HASH}\n"
        )
        self.wish = Installation(
            env,
            self.requirements,
            self.uv.path,
            env.parent / "cache",
            env.parent / "report.json",
            "3.12.1",
            **more,
        )

    def install(self, environment: Mapping[str, str] = ENV) -> None:
        install(self.wish, environment, Cancel(), self.said.append)

    def work(self) -> Work:
        return Work(self.wish, ENV, Cancel(), self.said.append)


def test_its_cache_is_asked_first_and_the_recipes_indexes_last(env: Path) -> None:
    run = Run(env, "echo 'https://me:word@one.example/s is bad'; echo; echo 'error: no word' >&2; exit 1",
              indexes=("https://two.example/w",))  # fmt: skip
    write_note(site(env), Note(doubtful=frozenset({"x"})))
    (env / ".lock").write_text("")
    refuses(run.install)
    calls = run.uv.calls()
    common = [
        "pip", "install", "--python", f"{env}/bin/python", "--cache-dir", str(run.wish.cache), "--no-config",
        "--require-hashes", "--no-deps", "--only-binary", ":all:", "--link-mode", "clone",
        "--no-python-downloads", "--no-progress", "--color", "never", "--index-strategy", "unsafe-best-match",
    ]  # fmt: skip
    end = ["--requirements", str(run.requirements)]
    assert [call["argv"] for call in calls] == [
        [*common, "--offline", *end], [*common, "--offline", *end], [*common, *end], [*common, *end],
    ]  # fmt: skip
    assert [call["env"].get("UV_INDEX") for call in calls] == [None, "https://two.example/w"] * 2
    patience = [
        (call["env"].get("UV_HTTP_TIMEOUT"), call["env"].get("UV_HTTP_RETRIES")) for call in calls[:2]
    ]
    assert patience == [(None, None), ("15", "1")]
    assert {call["cwd"] for call in calls} == {str(env)}
    assert not [line for line in run.said if "word@" in line]
    assert len(run.said) == 4, "what is only tried with the cache says nothing"
    assert not (env / ".lock").exists()
    assert read_note(site(env)) == Note(doubtful=frozenset({"x"}))
    assert not run.wish.report.exists()


def test_one_that_says_nothing_and_one_that_is_stopped(env: Path) -> None:
    refuses(Run(env, "exit 1").install)
    refuses(Run(env, "echo only this; exit 1").install)
    run, cancel = Run(env, "exit 1"), Cancel()
    cancel.set("asked for")
    refuses(lambda: install(run.wish, ENV, cancel, run.said.append))


def unpacked(cache: Path, name: str = "demo", data: bytes = b"") -> Path:
    """Put a wheel into a cache as uv does."""
    pointer = cache / "wheels-v6" / "pypi" / name / "1.0-py3-none-any.http"
    folder = pointer.with_suffix("")
    install_by_hand(folder, name, "1.0", {**FILES, f"{name}-1.0.data/scripts/x": b"#!python"})
    pointer.write_bytes(
        data or b"\x01" + HASH.encode() + b" https://me:word@one.example/demo-1.0-py3-none-any.whl\x02"
    )
    return pointer


def test_a_report_has_what_was_installed(env: Path) -> None:
    run = Run(env, "echo linked")
    unpacked(run.wish.cache)
    install_by_hand(site(env), "demo", "1.0", FILES)
    write_note(site(env), Note(doubtful=frozenset({"demo", "other"})))
    (site(env) / "demo-1.0.dist-info" / "METADATA").write_text("Name: demo\n")
    run.install()
    assert json.loads(run.wish.report.read_text()) == {"version": "1", "installer": "uv", "install": []}
    assert run.said == ["linked"]
    item = run.work()._item("demo")  # type: ignore[arg-type]
    assert item == {
        "download_info": {
            "url": "https://one.example/demo-1.0-py3-none-any.whl",
            "archive_info": {"hash": f"sha256={HASH}", "hashes": {"sha256": HASH}},
        },
        "is_direct": False, "requested": True, "metadata": {"name": "demo", "version": "1.0"},
    }  # fmt: skip
    assert read_note(site(env)) == Note(doubtful=frozenset({"demo", "other"}))
    work = run.work()
    work._pins["gone"] = work._pins["demo"]  # type: ignore[index]
    refuses(lambda: work._item("gone"))  # type: ignore[arg-type]


def test_a_file_that_lacks_a_dependency_is_refused(env: Path) -> None:
    run = Run(env)
    info = install_by_hand(site(env), "demo", "1.0", FILES)
    info.joinpath("METADATA").write_text(
        "Name: demo\nRequires-Dist: more>=2\nRequires-Dist: x; python_version<'3'\n"
    )
    refuses(run.work()._require_whole)
    install_by_hand(site(env), "more", "1.0", {})
    refuses(run.work()._require_whole)
    (site(env) / "more-1.0.dist-info").rename(site(env) / "more-2.0.dist-info")
    run.work()._require_whole()


def test_what_is_damaged_again_is_fetched_again(env: Path) -> None:
    run = Run(env, '[ "$1" != cache ] || echo cleaned')
    install_by_hand(site(env), "demo", "1.0", FILES)
    work = run.work()
    assert not work._is_damaged("demo")
    work._settle(["demo"])
    assert run.uv.calls() == []
    (site(env) / "demo" / "__init__.py").write_bytes(b"x = 2\n")
    assert work._is_damaged("demo")
    assert work._is_damaged("gone")
    (site(env) / "demo-1.0.dist-info" / "INSTALLER").write_bytes(b"uv\n")
    work._settle(["demo", "gone"])
    assert run.said[:2] == ["damaged in the cache of uv too, and fetched again: demo, gone", "cleaned"]
    calls = run.uv.calls()
    assert calls[0]["argv"] == [
        "cache",
        "clean",
        "--cache-dir",
        str(run.wish.cache),
        "--no-config",
        "demo",
        "gone",
    ]
    assert calls[0]["cwd"] == str(env)
    assert calls[1]["argv"][:2] == ["pip", "install"]
    assert installed_dists(site(env)) == []
    failing = Run(env, "echo cannot; exit 1")
    refuses(lambda: failing.work()._settle(["gone"]))


def test_a_cache_of_others_is_not_used(env: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(env)
    assert not_ours(run.wish.cache) == ""
    make_cache(run.wish.cache)
    assert run.wish.cache.stat().st_mode & 0o777 == 0o700
    make_cache(run.wish.cache)
    assert not_ours(run.wish.cache) == ""
    for mode in (0o720, 0o702):
        run.wish.cache.chmod(mode)
        assert not_ours(run.wish.cache) == f"others can write to {run.wish.cache}"
    refuses(run.install)
    run.wish.cache.chmod(0o755)
    assert not_ours(run.wish.cache) == ""
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    assert not_ours(run.wish.cache) == f"{run.wish.cache} is of another user"
    assert run.uv.calls() == []


def test_the_wheel_of_a_distribution(env: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    install_by_hand(site(env), "demo", "1.0", FILES)
    (dist,) = installed_dists(site(env))
    assert wheel_of(cache, dist, [HASH]) is None
    pointer = unpacked(cache)
    allowed = ["2" * 64, HASH]
    found = wheel_of(cache, dist, allowed)
    assert found is not None
    assert vars(found) == {
        "sha256": HASH, "name": "demo-1.0-py3-none-any.whl",
        "url": "https://one.example/demo-1.0-py3-none-any.whl",
    }  # fmt: skip
    assert wheel_of(cache, dist, ["2" * 64]) is None
    pointer.write_bytes(HASH.encode() + b"\x00local-1.0.whl\x00")
    found = wheel_of(cache, dist, allowed)
    assert found is not None
    assert (found.name, found.url) == ("local-1.0.whl", "")
    pointer.write_bytes(HASH.encode())
    found = wheel_of(cache, dist, allowed)
    assert found is not None
    assert (found.name, found.url) == ("", "")
    pointer.write_bytes(HASH.encode() + bytes(caching._MOST_BYTES - 64))
    assert wheel_of(cache, dist, allowed) is None
    pointer.write_bytes(HASH.encode() + bytes(caching._MOST_BYTES - 65))
    assert wheel_of(cache, dist, allowed) is not None
    for suffix, taken in ((".rev", True), (".other", False)):
        renamed = pointer.rename(pointer.with_suffix(suffix))
        assert (wheel_of(cache, dist, allowed) is not None) == taken
        pointer = renamed
    pointer = pointer.rename(pointer.with_suffix(".http"))
    record = pointer.with_suffix("") / "demo-1.0.dist-info" / "RECORD"
    whole = record.read_text()
    record.write_text(whole + "demo/more.py,sha256=x,1\n")
    assert wheel_of(cache, dist, allowed) is None
    record.write_text("one,two\n")
    assert wheel_of(cache, dist, allowed) is None
    record.parent.rename(record.parent.with_name("other-1.0.dist-info"))
    assert wheel_of(cache, dist, allowed) is None


def test_constraints_are_held_against_the_pins(env: Path, tmp_path: Path) -> None:
    file = tmp_path / "c.txt"
    pins = Run(env).work()._pins.values()
    file.write_text("# a comment\nDemo<2  # fits\n\nother==9\n")
    _require_fit(pins, [file])
    for text in ("demo<1", "not valid >"):
        file.write_text(f"x\n{text}\n")
        refuses(lambda: _require_fit(pins, [file]))
    file.write_text("a\n#b\nc # d\n")
    assert [item.name for item in _requirements(file)] == ["a", "c"]


def test_files_of_this_machine_by_their_url(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("links", "index/demo")]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "x.whl").write_text("")
    settings = {"index-url": str(tmp_path / "index"), "extra-index-url": "https://x",
                "find-links": f"{folders[0]} https://y"}  # fmt: skip
    assert list(_local("demo", "x.whl", settings)) == [(folder / "x.whl").as_uri() for folder in folders]
    assert list(_local("other", "x.whl", settings)) == [(folders[0] / "x.whl").as_uri()]
    assert list(_local("demo", "", settings)) == []
