"""git is run with our environment: no hook, prompt, helper or repository of the caller's comes through."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from integration.gitserver import Upstream, git, git_server

from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import Cancel
from xpubuild.errors import InterruptedByUserError, ToolchainError
from xpubuild.supply.git.failures import diagnose
from xpubuild.supply.git.git import Git


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    place = tmp_path / "work tree ü"
    place.mkdir()
    git("init", "--quiet", "-b", "main", cwd=place)
    (place / "a").write_text("1\n")
    git("add", "a", cwd=place)
    git("commit", "--quiet", "-m", "1", cwd=place)
    return place


def _hook(place: Path, name: str, witness: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_text(f"#!/bin/sh\ntouch '{witness}'\n")
    (place / name).chmod(0o755)


def test_the_callers_repository_does_not_leak(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Upstream.make(tmp_path / "other.git")
    other.commit({"b": "2\n"})
    for name in ("GIT_DIR", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"):
        monkeypatch.setenv(name, str(other.path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "no-index"))
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'core.bare=true'")
    ours = Git.open(base_environment())
    where = {"git_dir": repository / ".git", "work_tree": repository}
    assert ours.query(["ls-files"], **where).text == "a"
    assert "GIT_INDEX_FILE" not in ours.env
    lines: list[str] = []
    assert ours.run(["ls-files"], report=lines.append, **where).ok
    assert lines == ["a"]


def test_hooks_and_monitors_of_repository_and_user_do_not_run(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    witness = tmp_path / "ran"
    _hook(repository / ".git" / "hooks", "post-checkout", witness)
    _hook(tmp_path / "hooks", "post-checkout", witness)
    _hook(tmp_path / "hooks", "monitor", witness)
    config = tmp_path / "config"
    config.write_text(
        f"[core]\n\thooksPath = {tmp_path}/hooks\n\tfsmonitor = {tmp_path}/hooks/monitor\n"
        "[alias]\n\tstatus = !false\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    ours = Git.open(base_environment())
    where = {"git_dir": repository / ".git", "work_tree": repository}
    assert ours.run(["checkout", "--force", "--detach", "HEAD"], **where).ok
    assert ours.query(["status"], **where).ok
    assert not witness.exists()
    # The same hook does run for a git that is not ours: the test can fail.
    git("checkout", "main", cwd=repository, env={"GIT_CONFIG_GLOBAL": str(config)})
    assert witness.exists()


def test_a_remote_helper_is_refused_even_where_the_user_allows_it(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    config.write_text(
        '[protocol "ext"]\n\tallow = always\n[url "ext::sh -c touch% ran"]\n\tinsteadOf = https://h/\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    ours = Git.open(base_environment())
    run = ours.run(["fetch", "--", "https://h/x"], git_dir=repository / ".git")
    assert not run.ok
    assert diagnose(run).reason == "protocol"
    assert not list(tmp_path.rglob("ran"))


def test_the_users_instead_of_rules_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Upstream.make(tmp_path / "source.git")
    commit = source.commit({"a": "1\n"})
    config = tmp_path / "config"
    config.write_text(f'[url "{source.path}"]\n\tinsteadOf = https://unreachable.invalid/x\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    into = Upstream.make(tmp_path / "into.git")
    run = Git.open().run(["fetch", "--", "https://unreachable.invalid/x", commit], git_dir=into.path)
    assert run.ok


def test_a_silent_server_is_given_up_and_a_cancelled_fetch_ends_at_once(tmp_path: Path) -> None:
    into = Upstream.make(tmp_path / "into.git")
    ours = Git.open()
    with git_server(tmp_path) as server:
        server.faults.hang = True
        started = time.monotonic()
        run = ours.run(["fetch", "--", server.url("x.git")], git_dir=into.path, stall_s=0.5)
        assert run.cancelled
        assert diagnose(run).reason == "timeout"
        cancel = Cancel()
        threading.Timer(0.3, cancel.set, ("Ctrl-C",)).start()
        with pytest.raises(InterruptedByUserError):
            ours.run(["fetch", "--", server.url("x.git")], git_dir=into.path, cancel=cancel)
        assert time.monotonic() - started < 8


def test_secrets_of_the_environment_do_not_reach_the_report(tmp_path: Path) -> None:
    env = base_environment() | {"MY_TOKEN": "s3cr3t-token"}
    into = Upstream.make(tmp_path / "into.git")
    lines: list[str] = []
    run = Git.open(env).run(["fetch", "--", "/nowhere/s3cr3t-token"], git_dir=into.path, report=lines.append)
    answer = Git.open(env).query(["cat-file", "-p", "s3cr3t-token"], git_dir=into.path)
    assert "s3cr3t" not in "".join([*lines, *run.tail, answer.stderr])
    assert "****" in "".join(lines)


def test_a_git_that_is_too_old_or_missing_is_explained(tmp_path: Path) -> None:
    stand_in = tmp_path / "git"
    stand_in.write_text("#!/bin/sh\necho git version 2.31.8\n")
    stand_in.chmod(0o755)
    with pytest.raises(ToolchainError, match=r"git 2\.32 or newer") as caught:
        Git.open({"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert "2.31.8" in caught.value.why
    with pytest.raises(ToolchainError, match="'git' was not found"):
        Git.open({"PATH": str(tmp_path / "empty")})
