"""Reports and images by their parts: logs of ninja, lanes, documents, builders and their commands."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from support.data_files import dumped, placed
from support.image_files import CELLS, Cell, rendered
from xpubuild.distribution import UNKNOWN_SYSTEM
from xpubuild.engine.events import Event
from xpubuild.engine.journal import Journal
from xpubuild.engine.lock import WorkspaceLock
from xpubuild.engine.process import Cancel
from xpubuild.errors import XpuBuildError
from xpubuild.images.bases import bases
from xpubuild.images.make import Asked, document
from xpubuild.images.request import Format
from xpubuild.install.options import PlanOptions
from xpubuild.workspace.layout import Layout
from xpubuild.workspace.ninja_log import find, read
from xpubuild.workspace.report_builds import ninja_builds
from xpubuild.workspace.report_document import report_document
from xpubuild.workspace.report_lanes import lanes
from xpubuild.workspace.report_model import ReportStep
from xpubuild.workspace.report_steps import status_of

_T0 = 1_795_441_328.0


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve()
        names = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "TMPDIR")
        for name in names:
            (folder / name).mkdir()
        values = {name: f"{folder}/{name}" for name in names}
        with mock.patch.dict(os.environ, values), mock.patch.object(tempfile, "tempdir", None):
            yield folder


def _told(folder: Path, value: Any) -> str:
    return dumped(placed(json.loads(json.dumps(value, default=str)), {str(folder): "{folder}"}))


def _error(action: Callable[[], Any]) -> Any:
    try:
        return action()
    except XpuBuildError as error:
        return {name: value for name, value in error.to_json().items() if value}


def _line(start: int, end: int, output: str, mark: str, *, at: int | None = 0) -> str:
    """Return a line of ninja's log; ``at`` are milliseconds, None leaves the time out."""
    time_ns = 0 if at is None else int(_T0 * 1e9) + (at + start) * 10**6
    return f"{start}\t{end}\t{time_ns}\t{output}\t{mark}\n"


_LOGS: dict[str, str] = {
    "two runs": "# ninja log v7\n"
    + _line(0, 2000, "a.o", "1")
    + _line(2000, 5000, "b.o", "2")
    + _line(10, 1010, "b.o", "2", at=100_000)
    + _line(10, 1010, "b.d", "2", at=100_000)
    + _line(10, 1010, "c.o", "3", at=100_000),
    "without times": "# ninja log v5\n"
    + _line(0, 2000, "a.o", "1", at=None)
    + _line(5, 5, "b.o", "2", at=None),
    "version 6": "# ninja log v6\n" + _line(0, 1, "a.o", "1"),
    "version 4": "# ninja log v4\n" + _line(0, 1, "a.o", "1"),
    "runs of nearly one moment": "# ninja log v7\n"
    + _line(0, 2000, "a.o", "1")
    + _line(0, 1000, "b.o", "2", at=1000)
    + _line(0, 500, "c.o", "3", at=2001),
    "broken lines": "# ninja log v7\n1\t2\t3\ta.o\n5\t4\t3\ta.o\tm\n-1\t4\t3\ta.o\tm\nx\t4\t3\ta.o\tm\n"
    "1\t2\t"
    + "9" * 20
    + "\ta.o\tm\n"
    + "1\t2\t"
    + "1" * 19
    + "\tb.o\tm\textra\n"
    + "1\t2\t"
    + "1" * 19
    + "\tc.o\tm\n",
    "nothing": "",
}


def _ninja() -> str:
    with _folder() as folder:
        told: dict[str, Any] = {}
        for name, text in _LOGS.items():
            path = folder / "log"
            path.write_text(text)
            os.utime(path, (_T0 + 50, _T0 + 50))
            told[name] = [
                [round(run.began - _T0, 3) if run.began is not None else None, round(run.span_s, 3)]
                + [[edge.output, edge.start_s, edge.duration_s] for edge in run.edges]
                for run in read(path)
            ]
        with path.open("r+b") as stream:
            stream.truncate((64 << 20) + 1)
        told["too large"] = read(path)
        root = folder / "w"
        for place in (
            "build",
            "build/a/b/c/d/e",
            "build/a/b/c/d/e/f",
            "src/torch/build",
            "src/torch/build-2/x",
            "src/torch/o",
        ):
            (root / place).mkdir(parents=True, exist_ok=True)
            (root / place / ".ninja_log").write_text(_LOGS["two runs"])
        (root / "src" / "vision" / "build").mkdir(parents=True)
        (root / "src" / "vision" / "build" / ".ninja_log").symlink_to(root / "build" / ".ninja_log")
        layout = Layout(root)
        told["found"] = [str(path) for path in find(iter((layout.build, folder / "nowhere")))]
        for name, ran in {
            "exactly": [("torch.wheel", 0.0, 5.0)],
            "two seconds outside": [("torch.wheel", 2.0, 5.0), ("other", -9, 3.0)],
            "less than two": [("torch.wheel", 1.9, 5.0)],
            "nothing": [],
        }.items():
            spans = [(step, _T0 + start, _T0 + end) for step, start, end in ran]
            told[f"builds: {name}"] = [
                [build.folder, build.step, build.started and round(build.started - _T0, 3), build.span_s]
                for build in ninja_builds(layout, spans)
            ]
        told["lanes"] = [
            lanes(spans)
            for spans in (
                [],
                [(0, 1)],
                [(0, 1), (1, 2)],
                [(0, 1.04), (1, 2)],
                [(0, 1.06), (1, 2)],
                [(1, 2), (0, 9), (2, 3)],
                [(0, 5), (1, 2), (3, 4), (3.5, 4)],
                [(0, 0), (0, 0), (0, 0.1)],
            )
        ]
        return _told(folder, told)


