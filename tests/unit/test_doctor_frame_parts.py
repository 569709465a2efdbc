"""Parts of doctor's frame: the bundle as a whole, what is made once, how a run begins."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.doctor_frame import a_context

from xpubuild.doctor import bundle, registry, start
from xpubuild.doctor.kit import Outcome
from xpubuild.errors import XpuBuildError


def test_the_newest_internal_errors_of_this_user_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for number in range(5):
        file = tmp_path / f"xpubuild-bug-{number}.txt"
        file.write_text("\n".join(f"line {line}" for line in range(450)))
        os.utime(file, (1000 - number, 1000 - number))
    (tmp_path / "other.txt").touch()
    found = bundle.internal_errors()
    assert list(found) == [f"xpubuild-bug-{number}.txt" for number in range(3)]
    assert found["xpubuild-bug-0.txt"] == [f"line {line}" for line in range(50, 450)]
    monkeypatch.setattr("xpubuild.doctor.bundle.os.geteuid", lambda: os.getuid() + 1)
    assert bundle.internal_errors() == {}


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
    assert "gpu.kernel_driver" in found


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
    monkeypatch.setattr("xpubuild.machine.host_report.host_report", lambda *_a, **_k: time.sleep(1))
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


def test_the_workspace_that_was_entered(tmp_path: Path) -> None:
    assert start.entered({"XPUBUILD_ENTERED": str(tmp_path)}) == tmp_path
    assert start.entered({"XPUBUILD_ENTERED": str(tmp_path / "gone")}) is None
    assert start.entered({}) is None
