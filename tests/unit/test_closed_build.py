"""Builds without a network: their environment, what CMake is handed, and what their log says of a fetch."""

from __future__ import annotations

import pytest
from support.plans import pinned, plan_of

from xpubuild.artifacts.gate_watcher import WatchStep
from xpubuild.artifacts.xpu_gate import StepWatcher
from xpubuild.engine.model import Step, Stop
from xpubuild.errors import BuildError, FetchError, OutOfMemoryError

JSON = {"url": "https://host/json-3.tar.gz", "folder": "json-3", "variable": "FETCHCONTENT_SOURCE_DIR_JSON"}
LLVM = {"url": "https://host/llvm.tar.gz", "variable": "LLVM_SYSPATH"}


def wheel(**build: object) -> tuple[Step, dict[str, str]]:
    """Return the step that builds the wheel of a component with this build, and the files of its plan."""
    plan = plan_of(components={"torch": pinned("torch"), "mine": pinned("mine", more={"build": build})})
    return plan.step("mine.wheel"), dict(plan.files)


def watcher(step: Step) -> StepWatcher:
    assert isinstance(step.watch, WatchStep)
    return step.watch()


def test_what_is_built_against_the_torch_of_the_workspace_has_no_network() -> None:
    open_, closed = (step.commands[-1] for step, _ in (wheel(), wheel(against=[])))
    added = dict(closed.tuning.items() - open_.tuning.items())
    assert added.pop("GIT_ALLOW_PROTOCOL") == "file"
    assert added.pop("no_proxy") == added.pop("NO_PROXY") == ""
    assert len(added) == 8
    (proxy,) = {*added.values()}
    # libcurl does not read it, so no name has to be looked up.
    assert proxy.endswith(":x")
    assert {"http_proxy", "HTTPS_PROXY"} <= added.keys()
    assert closed.env == open_.env


def test_cmake_is_told_by_a_toolchain_file_where_an_archive_is() -> None:
    step, files = wheel(archives={"json": JSON, "llvm": LLVM})
    env = step.commands[-1].env
    assert env["LLVM_SYSPATH"] == "/ws/build/archives/mine/llvm"
    assert env["CMAKE_TOOLCHAIN_FILE"] == "/ws/build/cmake/mine.cmake"
    assert files[env["CMAKE_TOOLCHAIN_FILE"]] == (
        'set(FETCHCONTENT_SOURCE_DIR_JSON [==[/ws/build/archives/mine/json/json-3]==] CACHE PATH "" FORCE)\n'
    )
    step, files = wheel(archives={"llvm": LLVM})
    assert "CMAKE_TOOLCHAIN_FILE" not in step.commands[-1].env


def test_a_folder_and_a_toolchain_file_of_a_recipe_are_kept() -> None:
    own = {"FETCHCONTENT_SOURCE_DIR_JSON": "{env}/json", "CMAKE_TOOLCHAIN_FILE": "/site/max.cmake"}
    step, files = wheel(archives={"json": JSON}, env=own)
    assert files[step.commands[-1].env["CMAKE_TOOLCHAIN_FILE"]].splitlines() == [
        "include([==[/site/max.cmake]==])",
        'set(FETCHCONTENT_SOURCE_DIR_JSON [==[/ws/env/json]==] CACHE PATH "" FORCE)',
    ]
    step, _ = wheel(env={"CMAKE_TOOLCHAIN_FILE": "/site/max.cmake"})
    assert step.commands[-1].env["CMAKE_TOOLCHAIN_FILE"] == "/site/max.cmake"


@pytest.mark.parametrize(
    ("line", "url"),
    [
        ("  Failed to clone repository: 'https://host/lib.git'", "https://host/lib.git"),
        ("    error: downloading 'https://host/a.tgz' failed", "https://host/a.tgz"),
    ],
)
def test_a_fetch_that_cmake_names_stops_the_build(line: str, url: str) -> None:
    (verdict,) = watcher(wheel(against=[])[0]).line(line, 1)
    assert isinstance(verdict, Stop)
    assert isinstance(verdict.error, FetchError)
    assert verdict.error.evidence == {"reason": "unlisted", "url": url}
    assert "components.mine.source.configure_time" in verdict.error.fix
    # Others have the network, and explain says what is wrong with it.
    assert not any(isinstance(item, Stop) for item in watcher(wheel()[0]).line(line, 1))


@pytest.mark.parametrize(
    "line",
    [
        "fatal: transport 'https' not allowed",
        "curl: (5) Unsupported proxy syntax in 'http://nothing-is-fetched-while-building:x'",
        "http.client.InvalidURL: nonnumeric port: 'x'",
        "Error parsing proxy URL http://nothing-is-fetched-while-building:x: Bad port number.",
    ],
)
def test_any_other_fetch_is_the_reason_of_a_build_that_fails(line: str) -> None:
    step, _ = wheel(against=[])
    seen, silent = watcher(step), watcher(step)
    assert list(seen.line(line, 1)) == []
    error = seen.explain(BuildError("the build failed"))
    assert isinstance(error, FetchError)
    assert error.why.endswith(line)
    assert isinstance(seen.explain(OutOfMemoryError("killed")), OutOfMemoryError)
    assert isinstance(silent.explain(BuildError("the build failed")), BuildError)