def _print(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def _unfit(name: str, found: Any) -> str:
    return "" if name == "plan" else f"it is no {name}: {found}"


def _plan(root: Path) -> dict[str, Any]:
    step = {
        "needs": [],
        "after": [],
        "commands": [],
        "proves": [],
        "inputs": [],
        "outputs": [],
        "memory_bytes": 0,
        "state": "to-do",
        "reason": "",
        "store": None,
    }
    names = ("done", "changed", "failed", "running", "never")
    steps = [{"id": name, "title": f"Title of {name}", "fingerprint": _print(name), **step} for name in names]
    steps[1]["fingerprint"] = _print("another")
    return {
        "schema": "xpubuild.plan/1",
        "recipe": "of the plan",
        "workspace": str(root),
        "lock_digest": "ab" * 32,
        "summary": {"jobs": "2"},
        "steps": steps,
        "obstacles": [],
    }


def _workspace(root: Path) -> None:
    """Make a workspace in which something failed and something still runs."""
    (root / "build").mkdir(parents=True)
    (root / "logs").mkdir()
    with Journal(root / "journal.db") as journal, mock.patch("time.time", return_value=_T0):
        journal.start_run("of the run", ["install", "https://me:secret@host.invalid/x"], "0")
        for name in ("done", "changed", "failed", "running"):
            journal.begin(name, _print(name))
        for name in ("done", "changed"):
            journal.done(name, evidence=[{"proof": "it is so", "files": 3}], witnesses={}, published=[])
        journal.failed("failed", "why it failed")
    text = "cc1plus: fatal error: error writing to x: No space left on device\n"
    (root / "logs" / "failed.log").write_text(text)


def _documents() -> str:
    with _folder() as folder:
        root = folder / "w"
        _workspace(root)
        layout = Layout(root)
        told: dict[str, Any] = {"without files": _document(root)}
        layout.plan.write_text(json.dumps(_plan(root)))
        layout.receipt.write_text("[1]")
        layout.verify_report.write_text("{")
        layout.verify_operators.mkdir()
        (layout.verify_operators / "operators.json").write_text('{"schema": "x"}')
        told["with a plan and broken files"] = _document(root)
        with WorkspaceLock(root, command="xpubuild test"):
            held = _document(root)
        told["held"] = [held["status"], [[step["id"], step["status"]] for step in held["steps"]]]
        told["of steps"] = {
            " ".join(states): [status_of(_steps(*states), held=held) for held in (False, True)]
            for states in (
                ("done",),
                ("done", "to do"),
                ("failed", "interrupted"),
                ("interrupted", "done"),
                (),
            )
        }
        return _told(folder, told)


def _steps(*states: Any) -> list[ReportStep]:
    return [ReportStep(state, state, state, None, None, "", 0, ()) for state in states]


def _document(root: Path) -> dict[str, Any]:
    with (
        mock.patch("time.time", return_value=_T0 + 100),
        mock.patch("xpubuild.workspace.report_document.os_facts", return_value={}),
        mock.patch("xpubuild.workspace.report_document.system_of", return_value=UNKNOWN_SYSTEM),
    ):
        made = report_document(root, _unfit)
    made["xpubuild"] = "{version}"
    for item in made["explanations"]:
        found = item["explanation"]["findings"][0]
        item["explanation"] = {"first": found["id"], "lines": item["explanation"]["lines"]}
    return made


_BUILDER = """#!/bin/sh
test -z "$STORAGE_FAILS" || { for n in 1 2 3; do echo "line $n"; done; echo; exit 7; }
echo "in $(basename "$PWD"): $BUILDAH_X $DOCKER_X $CONTAINERS_X $CONTAINER_X $REGISTRY_X $STORAGE_X" \\
  "$APPTAINER_X $SINGULARITY_X ($OTHER_X) $DOCKER_BUILDKIT"
for word; do echo "$word"; done
"""
_OWN = (
    "BUILDAH",
    "DOCKER",
    "CONTAINERS",
    "CONTAINER",
    "REGISTRY",
    "STORAGE",
    "APPTAINER",
    "SINGULARITY",
    "OTHER",
)


#: A folder that is removed, as the name of a temporary one.
_SCRATCH = re.compile(r"xpubuild-image-[\w-]+")


class _Lines:
    """A sink that keeps the lines of output, and which events come."""

    def __init__(self) -> None:
        self.told: list[list[Any]] = []

    def emit(self, event: Event) -> None:
        """Take one event."""
        about = {name: value for name, value in vars(event).items() if name not in ("time", "duration_s")}
        self.told.append([type(event).__name__, *about.values()])

    def close(self) -> None:
        """Nothing to put back."""


def _built() -> str:
    with _folder() as folder:
        told: dict[str, Any] = {}
        bin_ = folder / "bin"
        bin_.mkdir()
        for name in ("buildah", "docker", "singularity"):
            (bin_ / name).write_text(_BUILDER)
            (bin_ / name).chmod(0o755)
        values = {"PATH": f"{bin_}:/usr/bin:/bin", **{f"{name}_X": name.lower()[:3] for name in _OWN}}
        debian, ubuntu = (
            CELLS[f"quickstart-{name}"] for name in ("debian-12.Containerfile", "ubuntu-24.04.def")
        )
        cells: tuple[tuple[str, Cell, Asked], ...] = (
            ("first that is there", debian, Asked("debian-12", "containerfile", "0.2.0")),
            (
                "docker, with more",
                debian,
                Asked("debian-12", "containerfile", "0.2.0", "docker", "ours:1", ("--secret", "id=x")),
            ),
            ("apptainer", ubuntu, Asked("ubuntu-24.04", "apptainer", "0.2.0", more=("--force",))),
            ("apptainer, named", ubuntu, Asked("ubuntu-24.04", "apptainer", "0.2.0", tag="a b.sif")),
        )
        before = Path.cwd()
        os.chdir(folder)
        try:
            for name, cell, asked in cells:
                for file, fails in ((None, ""), (folder / "out" / "File", ""), (None, "yes")):
                    with mock.patch.dict(os.environ, {**values, "STORAGE_FAILS": fails}):
                        more = f"{', in a folder' if file else ''}{', failing' if fails else ''}"
                        told[f"{name}{more}"] = _build(cell, asked, file)
        finally:
            os.chdir(before)
        return _told(folder, json.loads(_SCRATCH.sub("{scratch}", json.dumps(told))))


def _build(cell: Cell, asked: Asked, file: Path | None) -> Any:
    sink, made = _Lines(), rendered(cell)
    if file is not None:
        made.write(file)
    found = _error(partial(asked.build, made, file, Cancel(), sink))
    about = {key: value for key, value in document(made, file, None).items() if key != "text"}
    log = Path(found["log"]).read_text("utf-8").splitlines()
    if asked.form == "apptainer":
        # Its tag is a path, by which the log is named.
        found = json.loads(re.sub(r"images/[0-9a-f]{12}\.log", "images/{digest}.log", json.dumps(found)))
    return {"built": found, "events": sink.told, "log": log, "document": about}


def _chosen() -> str:
    """Return the options, tags and steps of images by what they are of, and the lines of each base."""
    told: dict[str, Any] = {}
    asked: tuple[dict[str, Any], ...] = (
        {},
        {"target": "cpu"},
        {"with_": ("vision",), "without": ("ops",)},
        {"cxx11_abi": "1", "target": "cpu"},
        {"variant": "minimal"},
        {"arch": ("pvc", "bmg")},
        {"with_": ("vision", "audio"), "target": "cpu"},
    )
    forms: tuple[Format, ...] = ("containerfile", "apptainer")
    for options in asked:
        for form in forms:
            try:
                asked_for = Asked("ubuntu-24.04", form, "0.2.0")
                request = asked_for.render(PlanOptions(recipe="2.8", **options)).request
            except XpuBuildError as error:
                told[f"{options} {form}"] = [error.what, error.why, error.fix]
                continue
            told[f"{options} {form}"] = [
                list(request.options()),
                request.remade_by("2.8"),
                list(request.last_steps()),
            ]
    for name, base in bases().items():
        told[name] = {
            "about": [
                base.title,
                base.image,
                list(base.system.names),
                base.python,
                base.python_version,
                base.gcc,
            ],
            "caches": dict(base.caches),
            "env": dict(base.env),
            "lines": [
                list(base.install(stage, ("torch", "vision"), ("more",))) for stage in ("build", "runtime")
            ],
            "unattended": list(
                base.unattended(("apt-get install -y x", "dnf install -y x", "zypper install x"))
            ),
        }
    return dumped(json.loads(json.dumps(told)))


#: The name of the file -> the text in it.
TEXTS: dict[str, Callable[[], str]] = {
    "images-built": _built,
    "images-chosen": _chosen,
    "reports-documents": _documents,
    "reports-ninja": _ninja,
}
