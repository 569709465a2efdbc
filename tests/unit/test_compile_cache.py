"""Compile caches: what builds are told, how the user's configuration counts, what the logs say."""

from __future__ import annotations

import os
import shlex
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import plan_files
from support.plan_files import plan_for
from support.releases import recipe_of

from xpubuild.engine.journal import StepRecord
from xpubuild.engine.model import Plan
from xpubuild.engine.runner import needed_for
from xpubuild.errors import ToolchainError
from xpubuild.install import build_compilers as gathered
from xpubuild.install.script import script
from xpubuild.install.target import Compilers, OneapiFacts
from xpubuild.supply.caching import CompileCache, counts_of, rows

CCACHE = CompileCache(
    "/opt/bin/ccache", {"CCACHE_COMPILERCHECK": "content"}, hashed=("/gcc/cc1plus",),
    sycl_hashed=("/oneapi/clang++",), place="/home/me/.cache/ccache, at most 25G",
)  # fmt: skip
#: As ccache 4.7.5 wrote it: a miss, a hit, a hit from a remote storage, a changed header, a link, an option.
LOG = """# ../../src/ops/src/library.cpp
cache_miss
direct_cache_miss
local_storage_miss
local_storage_read_miss
local_storage_read_miss
local_storage_write
local_storage_write
preprocessed_cache_miss
# ../src/x.cpp
direct_cache_hit
local_storage_hit
local_storage_read_hit
local_storage_read_hit
# ../src/y.cpp
direct_cache_hit
local_storage_miss
local_storage_read_miss
remote_storage_hit
remote_storage_read_hit
# ../src/z.cpp
cache_miss
direct_cache_miss
local_storage_miss
local_storage_read_hit
local_storage_read_miss
preprocessed_cache_miss
# (no source)
called_for_link
# ../src/v.cpp
unsupported_compiler_option
"""


def planned(cache: CompileCache | None, name: str = "2.8", **more: Any) -> Plan:
    facts = {"compile_cache": cache, **more.pop("facts", {})}
    return plan_for(name, with_=("vision",), facts=facts, **more)


def environment(plan: Plan, step: str) -> dict[str, str]:
    command = plan.step(step).commands[-1]
    return {**command.env, **command.tuning}


def test_a_cache_changes_no_fingerprint_and_no_script() -> None:
    without, with_it = planned(None), planned(CCACHE)
    assert with_it.lock_digest == without.lock_digest
    shared = {name: with_it.fingerprints[name] for name in without.fingerprints}
    assert shared == without.fingerprints
    assert script(with_it) == script(without)


def test_cmake_gets_launchers_and_setuptools_gets_links() -> None:
    plan = planned(CCACHE)
    torch, vision = environment(plan, "torch.wheel"), environment(plan, "vision.wheel")
    assert torch["CMAKE_C_COMPILER_LAUNCHER"] == torch["CMAKE_CXX_COMPILER_LAUNCHER"] == CCACHE.path
    assert torch["CXX"] == "/usr/bin/g++", "the wheel tells which compiler made it"
    assert "CMAKE_PROJECT_INCLUDE" not in torch
    links = f"{plan.workspace}/build/compile-cache"
    assert (vision["CC"], vision["CXX"]) == (f"{links}/gcc", f"{links}/g++")
    assert vision["CCACHE_PATH"] == "/usr/bin"
    made = plan.step("compile-cache")
    assert {f"{links}/gcc", f"{links}/g++"} == set(made.outputs)
    assert plan.step("vision.wheel").tools == (made.id,)
    assert made in needed_for(plan, "vision.wheel")
    assert made not in needed_for(plan, "torch.wheel")


def test_a_build_is_told_its_workspace_and_what_else_makes_the_object() -> None:
    plan = planned(CCACHE)
    told = environment(plan, "torch.wheel")
    assert told["CCACHE_BASEDIR"] == plan.workspace
    assert told["CCACHE_EXTRAFILES"] == "/gcc/cc1plus"
    assert told["CCACHE_STATSLOG"] in plan.step("torch.wheel").fresh
    assert told["CCACHE_STATSLOG"] != environment(plan, "vision.wheel")["CCACHE_STATSLOG"]


def test_sycl_is_compiled_in_depend_mode_and_knows_both_compilers() -> None:
    plan = planned(CCACHE, "2.13", oneapi="2025.3", workspace="/somewhere")
    told = environment(plan, "torch.wheel")
    included = plan.files[told["CMAKE_PROJECT_INCLUDE"]]
    (wrapper,) = [path for path in plan.files if path.endswith("/torch.icx")]
    assert f'set(SYCL_EXECUTABLE "{wrapper}" CACHE FILEPATH' in included
    words = shlex.split(next(line for line in plan.files[wrapper].splitlines() if line.startswith("case")))
    launcher = words[words.index("/usr/bin/env") : words.index("icx") + 1]
    assert launcher[-2:] == [CCACHE.path, "icx"]
    assert told["CCACHE_PREFIX"] == f"{plan.workspace}/build/launcher/launch", (
        "what is compiled waits for memory"
    )
    own = dict(word.partition("=")[::2] for word in launcher[1:-2])
    assert (own["CCACHE_DEPEND"], own["CCACHE_COMPILERTYPE"]) == ("1", "clang")
    assert own["CCACHE_EXTRAFILES"].split(":") == ["/gcc/cc1plus", "/oneapi/clang++"]
    assert own["CCACHE_STATSLOG"] in plan.step("torch.wheel").fresh
    assert own["CCACHE_STATSLOG"] != told["CCACHE_STATSLOG"]


