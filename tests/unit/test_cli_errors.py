"""A mistake on the command line: the documented status, a message that helps, nothing made, no traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.documents import check

Result = subprocess.CompletedProcess[str]
XPUBUILD = (sys.executable, "-m", "xpubuild")


@pytest.fixture
def xpubuild(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Return a function that runs xpubuild in a folder with awkward names and a home without workspaces."""
    folder = tmp_path / "ä folder with spaces"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    def call(*arguments: str, **variables: str) -> Result:
        return subprocess.run(
            [*XPUBUILD, *arguments],
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return call


MISTAKES = [
    (("isntall",), 2, "Did you mean 'install'?"),
    (("install", "--nope"), 2, "--nope"),
    (("plan", "--format", "xml"), 2, "xml"),
    (("plan", "no-such-recipe"), 20, "known are: quickstart"),
    (("plan", ""), 20, "no recipe named ''"),
    (("plan", "./no.yaml"), 20, "./no.yaml was not found"),
    (("recipes", "show", "no-such-recipe"), 20, "no-such-recipe"),
    (("recipes", "check", "./no.yaml"), 20, "./no.yaml"),
    (("plan", "quickstart", "--jobs", "0"), 2, "--jobs"),
    (("plan", "quickstart", "--jobs", "many"), 2, "many"),
    (("plan", "quickstart", "--jobs", "²"), 2, "²"),
    (("plan", "quickstart", "--with", "nope"), 2, "its components are: torch, ops"),
    (("plan", "quickstart", "--with", "ops", "--without", "ops"), 2, "--without"),
    (("plan", "quickstart", "--without", "torch"), 22, "needs torch"),
    (("plan", "quickstart", "--variant", "nope"), 2, "nope"),
    (("plan", "quickstart", "--target", "xpu"), 22, "cpu"),
    (("plan", "quickstart", "--python", "/no/such/python"), 2, "/no/such/python"),
    (("install", "quickstart", "--until", "nope"), 2, "its steps are: env"),
    (("status",), 2, "xpubuild install quickstart"),
    (("env", "--workspace", "nowhere"), 2, "nowhere"),
    (("clean", "--yes"), 2, "nothing was installed there"),
    (("verify",), 2, "nothing was installed there"),
    (("verify", "--python", sys.executable, "--only", "no-such-check"), 2, "no-such-check"),
    (("audit",), 2, "WHEELS"),
]


@pytest.mark.parametrize(("arguments", "status", "text"), MISTAKES, ids=lambda item: " ".join(map(str, item)))
def test_mistakes(
    xpubuild: Callable[..., Result], arguments: tuple[str, ...], status: int, text: str, tmp_path: Path
) -> None:
    result = xpubuild(*arguments)
    assert result.returncode == status, result.stderr
    assert text in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert "internal error" not in result.stderr
    assert not (tmp_path / "data").exists()


def test_the_wrong_abi_is_refused_before_any_work(xpubuild: Callable[..., Result], tmp_path: Path) -> None:
    result = xpubuild("install", "quickstart", "--cxx11-abi", "0", "--workspace", str(tmp_path / "w"))
    assert result.returncode == 22
    assert "C++11 ABI 0 was asked for" in result.stderr
    assert "has ABI 1" in result.stderr
    assert "xpubuild install quickstart --cxx11-abi 1" in result.stderr
    assert not (tmp_path / "w").exists()


BROKEN = {
    "no yaml": ("schema: 1\nname: [unclosed\n", "is not valid YAML"),
    "no mapping": ("- schema\n", "is not a mapping"),
    "empty": ("", "is not a mapping"),
    "unknown key": ("schema: 1\nname: broken\ntitle: t\nnonsense: 1\n", "nonsense: unknown key"),
    "twice": ("schema: 1\nname: broken\nname: broken\ntitle: t\n", "duplicate"),
    "missing key": ("schema: 1\nname: broken\n", "title: missing"),
    "other version": ("schema: 2\nname: broken\ntitle: t\n", "schema"),
    "bad commit": (
        "schema: 1\nname: broken\ntitle: t\ncomponents:\n  a:\n    kind: source\n    dist: a\n"
        "    source: {url: 'https://git.example.org/a.git', commit: abc}\n",
        "not a full commit id",
    ),
    "a circle": ("schema: 1\nname: broken\ntitle: t\nextends: broken\n", "extend"),
    "a tag that runs code": ("schema: !!python/object/apply:os.getcwd []\n", "is not valid YAML"),
}


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("command", ["install", "plan", "recipes check"])
def test_a_broken_recipe(xpubuild: Callable[..., Result], kind: str, command: str) -> None:
    text, message = BROKEN[kind]
    Path("broken.yaml").write_text(text)
    result = xpubuild(*command.split(), "./broken.yaml")
    assert result.returncode == 20, result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert "internal error" not in result.stderr


def test_a_recipe_that_cannot_be_read(xpubuild: Callable[..., Result]) -> None:
    Path("latin.yaml").write_bytes(b"schema: 1\nname: caf\xe9\n")
    result = xpubuild("plan", "./latin.yaml")
    assert result.returncode == 20
    assert "cannot be read" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("plan", "no-such-recipe"), "recipe-invalid"),
        (("plan", "--jobs", "0"), "usage"),
        (("plan", "--no-such-option"), "usage"),
        (("plan", "--format", "xml"), "usage"),
    ],
    ids=lambda item: " ".join(item) if isinstance(item, tuple) else "",
)
def test_with_json_a_mistake_is_a_document(
    xpubuild: Callable[..., Result], arguments: tuple[str, ...], code: str
) -> None:
    result = xpubuild(*arguments, "--json")
    document = check(json.loads(result.stdout), "error")
    assert document["error"]["code"] == code
    assert document["error"]["exit_code"] == result.returncode
    assert result.stderr


