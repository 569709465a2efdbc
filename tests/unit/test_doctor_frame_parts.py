"""Parts of doctor's frame: the bundle as a whole, what is made once, how a run begins."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from support.doctor_frame import a_check, a_context, report_of

from xpubuild import __version__
from xpubuild.doctor import bundle_workspace, registry, start
from xpubuild.doctor.bundle import bundle_text
from xpubuild.doctor.identity import Identity
from xpubuild.doctor.kit import Look, Outcome
from xpubuild.doctor.report import doctor_document
from xpubuild.engine.executables import resolve_executable
from xpubuild.errors import UsageError, XpuBuildError

EVIDENCE = {
    "plan": {"steps": []}, "captures": {"cached": ["c"]}, "verify": {"a": "v"}, "audit": ["w"],
    "status": {"s": 1}, "gate": {"lines": ["g"], "warnings": []}, "explain": {"e": 1}, "unread": ["u"],
    "logs": {"a.log": ["1", "``` 2"], "b.log": []}, "bugs": {"bug.txt": ["3"], "none.txt": None},
}  # fmt: skip
ORDER = (
    ("Could not be read", "unread"), ("Failures, explained", "explain"), ("Lines of the XPU gate", "gate"),
    ("Steps and runs", "status"), ("Audits of wheels", "audit"), ("Verify", "verify"),
    ("Captured oneAPI environments", "captures"), ("Plan", "plan"),
)  # fmt: skip


def test_the_bundle_has_every_section_in_its_order() -> None:
    checks = [
        a_check("a.ok"),
        a_check("b.skip", Outcome("skip", "not\nhere")),
        a_check("c.warn", Outcome("warn", "odd")),
        a_check("d.error", Outcome("error", "broke")),
        a_check("e.fail", Outcome("fail", "a | b <c>")),
    ]
    document = doctor_document(report_of(*checks))
    text = bundle_text(document, {"CC": "gcc", "OTHER": "x"}, Identity(), evidence=EVIDENCE)
    system = os.uname()
    head = f"""\
# xpubuild bundle

{document["verdict"].replace("|", chr(92) + "|").replace("<", "&lt;")}

xpubuild {__version__}, Python {sys.version.split()[0]}, {system.sysname} {system.machine}.
Names of users, hosts and homes, addresses, serial numbers and secrets are masked.

| check | status | detail |
| --- | --- | --- |
| e.fail | fail | a \\| b &lt;c> |
| d.error | error | broke |
| c.warn | warn | odd |
| b.skip | skip | not here |
| a.ok | ok | a.ok is well |

## Environment

```
CC=gcc
```

## Report

