"""An install of steps that take no time: what it writes, says and hands out; copies of served mirrors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.engine import Recorder, make_plan, shell
from support.plan_files import target_for

from xpubuild.engine.events import Notice
from xpubuild.engine.journal import Journal
from xpubuild.engine.model import Plan, Step
from xpubuild.engine.process import Cancel
from xpubuild.errors import BuildError, UsageError
from xpubuild.install.install import apply
from xpubuild.install.modulefiles import Modules
from xpubuild.install.target import Prepared
from xpubuild.workspace.layout import Layout


def prepared(root: Path, *scripts: str, files: dict[str, str] | None = None) -> Prepared:
    steps = [Step(f"step{number}", "t", commands=(shell(text),)) for number, text in enumerate(scripts)]
    plan: Plan = replace(make_plan(root, *steps), files=files or {})
    facts = {"host": {"disk": {"free_bytes": None}}}
    return Prepared(target_for("quickstart", workspace=str(root), facts=facts), plan, 1.0)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "ws"


def test_an_install_writes_files_receipt_and_modulefile(root: Path, tmp_path: Path) -> None:
    files = {str(root / "build" / "a" / "b.txt"): "text\n", str(root / "build" / "run"): "#!/bin/sh\n"}
    modules = Modules(tmp_path / "modules", "tcl")
    given, sink = prepared(root, "true", "echo hello", files=files), Recorder()
    receipt = apply(given, sink=sink, cancel=Cancel(), modules=modules)
    module = tmp_path / "modules" / "xpubuild" / "test"
    assert (receipt["status"], receipt["modulefile"], module.is_file()) == ("complete", str(module), True)
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
    again = apply(given, sink=sink, cancel=Cancel(), until="step0", modules=modules)
    assert (again["ran"], again["up_to_date"]) == ([], ["step0"])
    module.write_text("of somebody")
    with pytest.raises(UsageError):
        apply(given, sink=sink, cancel=Cancel(), modules=modules)


def test_what_failed_and_what_was_damaged_is_told(root: Path, tmp_path: Path) -> None:
    modules = Modules(tmp_path / "modules", "tcl")
    with pytest.raises(BuildError):
        apply(prepared(root, "true", "exit 3"), sink=Recorder(), cancel=Cancel(), modules=modules)
    assert not modules.folder.exists()
    assert '"status": "partial"' in Layout(root).receipt.read_text()
    half = apply(
        prepared(root, "true", "false"), sink=Recorder(), cancel=Cancel(), until="step0", modules=modules
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
