"""Bad input and bad luck: the documented exit code, a message that helps, nothing of the user's lost."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from support import documents

from xpubuild.resources import recipes_dir

from .conftest import Cli, command

pytestmark = pytest.mark.xdist_group("refusals")


def _recipe(folder: Path, text: str, name: str = "mine") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return path


def _site(folder: Path, body: str) -> Path:
    return _recipe(folder, f"schema: 1\nname: mine\nextends: quickstart\n{body}")


def test_abi_0_is_refused_before_any_work(cli: Cli, tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    answer = cli("install", "quickstart", "--cxx11-abi", "0", "--workspace", workspace).must(22)
    assert "ABI 0" in answer.err
    assert "ABI 1" in answer.err
    assert "--cxx11-abi 1" in answer.err
    assert not workspace.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schema: 1\nname: [", "YAML"),
        ("schema: 1\nname: mine\nname: mine\n", "duplicate"),
        ("- a\n- b\n", "mapping"),
        ("schema: 1\nname: mine\ntitle: t\nfrobnicate: 1\n", "frobnicate"),
        ("schema: 2\nname: mine\ntitle: t\n", "schema"),
        ("schema: 1\nname: mine\nextends: mine\n", "it extends itself: 'mine' is this file"),
        ("schema: 1\nname: mine\nextends: nowhere\n", "nowhere"),
        ("", "mapping"),
        ("\x00\x01", "YAML"),
    ],
)
def test_a_broken_recipe(cli: Cli, tmp_path: Path, text: str, said: str) -> None:
    answer = cli("install", _recipe(tmp_path, text), "--workspace", tmp_path / "ws", "--json").must(20)
    error = documents.check(answer.document, "error")["error"]
    assert error["code"] == "recipe-invalid"
    assert said in error["what"] + error["why"]
    assert error["fix"]
    assert not (tmp_path / "ws").exists()


def test_an_unknown_key_deep_inside_is_named(cli: Cli, tmp_path: Path) -> None:
    recipe = _site(tmp_path, "components:\n  ops:\n    build: {comiler: host}\n")
    answer = cli("install", recipe, "--workspace", tmp_path / "ws").must(20)
    assert "components.ops.build.comiler" in answer.err


def test_an_unknown_recipe_lists_what_there_is(cli: Cli, tmp_path: Path) -> None:
    answer = cli("install", "nope", "--workspace", tmp_path / "ws").must(20)
    assert "quickstart" in answer.err


def test_a_recipe_that_is_no_text(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"\xff\xfe\x00name")
    cli("install", path, "--workspace", tmp_path / "ws").must(20)
    path.unlink()
    path.mkdir()
    cli("install", path, "--workspace", tmp_path / "ws").must(20)


def test_a_commit_that_the_embedded_sources_do_not_have(cli: Cli, tmp_path: Path) -> None:
    recipe = _site(tmp_path, f"components:\n  ops:\n    source: {{commit: '{'0' * 39}1'}}\n")
    answer = cli("install", recipe, "--workspace", tmp_path / "ws", "--until", "ops.source").must(31)
    assert "0" * 39 + "1" in answer.err
    assert "log:" in answer.err


def test_a_commit_that_is_no_commit(cli: Cli, tmp_path: Path) -> None:
    recipe = _site(tmp_path, "components:\n  ops:\n    source: {commit: main}\n")
    assert "main" in cli("install", recipe, "--workspace", tmp_path / "ws").must(20).err


def test_an_unreachable_host(cli: Cli, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/ops.git"
        body = f"components:\n  ops:\n    source: {{embedded: null, url: '{url}', commit: {'a' * 40}}}\n"
        answer = cli(
            "install", _site(tmp_path, body), "--workspace", tmp_path / "ws", "--until", "ops.source"
        )
    answer.must(30)
    assert "127.0.0.1" in answer.err


@pytest.mark.parametrize("url", ["ext::sh -c touch% /tmp/x", "-upload-pack=touch", "--help"])
def test_a_hostile_url(cli: Cli, tmp_path: Path, url: str) -> None:
    body = f"components:\n  ops:\n    source: {{embedded: null, url: '{url}', commit: {'a' * 40}}}\n"
    answer = cli("install", _site(tmp_path, body), "--workspace", tmp_path / "ws", "--until", "ops.source")
    assert answer.code in (20, 30, 31)
    assert "Traceback" not in answer.err


def test_a_damaged_or_lost_journal_costs_no_workspace(cli: Cli, tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    install = ("install", "quickstart", "--workspace", workspace, "--until", "ops.source")
    cli(*install).must(0)
    journal = workspace / "journal.db"
    for suffix in ("-wal", "-shm"):
        (workspace / f"journal.db{suffix}").unlink(missing_ok=True)
    journal.write_bytes(b"no database" * 300)
    advice = cli("status", "--workspace", workspace).must(40)
    assert "run the install again" in advice.err
    cli(*install).must(0)
    assert list(workspace.glob("journal.db.damaged-*"))
    journal.unlink()
    cli(*install).must(0)


def test_somebodys_folder_is_not_taken_for_a_workspace(cli: Cli, tmp_path: Path) -> None:
    mine = tmp_path / "project"
    (mine / "env").mkdir(parents=True)
    (mine / "env" / "thesis.tex").write_text("years of work")
    answer = cli("install", "quickstart", "--workspace", mine).must(2)
    assert "not empty" in answer.err
    assert (mine / "env" / "thesis.tex").read_text() == "years of work"
    file = tmp_path / "file"
    file.write_text("x")
    cli("install", "quickstart", "--workspace", file).must(2)


def test_a_folder_put_where_the_environment_belongs_is_kept(cli: Cli, tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    cli("install", "quickstart", "--workspace", workspace, "--until", "ops.source").must(0)
    (workspace / "env").mkdir()
    (workspace / "env" / "mine").write_text("mine")
    answer = cli("install", "quickstart", "--workspace", workspace, "--until", "env")
    assert answer.code in (2, 40)
    assert (workspace / "env" / "mine").read_text() == "mine"


@pytest.mark.needs("mount")
def test_a_full_disk_ends_with_52_and_carries_on_after_room_is_made(cli: Cli, tmp_path: Path) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", place], check=True)
    try:
        answer = cli("install", "quickstart", "--workspace", place / "ws").must(52)
        assert "--workspace" in answer.err
        # A recipe that says it needs little gets past the early check and fills the disk for real.
        recipe = _site(tmp_path, "needs: {disk_gib: 0.01}\n")
        answer = cli("install", recipe, "--workspace", place / "ws").must(52)
        assert "space" in answer.err
        (place / "mine").write_text("mine")
        subprocess.run(["mount", "-o", "remount,size=512m", place], check=True)
        cli("install", recipe, "--workspace", place / "ws", "--until", "ops.source").must(0)
        assert (place / "mine").read_text() == "mine"
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def test_two_installs_at_once(cli: Cli, tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    install = command("install", "quickstart", "--workspace", workspace, "--until", "toolchain")
    with subprocess.Popen(install, stderr=subprocess.DEVNULL) as first:
        until = time.monotonic() + 30
        while not (workspace / ".lock.owner").exists() and time.monotonic() < until:
            time.sleep(0.01)
        second = cli("install", "quickstart", "--workspace", workspace, "--lock-timeout", "0.2").must(75)
        assert str(first.pid) in second.err
        status = cli("status", "--workspace", workspace, "--json").must(0).document
        assert status["locked_by"]["pid"] == first.pid
        waiting = subprocess.Popen([*install[:-1], "env", "--lock-timeout", "300"], stderr=subprocess.DEVNULL)
        assert first.wait(300) == 0
        assert waiting.wait(300) == 0


def test_ctrl_c_leaves_nothing_behind_and_says_130(cli: Cli, tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    install = command("install", "quickstart", "--workspace", workspace, "--log-format", "jsonl")
    with subprocess.Popen(install, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            event = json.loads(line)
            if event["event"] == "step-started" and event["step"] == "toolchain":
                process.send_signal(signal.SIGINT)
                break
        rest = process.stderr.read()
        assert process.wait(60) == 130
    assert "Traceback" not in rest
    shown = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(workspace) not in shown
    cli("install", "quickstart", "--workspace", workspace, "--until", "env").must(0)


def test_recipes_that_ship_are_sound(cli: Cli) -> None:
    document = cli("recipes", "check", "--json").must(0).document
    documents.check(document, "recipes-check")
    assert len(document["recipes"]) == len(list(recipes_dir().glob("*.yaml")))
    assert cli("recipes", "list").must(0).out.count("quickstart") == 1
    documents.check(cli("recipes", "show", "quickstart", "--json").must(0).document, "recipe")


def test_wrong_options_are_usage_errors(cli: Cli, tmp_path: Path) -> None:
    for arguments in (
        ("install", "--frobnicate"),
        ("instal",),
        ("install", "quickstart", "--jobs", "many"),
        ("install", "quickstart", "--with", "nothing"),
        ("install", "quickstart", "--variant", "nothing"),
        ("install", "quickstart", "--until", "nothing"),
        ("status", "--workspace", str(tmp_path)),
        ("env", "--workspace", str(tmp_path)),
        ("clean", "--workspace", str(tmp_path)),
        ("verify", "--workspace", str(tmp_path)),
    ):
        cli(*arguments, "--workspace", tmp_path / "ws") if arguments[0] == "install" else None
        cli(*arguments).must(2)


def test_variables_stand_for_options(cli: Cli, tmp_path: Path) -> None:
    env = {"XPUBUILD_WORKSPACE": str(tmp_path / "by variable"), "XPUBUILD_JOBS": "1"}
    plan = cli("plan", "quickstart", "--json", env=env).must(0).document
    assert plan["workspace"] == str(tmp_path / "by variable")
    assert "requested" in plan["summary"]["jobs"]
    assert not (tmp_path / "by variable").exists()
    assert os.environ.get("XPUBUILD_WORKSPACE") is None