```json
{json.dumps(document, indent=1)}
```
"""
    assert text.startswith(head)
    rest = "".join(
        f"\n## {title}\n\n```json\n{json.dumps(EVIDENCE[key], indent=1)}\n```\n" for title, key in ORDER[:-1]
    )
    logs = "\n## End of the log: a.log\n\n````\n1\n``` 2\n````\n\n## Internal error: bug.txt\n\n```\n3\n```\n"
    assert text.removeprefix(head) == rest + logs, "an empty plan is left out"


def test_the_ends_of_logs_are_cut(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"first\n" + b"x" * 1001 + b"\nlast \xff")
    assert bundle_workspace.end_of(log, 2) == ["x" * 1000, "last \ufffd"]


def test_lines_of_the_gate_are_counted_and_cut(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    told = "Not compiling with XPU. Could NOT find SYCL"
    other = "Failed to include ATen XPU implementation target " + "y" * 1000
    log.write_text(f"-- begin\n{told}\n{other}\nnot compiling with xpu\n" + f"{told}\n" * 100)
    found = bundle_workspace.gate_lines(log)
    assert found[:2] == [
        {"log": "a.log", "line": 2, "rules": ["sycl-not-found"], "text": told},
        {"log": "a.log", "line": 3, "rules": ["xpu-kernels-not-included"], "text": other[:1000]},
    ]
    assert len(found) == 60
    log.write_text("CMake Warning at a:1 (message):\n  Not compiling with XPU.  Could NOT find\n  SYCL.\n")
    assert [item["line"] for item in bundle_workspace.gate_lines(log)] == [1]


def test_the_newest_internal_errors_of_this_user_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for number in range(5):
        file = tmp_path / f"xpubuild-bug-{number}.txt"
        file.write_text("\n".join(f"line {line}" for line in range(450)))
        os.utime(file, (1000 - number, 1000 - number))
    (tmp_path / "other.txt").touch()
    found = bundle_workspace.internal_errors()
    assert list(found) == [f"xpubuild-bug-{number}.txt" for number in range(3)]
    assert found["xpubuild-bug-0.txt"] == [f"line {line}" for line in range(50, 450)]
    monkeypatch.setattr("xpubuild.doctor.bundle_workspace.os.geteuid", lambda: os.getuid() + 1)
    assert bundle_workspace.internal_errors() == {}


def test_a_workspace_with_nothing_in_it_is_told_as_empty(tmp_path: Path) -> None:
    found = bundle_workspace.workspace_evidence(tmp_path / "none", None, tmp_path)  # type: ignore[arg-type]
    (unread,) = found.pop("unread")
    assert unread.startswith("the journal: ")
    assert found == {
        "status": {"steps": []}, "plan": None, "captures": {"activation": None, "cached": []},
        "gate": {"warnings": [], "lines": []}, "audit": [], "verify": None, "explain": {}, "logs": {},
    }  # fmt: skip


def test_what_cannot_be_made_is_not_tried_again() -> None:
    context, asked = a_context(), []

    def ask(_context: Look) -> str:
        asked.append(1)
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            context.probe(ask)
    assert len(asked) == 1
    assert [context.probe(lambda _: asked.append(2)) for _ in range(2)] == [None, None]


def test_a_damaged_module_of_checks_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    really = registry.importlib.import_module

    def load(name: str) -> object:
        if name.endswith(".gpu"):
            raise SyntaxError("damaged")
        return really(name)

    monkeypatch.setattr(registry.importlib, "import_module", load)
    found = {check.id: check for check in registry.all_checks()}
    assert "gpu.present" not in found
    assert found["plugin.gpu"](a_context()) == Outcome("error", "SyntaxError: damaged")
    assert found["plugin.gpu"].title == "The checks of gpu can be loaded"
    assert "gpu.bar" in found


@pytest.mark.parametrize(
    "begin",
    [
        lambda folder: start.begin({}, root=folder / "none"),
        lambda folder: start.begin({"PATH": ""}, root=folder, target="xpu"),
        lambda folder: start.begin({"PATH": "/nowhere"}, python="python9"),
        lambda folder: start.begin({}, python=f"{folder}/python9"),
    ],
)
def test_a_run_that_cannot_begin(tmp_path: Path, begin: Callable[[Path], object]) -> None:
    with pytest.raises(XpuBuildError):
        begin(tmp_path)


def test_a_machine_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "_HOST_DEADLINE_S", 0.01)
    monkeypatch.setattr(start, "_report", lambda *_arguments: None)
    wait = start.begin({}, root=tmp_path)
    with pytest.raises(XpuBuildError):
        wait()


def test_a_run_knows_what_it_is_about(tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    place, root = tmp_path / "ws", tmp_path / "image"
    python = root / "usr/bin/python3"
    context = start.begin(
        {"A": "b"},
        root=root,
        recipe="2.8",
        target="cpu",
        python="/usr/bin/python3",
        workspace=place,
        profiles=("run",),
    )()
    assert (context.environ, context.root, context.python, context.workspace) == ({}, root, python, place)
    assert context.profiles == {"run"}
    assert context.recipe is not None
    assert context.recipe.recipe.target == "cpu"
    assert not context.to_build
    assert context.host.disk.path == str(tmp_path)


def test_the_interpreter_is_that_of_the_workspace_then_the_active_one(tmp_path: Path) -> None:
    places = {name: tmp_path / name for name in ("ws/env", "venv", "conda")}
    for folder in places.values():
        (folder / "bin").mkdir(parents=True)
        (folder / "bin/python").touch()
    environ = {"VIRTUAL_ENV": str(places["venv"]), "CONDA_PREFIX": str(places["conda"])}
    assert start._interpreter(None, environ, Path("/"), tmp_path / "ws") == places["ws/env"] / "bin/python"
    assert start._interpreter(None, environ, Path("/"), tmp_path) == places["venv"] / "bin/python"
    (places["venv"] / "bin/python").unlink()
    assert start._interpreter(None, environ, Path("/"), None) == places["conda"] / "bin/python"
    assert start._interpreter(None, {}, Path("/"), None) is None
    named = resolve_executable(sys.executable, {})
    assert start._interpreter(sys.executable, {}, Path("/"), None) == Path(named)
    assert start._interpreter(None, {}, tmp_path, None) is None


def test_the_workspace_that_was_entered(tmp_path: Path) -> None:
    assert start.entered({"XPUBUILD_ENTERED": str(tmp_path)}) == tmp_path
    assert start.entered({"XPUBUILD_ENTERED": str(tmp_path / "gone")}) is None
    assert start.entered({}) is None


def test_what_is_chosen_can_be_nothing() -> None:
    checks = [a_check("gpu.a"), a_check("build.b")]
    for only, skip in (((), ("gpu", "build.*")), (("gqu.a",), ()), (("GP",), ()), (("zzz",), ())):
        with pytest.raises(UsageError):
            registry.select(checks, only=only, skip=skip)
