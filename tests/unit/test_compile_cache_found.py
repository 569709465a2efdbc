"""The compile cache that builds use, whole: as its user has configured it, with made-up programs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.plan_files import plan_for
from unit.test_compile_cache import CCACHE, NEW, OLD, SETTINGS, _program

from xpubuild.engine.answers import Answers
from xpubuild.install import compile_cache as found_by
from xpubuild.install.compile_cache import HitsProof, compile_cache
from xpubuild.install.target import Compilers
from xpubuild.supply.caching import CompileCache

SAFE = {"CCACHE_COMPILERCHECK": "content", "CCACHE_NOHASHDIR": "1"}


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Return a folder for programs."""
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def found(
    folder: Path, *settings: str, remote: str | None = None, wanted: Any = "auto", **caller: str
) -> CompileCache | str:
    """Return the cache of a machine whose ccache says these settings in place of its defaults."""
    names = {line.split()[1] for line in settings}
    lines = [*(line for line in (*SETTINGS, NEW) if line.split()[1] not in names), *settings]
    _program(folder, "ccache", *lines)
    compilers = Compilers("/x/gcc", "/x/g++", "13.2.0", kind="clang")
    path = f"{folder}{os.pathsep}/nowhere"
    return compile_cache(wanted, remote, compilers, None, {"PATH": path, "HOME": str(folder), **caller})


def test_ccache_as_it_is_configured(programs: Path) -> None:
    cache = f"(default) cache_dir = {programs}"
    plain = CompileCache(
        "ccache", str(programs / "ccache"), {**SAFE, "CCACHE_MAXSIZE": "25G"},
        place=f"{programs}, at most 25G",
    )  # fmt: skip
    assert found(programs, cache) == plain
    own = (
        cache, "(environment) max_size = 8.0G", "(environment) sloppiness = locale, time_macros",
        "(environment) ignore_options = -O*", "(environment) ignore_headers_in_manifest = x",
        "(environment) remote_storage = redis://h|read-only", "(environment) extra_files_to_hash = /a::/b",
    )  # fmt: skip
    assert found(programs, *own) == CompileCache(
        "ccache", plain.path, {"CCACHE_IGNOREOPTIONS": "", "CCACHE_IGNOREHEADERS": "", **SAFE},
        hashed=("/a", "/b"), sloppiness="locale, time_macros",
        place=f"{programs}, at most 8.0G, shared by redis://h",
    )  # fmt: skip
    told = found(programs, *own, remote="http://h/x|a=b")
    assert isinstance(told, CompileCache)
    assert told.environment["CCACHE_REMOTE_STORAGE"] == "http://h/x|a=b"
    assert told.place == f"{programs}, at most 8.0G, shared by http://h/x"
    old = found(programs, cache, OLD, "(default) remote_storage = ", remote="/a folder")
    assert isinstance(old, CompileCache)
    assert old.environment["CCACHE_REMOTE_STORAGE"] == "file:///a%20folder"


@pytest.mark.parametrize("name", ["read_only", "read_only_direct"])
def test_a_folder_that_is_only_read_need_not_be_writable(programs: Path, name: str) -> None:
    (programs / "file").touch()
    place = f"(default) cache_dir = {programs}/file/x"
    assert isinstance(found(programs, place, f"(environment) {name} = true"), CompileCache)
    assert found(programs, place, f"(environment) {name} = false") == (
        f"nothing can be written to {programs}/file/x, the folder of {programs}/ccache: Not a directory"
    )


@pytest.mark.parametrize(
    ("remote", "variable"),
    [
        (None, ""), ("redis://h", "SCCACHE_REDIS_ENDPOINT"), ("rediss://h", "SCCACHE_REDIS_ENDPOINT"),
        ("http://h", "SCCACHE_WEBDAV_ENDPOINT"), ("https://h", "SCCACHE_WEBDAV_ENDPOINT"),
    ],
)  # fmt: skip
def test_sccache(programs: Path, remote: str | None, variable: str) -> None:
    _program(programs, "sccache")
    told = {"SCCACHE_IGNORE_SERVER_IO_ERROR": "1", "SCCACHE_LOG": "sccache=debug"}
    told |= {variable: remote} if remote else {}
    place = f"shared by {remote}" if remote else "its own folder"
    expected = CompileCache("sccache", str(programs / "sccache"), told, place=place)
    assert found(programs, remote=remote, wanted="sccache") == expected


def test_nothing_that_is_installed_is_no_reason(programs: Path) -> None:
    compilers = Compilers("/x/gcc", "/x/g++", "13.2.0")
    assert compile_cache("auto", None, compilers, None, {"PATH": "/nowhere"}) == ""
    assert compile_cache("none", None, compilers, None, {"PATH": str(programs)}) == ""
    # The first that cannot be used is the one that is told of; another may still serve.
    assert found(programs, "(default) disable = true") == (
        f"the configuration of {programs}/ccache switches it off"
    )
    _program(programs, "sccache")
    other = found(programs, "(default) disable = true")
    assert isinstance(other, CompileCache)
    assert other.kind == "sccache"


def test_hits_are_counted_and_change_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("# a.cpp\ndirect_cache_hit\n")
    proof = HitsProof("ccache", (("C++", log),))
    assert (proof.describe(), proof.key()) == ("hits of ccache are counted", None)
    (counts,) = proof.check().values()
    assert (counts["program"], counts["families"][0]["hits"]) == ("ccache", 1)
    told = [plan_for("2.8", facts=facts).summary.get("compile_cache") for facts in (
        {}, {"compile_cache": CCACHE}, {"no_compile_cache": "so"},
    )]  # fmt: skip
    assert told == [None, "ccache (/home/me/.cache/ccache, at most 25G)", "none (so)"]


def test_what_is_remembered_of_ccache_ends_with_its_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the distribution's own, which knows where the system's file lies."""
    monkeypatch.setattr(found_by, "remembered", lambda: Answers(tmp_path / "answers", settled_ns=0))
    caller = {"PATH": "/usr/bin", "HOME": str(tmp_path)}
    compilers = Compilers("/x/gcc", "/x/g++", "13.2.0", kind="clang")

    def place() -> str:
        cache = compile_cache("ccache", None, compilers, None, caller)
        assert isinstance(cache, CompileCache)
        return cache.place

    first = place()
    (kept,) = (tmp_path / "answers").iterdir()
    answer = json.loads(kept.read_text())
    kept.write_text(json.dumps(answer | {"stdout": answer["stdout"].replace("/ccache", "/remembered")}))
    assert place() == first.replace("/ccache", "/remembered")
    own = tmp_path / ".config" / "ccache" / "ccache.conf"
    own.parent.mkdir(parents=True)
    own.write_text(f"cache_dir = {tmp_path}/own\n")
    assert [place(), place()] == [f"{tmp_path}/own, at most 25G"] * 2
    own.unlink()
    assert place() == first
    caller["CCACHE_DIR"] = str(tmp_path / "named")
    assert place() == f"{tmp_path}/named, at most 25G"
    (tmp_path / "named").mkdir()
    (tmp_path / "named" / "ccache.conf").write_text("max_size = 7G\n")
    assert place() == f"{tmp_path}/named, at most 7.0G"
    del caller["CCACHE_DIR"]
    (tmp_path / ".ccache").mkdir()
    assert str(tmp_path / ".ccache") in place()
