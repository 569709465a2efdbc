"""An install of steps that take no time: what it writes, says and hands out; copies of served mirrors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.documents import check
from support.engine import Recorder, make_plan, shell
from support.plan_files import target_for
from support.plans import pinned, plan_of, target_of

from xpubuild import __version__
from xpubuild.engine.events import Notice
from xpubuild.engine.journal import Journal
from xpubuild.engine.model import Plan, Step
from xpubuild.engine.process import Cancel
from xpubuild.engine.state import WATCHED
from xpubuild.errors import BuildError, NoXpuError, ToolchainError, UsageError, XpuBuildError
from xpubuild.install.install import apply
from xpubuild.install.rehearse import make_report, planned
from xpubuild.install.results import Results
from xpubuild.install.target import Prepared
from xpubuild.workspace.activation import read_receipt
from xpubuild.workspace.layout import Layout
from xpubuild.workspace.modulefile import Modules


def prepared(root: Path, *scripts: str, files: dict[str, str] | None = None) -> Prepared:
    steps = [Step(f"step{number}", "t", commands=(shell(text),)) for number, text in enumerate(scripts)]
    plan: Plan = replace(make_plan(root, *steps), files=files or {}, summary={"python": "3.12.1 (x)"})
    facts = {"host": {"disk": {"free_bytes": None}, "compilers": []}}
    return Prepared(target_for("quickstart", workspace=str(root), facts=facts), plan, 1.0)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "ws"


def test_an_install_writes_files_receipt_and_modulefile(root: Path, tmp_path: Path) -> None:
    files = {str(root / "build" / "a" / "b.txt"): "text\n", str(root / "build" / "run"): "#!/bin/sh\n"}
    results = Results(modules=Modules(tmp_path / "modules", "tcl"))
    given, sink = prepared(root, "true", "echo hello", files=files), Recorder()
    receipt = apply(given, sink=sink, cancel=Cancel(), results=results)
    (module,) = (tmp_path / "modules" / "xpubuild").iterdir()
    assert (receipt["status"], receipt["modulefile"]) == ("complete", str(module))
    assert module.name == "test-py3.12-0000000"
    assert (sorted(receipt["ran"]), receipt["up_to_date"]) == (["step0", "step1"], [])
    assert {path: Path(path).read_text() for path in files} == files
    plain, program = (Path(path).stat().st_mode & 0o777 for path in files)
    assert (plain & 0o111, program) == (0, 0o755)
    layout = Layout(root)
    assert layout.receipt.is_file()
    assert layout.plan.is_file()
    assert layout.pip_report("", "").parent.is_dir()
    with Journal(layout.journal, read_only=True) as journal:
        ((run), made) = journal.runs()[0], journal.made()
        assert (run["recipe"], run["status"]) == ("test", "ok")
        assert {*files, str(layout.plan)} <= {*made}
        assert {made[path] for path in files} == {"install"}
    again = apply(given, sink=sink, cancel=Cancel(), until="step0", results=results)
    assert (again["ran"], again["up_to_date"]) == ([], ["step0"])
    module.write_text("of somebody")
    with pytest.raises(UsageError):
        apply(given, sink=sink, cancel=Cancel(), results=results)


def test_what_was_built_is_shown_when_handing_it_out_fails(root: Path, tmp_path: Path) -> None:
    closed, shown = tmp_path / "modules", list[object]()
    given, results = prepared(root, "true"), Results(modules=Modules(closed, "tcl"))
    closed.write_text("a file")
    with pytest.raises(ToolchainError):
        apply(given, sink=Recorder(), cancel=Cancel(), results=results, lost=shown.append)
    assert shown == [read_receipt(root)]


def test_what_failed_and_what_was_damaged_is_told(root: Path, tmp_path: Path) -> None:
    results = Results(modules=Modules(tmp_path / "modules", "tcl"))
    with pytest.raises(BuildError):
        apply(prepared(root, "true", "exit 3"), sink=Recorder(), cancel=Cancel(), results=results)
    assert not (tmp_path / "modules").exists()
    assert '"status": "partial"' in Layout(root).receipt.read_text()
    half = apply(
        prepared(root, "true", "false"), sink=Recorder(), cancel=Cancel(), until="step0", results=results
    )
    assert "modulefile" not in half
    Layout(root).journal.write_bytes(b"no database" * 100)
    sink = Recorder()
    apply(prepared(root, "true"), sink=sink, cancel=Cancel())
    (aside,) = root.glob("journal.db.*")
    told = [(event.text, event.level) for event in sink.events if isinstance(event, Notice)]
    assert (f"the journal was damaged; it is kept as {aside.name}", "warning") in told
    with Journal(Layout(root).journal, read_only=True) as journal:
        assert [path for path, step in journal.made().items() if step == "adopted"] == [
            f"{root}/build",
            f"{root}/env",
        ]


# ---- The report of a rehearsal, whole: of a plan, a journal and the files that CMake leaves


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
        "arch_requested": [], "sycl_files": 2, "sycl_groups": [group],
    }  # fmt: skip
    for nothing in (before, running):
        assert (nothing["build"], nothing["switches"], nothing["sycl_groups"]) == (None, [], [])
        assert nothing["warnings"] == []
