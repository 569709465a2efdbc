"""What stops an install before its first step, and what it says on its way."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from support.engine import Recorder
from support.plan_files import target_for

from xpubuild.engine.events import Notice
from xpubuild.engine.model import Plan, Step
from xpubuild.errors import UsageError, XpuBuildError
from xpubuild.install.install import _warn, open_workspace, prepare_as_asked
from xpubuild.install.options import Options
from xpubuild.install.target import OneapiFacts, Prepared
from xpubuild.machine.envmark import MARK
from xpubuild.workspace.modulefile import Modules

GIB = 1 << 30


@pytest.mark.parametrize("kind", ["file", "below a file", "proc", "others"])
def test_a_folder_that_cannot_be_a_workspace(tmp_path: Path, kind: str) -> None:
    root = tmp_path / "ws"
    if kind in ("file", "below a file"):
        root.touch()
    if kind == "others":
        root.mkdir()
        for number in range(7):
            (root / f"file {number}").touch()
        (root / "journal.db-wal").touch()
    place = {"below a file": root / "x", "proc": Path("/proc/xpubuild")}.get(kind, root)
    with pytest.raises(XpuBuildError):
        open_workspace(place)


@pytest.mark.parametrize(
    "names",
    [
        (), ("receipt.json", "x"), (f"env/{MARK}", "x"), ("journal.db", "x"), ("journal.db-shm",),
        (".lock", ".lock.owner", "journal.db-wal"),
    ],
)  # fmt: skip
def test_a_folder_that_can_be_a_workspace(tmp_path: Path, names: tuple[str, ...]) -> None:
    for name in names:
        (tmp_path / "a" / "b" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "a" / "b" / name).touch()
    open_workspace(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def prepared(root: Path, summary: dict[str, Any] | None = None, **facts: Any) -> Prepared:
    known = {"host": {"disk": {"free_bytes": 2 * GIB}}, **facts}
    target = target_for("quickstart", facts=known, workspace=str(root))
    plan = Plan("quickstart", str(root), "d", (Step("env", "t"), Step("b", "t")), {}, {}, summary or {})
    return Prepared(target, plan, 2.0)


def test_what_is_surprising_is_said_before_the_build(tmp_path: Path) -> None:
    sink = Recorder()
    summary = {"chosen": "why", "loses": ["one", "two"], "notes": ["a note"]}
    facts = {"oneapi": OneapiFacts(warnings=("of oneAPI",)), "warnings": ("of the host",)}
    _warn(prepared(tmp_path / "a space", summary, **facts), sink)
    _warn(prepared(tmp_path), sink)
    notices = [event for event in sink.events if isinstance(event, Notice)]
    space = (
        "the path of the workspace has a space: torch.compile for the CPU cannot link there, everything else"
    )
    assert [(event.text, event.level) for event in notices] == [
        (f"{space} works", "warning"), ("of oneAPI", "warning"), ("of the host", "warning"),
        ("the build will lack: one", "warning"), ("the build will lack: two", "warning"),
        ("a note", "warning"), ("why", "info"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "given",
    [
        {"recipe": "x.lock.yaml", "lock_file": Path("y")},
        {"recipe": None, "locked": True},
        {"recipe": "quickstart", "locked": True},
    ],
)
def test_locks_that_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.lock.yaml").touch()
    with pytest.raises(XpuBuildError):
        prepare_as_asked(Options(**given))


def test_the_default_of_modules_is_set_on_purpose(tmp_path: Path) -> None:
    receipt: dict[str, Any] = {
        "recipe": "2.10", "lock_digest": "0123456789abcdef", "summary": {"python": "3.11.7"},
        "activation": {"oneapi": None},
    }  # fmt: skip
    workspace, rc = tmp_path / "ws", tmp_path / "xpubuild" / ".modulerc"
    workspace.mkdir()
    path = Modules(tmp_path, "lmod", ("intel/oneapi",)).write(workspace, receipt)
    name = path.name.removesuffix(".lua")
    assert re.fullmatch("2.10-py3.11-[0-9a-f]+", name)
    assert 'depends_on("intel/oneapi")' in path.read_text()
    assert not rc.exists()
    modules = Modules(tmp_path, "lmod", default=True)
    assert modules.write(workspace, receipt) == path
    assert rc.read_text() == f"#%Module\n# Made by xpubuild.\nmodule-version xpubuild/{name} default\n"
    assert {file.stat().st_mode & 0o777 for file in (path, rc)} == {0o644}
    # The mark counts at the top of a file alone.
    path.write_text(" " * 400 + path.read_text())
    with pytest.raises(UsageError, match="not a modulefile"):
        modules.require_place(workspace, receipt)