def test_a_sites_own_include_of_cmake_stays_and_odd_paths_are_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(CCACHE, "2.13", oneapi="2025.3", workspace="/some&where")
    wrapper = next(text for path, text in plan.files.items() if path.endswith("/torch.icx"))
    assert "exec '/some&where/build/launcher/launch' icx" in wrapper
    loaded = recipe_of("2.13")
    env = {"CMAKE_PROJECT_INCLUDE": "/site.cmake", **loaded.recipe.env}
    changed = loaded.model_copy(update={"recipe": loaded.recipe.model_copy(update={"env": env})})
    monkeypatch.setattr(plan_files, "recipe_of", lambda _: changed)
    told = environment(planned(CCACHE, "2.13", oneapi="2025.3", workspace="/somewhere"), "torch.wheel")
    assert told["CMAKE_PROJECT_INCLUDE"] == "/site.cmake"


def test_precompiled_headers_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = recipe_of("2.8")
    env = {"USE_PRECOMPILED_HEADERS": "1", **loaded.recipe.env}
    changed = loaded.model_copy(update={"recipe": loaded.recipe.model_copy(update={"env": env})})
    monkeypatch.setattr(plan_files, "recipe_of", lambda _: changed)
    told = environment(planned(replace(CCACHE, sloppiness="locale, time_macros")), "torch.wheel")
    assert told["CCACHE_SLOPPINESS"] == "locale,time_macros,pch_defines"
    assert told["CCACHE_DEPEND"] == "1"
    monkeypatch.undo()
    assert "CCACHE_SLOPPINESS" not in environment(planned(CCACHE), "torch.wheel")


def test_counts_by_family_with_reasons(tmp_path: Path) -> None:
    cxx, sycl = tmp_path / "cxx", tmp_path / "sycl"
    cxx.write_text(LOG)
    sycl.write_text("# a.cpp\ndirect_cache_hit\n# \ncalled_for_link\n")
    found = {item.family: item for item in counts_of((("C++", cxx), ("SYCL", sycl)))}
    assert set(found) == {"C++", "SYCL", "link", "AOT"}
    cpp = found["C++"]
    assert (cpp.calls, cpp.hits, cpp.misses, cpp.not_cached, cpp.remote_hits) == (5, 2, 2, 1, 1)
    assert cpp.reasons == {
        "not seen before: source, options or compiler": 1,
        "an included file changed": 1,
        "unsupported compiler option": 1,
    }
    assert (found["link"].calls, found["link"].not_cached) == (1, 1)
    assert (found["AOT"].calls, found["SYCL"].hits) == (1, 1)


def _record(step: str, status: str) -> StepRecord:
    return StepRecord(step, "f", status, 0.0, 1.0, [], {}, [], "")


@pytest.mark.parametrize("status", ["done", "failed"])
def test_a_step_is_counted_from_its_log(tmp_path: Path, status: str) -> None:
    (tmp_path / "ops.ccache-cxx.log").write_text("# a.cpp\ndirect_cache_hit\n")
    (built,) = rows([_record("ops.wheel", status), _record("ops.install", "failed")], tmp_path)
    assert (built["step"], built["program"]) == ("ops.wheel", "ccache")
    assert [(item["family"], item["calls"]) for item in built["families"]] == [("C++", 1)]
    (editable,) = rows([_record("ops.install", "running")], tmp_path)
    assert editable["step"] == "ops.install"
    assert rows([_record("vision.wheel", status)], tmp_path) == []


def test_a_build_without_a_cache_removes_the_log_of_an_earlier_one() -> None:
    log = environment(planned(CCACHE), "torch.wheel")["CCACHE_STATSLOG"]
    assert log in planned(None).step("torch.wheel").fresh


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/nowhere")
    monkeypatch.setenv("HOME", str(folder))
    return folder


def _program(folder: Path, name: str, *lines: str) -> None:
    path = folder / name
    path.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))
    path.chmod(0o755)


SETTINGS = (
    f"(default) cache_dir = {tempfile.gettempdir()}/not made yet",
    "(default) disable = false", "(default) extra_files_to_hash = ",
    "(default) max_size = 5.0G", "(default) sloppiness = ", "(default) stats_log = ",
    "(default) ignore_options = ",
)  # fmt: skip
NEW = "(environment) remote_storage = file:///shared|read-only"


