"""The report of a rehearsal, whole: of a plan, a journal and the files that CMake leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.documents import check
from support.plans import pinned, plan_of, target_of

from xpubuild import __version__
from xpubuild.engine.journal import Journal
from xpubuild.engine.monitor import WATCHED
from xpubuild.errors import BuildError, NoXpuError, XpuBuildError
from xpubuild.install.rehearse import make_report, planned
from xpubuild.install.target import Prepared
from xpubuild.workspace.layout import Layout

TOLD = {"id": "a-warning", "text": "text", "lines": ["one", "two"], "more": "is not in a report"}


def configured(source: Path) -> None:
    """Write what CMake leaves of a build with two SYCL sources."""
    build = source / "build"
    build.mkdir(parents=True)
    cache = (
        f"CMAKE_HOME_DIRECTORY:INTERNAL={source}\nCMAKE_CXX_COMPILER:FILEPATH=/usr/bin/g++\nUSE_XPU:BOOL=ON\n"
    )
    (build / "CMakeCache.txt").write_text(cache)
    lines = ["build a.o: CXX_COMPILER__one a.cpp", "build b.o: CXX_COMPILER__two b.cpp", "build c: phony"]
    for name in ("x/sycltla/one.cpp", "two.cpp"):
        script = build / f"CMakeFiles/ops.dir/{Path(name).name}.o.Release.cmake"
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(f'set(source_file "/s/{name}")\n')
        lines.append(f"  COMMAND = cmake -P {script}")
    (build / "build.ninja").write_text("\n".join([*lines, "rule build x: CXX_COMPILER__y", ""]))


@pytest.mark.parametrize(
    ("error", "warned", "verdict"),
    [
        (None, False, "ok"), (None, True, "warnings"), (NoXpuError("lost"), True, "no-xpu"),
        (BuildError("failed"), False, "failed"),
    ],
)  # fmt: skip
def test_a_rehearsal_says_what_would_be_compiled(
    tmp_path: Path, error: XpuBuildError | None, warned: bool, verdict: str
) -> None:
    build = {"memory_gib_per_job": 2.5}
    changes: Any = {"components": {"torch": pinned("torch", more={"build": build})}, "release": "2.9.0"}
    asked, facts = {"workspace": tmp_path}, {"jobs": 3}
    whole = Prepared(target_of(asked, facts, **changes), plan_of(asked, facts, **changes), 1.0)
    prepared, step, source = planned(whole), "torch.configure", tmp_path / "src" / "torch"
    layout = Layout(tmp_path)
    with Journal(layout.journal) as journal:
        before = make_report(prepared, journal.record(step), error)
        journal.start_run("mine", [], "1")
        journal.begin(step, "f")
        running = make_report(prepared, journal.record(step), error)
        told = [{"proof": WATCHED, "warnings": [TOLD] if warned else []}, {"proof": "other"}]
        journal.done(step, evidence=told, witnesses={}, published=[])
        configured(source)
        layout.logs.mkdir()
        (layout.logs / "torch.configure.log").write_text("--   USE_NUMA              : OFF\n")
        found = make_report(prepared, journal.record(step), error)
    check({**found}, "rehearsal")
    assert (found["duration_s"], running["duration_s"], before["duration_s"]) == (
        found["duration_s"],
        None,
        None,
    )
    assert found.pop("duration_s") >= 0
    del found["created"]
    group = {
        "name": "ops", "aot": [], "formats": [], "compiler": "", "host_compiler": "", "host_standard": None,
        "device_standard": None, "cxx11_abi": None, "preview": [],
        "sources": ["/s/two.cpp", "/s/x/sycltla/one.cpp"],
    }  # fmt: skip
    switch = {"requested": None, "reason": "upstream's default"}
    assert found == {
        "schema": "xpubuild.rehearsal/1", "xpubuild": __version__, "recipe": "mine", "release": "2.9.0",
        "target": "cpu", "workspace": str(tmp_path), "component": "torch", "verdict": verdict,
        "error": None if error is None else error.to_json(),
        "warnings": [{"id": "a-warning", "text": "text", "lines": ["one", "two"]}] if warned else [],
        "log": f"{tmp_path}/logs/torch.configure.log", "build": f"{source}/build",
        "switches": [{"name": "USE_NUMA", "found": "OFF", "on": False, **switch},
                     {"name": "USE_XPU", "found": "ON", "on": True, **switch}],
        "arch_requested": [], "sycl_files": 2, "sycl_groups": [group], "cxx_files": 2,
        "host_compiler": "/usr/bin/g++", "jobs": 3, "memory_gib_per_job": 2.5,
    }  # fmt: skip
    for nothing in (before, running):
        assert (nothing["build"], nothing["switches"], nothing["sycl_groups"]) == (None, [], [])
        assert (nothing["cxx_files"], nothing["host_compiler"], nothing["warnings"]) == (0, None, [])
