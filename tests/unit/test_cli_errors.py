"""A mistake on the command line: the documented status, a message that helps, nothing made, no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.cli import XPUBUILD, Xpubuild
from support.documents import check


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with an awkward name; return the folder of default workspaces, which is not there."""
    folder = tmp_path / "ä folder with spaces"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data"


def named(value: object) -> str | None:
    return " ".join(value) if isinstance(value, tuple) else None


MISTAKES = [
    (("isntall",), 2, "Did you mean 'install'?"),
    (("install", "--nope"), 2, "--nope"),
    (("install", "--editabl"), 2, "--editable"),
    (("plan", "quikstart"), 20, "did you mean 'quickstart'?"),
    (("doctor", "--only", "gpu.presnt"), 2, "did you mean 'gpu.present'?"),
    (("verify", "--python", sys.executable, "--only", "import.toch"), 2, "did you mean 'import.torch'"),
    (("plan", "--format", "xml"), 2, "xml"),
    (("plan", "no-such-recipe"), 20, "known recipes: "),
    (("install", "quickstart", "--workspace", "/proc/x"), 2, "/proc/x cannot be created"),
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
    (("plan", "quickstart", "--variant", "nope"), 2, "fix: omit --variant\n"),
    (("plan", "quickstart", "--target", "xpu"), 22, "cpu"),
    (("plan", "quickstart", "--python", "/no/such/python"), 2, "/no/such/python"),
    (("install", "quickstart", "--until", "nope"), 2, "its steps are: env"),
    (("status",), 2, "xpubuild install quickstart"),
    (("env", "--workspace", "nowhere"), 2, "why: the folder does not exist"),
    (("env", "--workspace", "."), 2, "has no journal.db"),
    (("plan", "quickstart", "--python", "2.3"), 40, "such as --python python2.3"),
    (("plan", "2.8", "--oneapi-root", "/no/such"), 2, "why: it does not exist"),
    (("recipes", "matrix", "--oneapi", "foo"), 2, "such as 2025.3, or none"),
    (("recipes", "matrix", "--gcc", "foo"), 2, "such as 13"),
    (("doctor", "--only", "nosuch"), 2, "the groups are"),
    (("check", "nosuch.whl"), 2, "nosuch.whl does not exist"),
    (("clean", "--yes"), 2, "nothing was installed there"),
    (("verify",), 2, "nothing was installed there"),
    (("verify", "--python", sys.executable, "--only", "no-such-check"), 2, "no-such-check"),
    (("check", "a.whl", "--lock-policy", "exact"), 2, "--lock-policy is about locks, and this checks wheels"),
]


@pytest.mark.parametrize(("arguments", "status", "text"), MISTAKES, ids=named)
def test_mistakes(
    xpubuild: Xpubuild, place: Path, arguments: tuple[str, ...], status: int, text: str
) -> None:
    result = xpubuild(*arguments)
    assert result.status == status, result.err
    assert text in result.err
    assert result.out == ""
    assert not place.exists()


def test_a_number_of_jobs_that_is_wrong_in_the_environment(xpubuild: Xpubuild, place: Path) -> None:
    for number in ("-5", "0", "4097", "9" * 5000, "٣"):
        result = xpubuild("plan", "quickstart", XPUBUILD_JOBS=number)
        assert result.status == 2
        assert f"--jobs (or XPUBUILD_JOBS) cannot be '{number:.40}'" in result.err
        assert "why: it must be a number from 1 to 4096, or auto" in result.err


BROKEN = {
    "no yaml": ("schema: 1\nname: [unclosed\n", "is not valid YAML"),
    "no mapping": ("- schema\n", "is not a mapping"),
    "empty": ("", "is not a mapping"),
    "unknown key": ("schema: 1\nname: broken\ntitle: t\nnonsense: 1\n", "nonsense: unknown key"),
    "twice": ("schema: 1\nname: broken\nname: broken\ntitle: t\n", "duplicate"),
    "missing key": ("schema: 1\nname: broken\n", "title: missing"),
    "other version": ("schema: 2\nname: broken\ntitle: t\n", "schema"),
    "bad commit": (
        """
        {schema: 1, name: broken, title: t,
         components: {a: {kind: source, dist: a, source: {url: /a, commit: abc}}}}
        """,
        "not a full commit id",
    ),
    "a tag that runs code": ("schema: !!python/object/apply:os.getcwd []\n", "is not valid YAML"),
}


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("command", ["install", "plan", "recipes check"])
def test_a_broken_recipe(xpubuild: Xpubuild, place: Path, kind: str, command: str) -> None:
    text, message = BROKEN[kind]
    Path("broken.yaml").write_text(text)
    result = xpubuild(*command.split(), "./broken.yaml")
    assert result.status == 20, result.err
    assert message in result.err
    assert not place.exists()


def test_a_recipe_that_cannot_be_read(xpubuild: Xpubuild, place: Path) -> None:
    Path("latin.yaml").write_bytes(b"schema: 1\nname: caf\xe9\n")
    result = xpubuild("plan", "./latin.yaml")
    assert result.status == 20
    assert "cannot be read" in result.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("plan", "no-such-recipe"), "recipe-invalid"),
        (("plan", "--jobs", "0"), "usage"),
        (("plan", "--no-such-option"), "usage"),
        (("plan", "--format", "xml"), "usage"),
    ],
    ids=named,
)
def test_with_json_a_mistake_is_a_document(xpubuild: Xpubuild, arguments: tuple[str, ...], code: str) -> None:
    result = xpubuild(*arguments, "--json")
    document = check(result.document(), "error")
    assert document["error"]["code"] == code
    assert document["error"]["exit_code"] == result.status
    assert result.err


def test_json_asked_for_in_the_environment_holds_for_errors_too(xpubuild: Xpubuild) -> None:
    result = xpubuild("plan", "no-such-recipe", XPUBUILD_JSON="1")
    assert result.status == 20
    check(result.document(), "error")


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = '"$0" -m xpubuild plan quickstart --format sh | head -n 1; echo "${PIPESTATUS[0]}"'
    argv = ["bash", "-c", command, sys.executable]
    result = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
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
import xpubuild.recipe.releases
def broken():
    sys.argv.append("--mirror=https://user:hunter22@example.org/y")
    raise ValueError("secret https://user:hunter22@example.org/x")
xpubuild.recipe.releases.catalogue = broken
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
        assert "hunter22" not in report.read_text("utf-8") + result.stderr


def test_an_install_that_fails_before_its_first_step_has_failed(xpubuild: Xpubuild, tmp_path: Path) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    (workspace / "receipt.json").write_text("{}")
    (workspace / "build").write_text("a file where the plan needs a folder")
    answer = xpubuild("install", "quickstart", "--workspace", str(workspace))
    assert answer.status == 40, answer.err
    status = xpubuild.ok("status", "--workspace", str(workspace))
    assert "failed" in status.out
    assert "interrupted" not in status.out
    (run,) = xpubuild.json("status", "--workspace", str(workspace))["runs"]
    assert run["status"] == "failed"
    assert run["ended"] is not None