def find(folder: Path, wanted: Any = "auto", oneapi: OneapiFacts | None = None) -> CompileCache | None:
    _program(folder, "g++", str(folder / "cc1plus"))
    _program(folder, "cc1plus")
    compilers = Compilers(str(folder / "gcc"), str(folder / "g++"), "13.2.0", kind="gcc")
    found = gathered.compile_cache(wanted, compilers, oneapi)
    return None if isinstance(found, str) else found


def test_ccache_is_found_and_nothing_is_fine(programs: Path) -> None:
    assert find(programs) is None
    _program(programs, "ccache", *SETTINGS, NEW)
    ccache = find(programs)
    assert ccache is not None
    assert ccache.hashed == (str(programs / "cc1plus"),)
    assert ccache.environment["CCACHE_MAXSIZE"] == "25G"
    assert ccache.environment["CCACHE_COMPILER"] == "", "the plan's compiler, and no other"
    assert ccache.server == ""
    assert find(programs, "none") is None


def test_a_cache_that_another_host_shares_has_its_name(programs: Path) -> None:
    shared = "(environment) remote_storage = redis://user:secret@cache.example:6379|read-only"
    _program(programs, "ccache", *SETTINGS, shared)
    cache = find(programs)
    assert cache is not None
    assert cache.server == "cache.example"


def test_the_users_configuration_counts_where_it_is_safe(programs: Path) -> None:
    own = {
        "max_size": "(/etc/ccache.conf) max_size = 80.0G",
        "ignore_options": "(environment) ignore_options = -O*",
        "extra_files_to_hash": "(environment) extra_files_to_hash = /a:/b",
        "sloppiness": "(/etc/ccache.conf) sloppiness = time_macros, system_headers",
    }
    lines = [own.get(line.split()[1], line) for line in SETTINGS]
    _program(programs, "ccache", *lines, NEW)
    cache = find(programs)
    assert cache is not None
    assert "CCACHE_MAXSIZE" not in cache.environment
    assert cache.environment["CCACHE_IGNOREOPTIONS"] == "", "another -O is another object"
    assert cache.environment["CCACHE_SLOPPINESS"] == cache.sloppiness == "time_macros", "headers count"
    assert cache.hashed[:2] == ("/a", "/b")
    assert "80.0G, shared by file:///shared" in cache.place


@pytest.mark.parametrize("wanted", ["ccache", "auto"])
def test_a_ccache_of_no_use(programs: Path, wanted: str) -> None:
    _program(programs, "ccache", "(default) max_size = 5.0G")
    if wanted == "auto":
        assert find(programs) is None
        return
    with pytest.raises(ToolchainError, match="older than ccache"):
        find(programs, wanted)
    _program(programs, "ccache", *(line.replace("e = false", "e = true") for line in SETTINGS), NEW)
    with pytest.raises(ToolchainError, match="switches it off"):
        find(programs, wanted)


def test_a_ccache_that_cannot_write_to_its_folder(programs: Path) -> None:
    (programs / "file").touch()
    refused = [line.replace(f"{tempfile.gettempdir()}/", f"{programs}/file/") for line in SETTINGS]
    _program(programs, "ccache", *refused, NEW)
    assert find(programs) is None
    before = sorted(programs.rglob("*"))
    compilers = Compilers(str(programs / "gcc"), str(programs / "g++"), "13.2.0", kind="gcc")
    why = gathered.compile_cache("auto", compilers, None)
    assert why == (
        f"nothing can be written to {programs}/file/not made yet, the folder of {programs}/ccache:"
        " Not a directory"
    )
    assert sorted(programs.rglob("*")) == before
    with pytest.raises(ToolchainError) as error:
        gathered.compile_cache("ccache", compilers, None)
    assert error.value.exit_code == 40
    assert "CCACHE_DIR" in error.value.fix
    plan = planned(None, facts={"no_compile_cache": why})
    assert plan.summary["compile_cache"] == f"none ({why})"
    assert environment(plan, "torch.wheel")["CCACHE_DISABLE"] == "1"
    assert plan.fingerprints == planned(None).fingerprints
    # One that only reads needs no folder to write to.
    _program(programs, "ccache", *refused, NEW, "(environment) read_only = true")
    assert isinstance(gathered.compile_cache("auto", compilers, None), CompileCache)


def test_what_icpx_runs_is_hashed(programs: Path) -> None:
    _program(programs, "ccache", *SETTINGS, NEW)
    intel = programs / "intel"
    (intel / "compiler").mkdir(parents=True)
    _program(intel, "icpx")
    _program(intel / "compiler", "clang++")
    (intel / "icpx.cfg").write_text("")
    cache = find(programs, oneapi=OneapiFacts(path_prefix=(str(intel),)))
    assert cache is not None
    assert cache.sycl_hashed == (
        str(programs / "g++"), str(intel / "icpx.cfg"), str(intel / "compiler/clang++"),
    )  # fmt: skip