def test_json_asked_for_in_the_environment_holds_for_errors_too(xpubuild: Callable[..., Result]) -> None:
    result = xpubuild("plan", "no-such-recipe", XPUBUILD_JSON="1")
    assert result.returncode == 20
    check(json.loads(result.stdout), "error")


def test_an_empty_workspace_is_no_workspace(xpubuild: Callable[..., Result]) -> None:
    """A script's --workspace "$W" with an unset W must not mean the default one."""
    for command in ("install", "plan", "clean", "status", "env"):
        result = xpubuild(command, "--workspace", "")
        assert result.returncode == 2, f"{command}: {result.stdout}"
        assert "--workspace" in result.stderr


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = (
        f'"{sys.executable}" -m xpubuild plan quickstart --format sh | head -n 1; echo "${{PIPESTATUS[0]}}"'
    )
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.splitlines() == ["#!/usr/bin/env bash", "0"]
    assert result.stderr == ""


def test_control_c_while_planning(tmp_path: Path) -> None:
    """A compiler that hangs keeps the planner waiting; Ctrl-C ends both."""
    stuck = tmp_path / "g++"
    stuck.write_text(f"#!/bin/sh\ntouch '{tmp_path}/started'\nsleep 300\n")
    stuck.chmod(0o755)
    env = {**os.environ, "CXX": str(stuck)}
    child = subprocess.Popen([*XPUBUILD, "plan"], env=env, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 30
        while not (tmp_path / "started").exists():
            assert child.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=30)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 130
    assert "interrupted" in errors
    assert "Traceback" not in errors


BUG = """
import sys
sys.argv = ["xpubuild", "recipes", "list"]
import xpubuild.recipe.catalogue
def broken():
    raise ValueError("secret https://user:hunter22@example.org/x")
xpubuild.recipe.catalogue.catalogue = broken
from xpubuild.__main__ import main
main()
"""


@pytest.mark.parametrize("debug", [False, True])
def test_a_bug_ends_with_status_1_and_a_file_to_send(tmp_path: Path, debug: bool) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path)} | ({"XPUBUILD_DEBUG": "1"} if debug else {})
    result = subprocess.run(
        [sys.executable, "-c", BUG], env=env, capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 1
    assert ("Traceback" in result.stderr) is debug
    if not debug:
        (report,) = tmp_path.glob("xpubuild-bug-*.txt")
        assert str(report) in result.stderr
        assert "ValueError" in report.read_text("utf-8")
        assert "hunter22" not in report.read_text("utf-8")
