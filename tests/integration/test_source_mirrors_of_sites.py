"""Sites lead git elsewhere by insteadOf: to a plain folder, to http, over ssh; pins are fetched there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from integration.gitserver import Upstream

from xpubuild.engine.environment import base_environment
from xpubuild.supply.git.checkout import checkout
from xpubuild.supply.git.pin import Pin

#: No such host can exist (RFC 2606).
UPSTREAM = "https://git.example.invalid/project"
#: ssh as git calls it: options, host, command. This one runs the command here.
SSH = """#!/bin/sh
while [ $# -gt 1 ]; do shift; done
echo "$1" >> "$(dirname "$0")/asked"
exec sh -c "$1"
"""


def fetched(tmp_path: Path, instead: str, commit: str, **settings: str) -> str:
    """Check the pin out with a git configuration as a user has it; return the content of its file."""
    home = tmp_path / "home"
    home.mkdir()
    lines = [f'[url "{instead}"]\n\tinsteadOf = https://git.example.invalid/\n']
    lines += [f"[core]\n\t{name} = {value}\n" for name, value in settings.items()]
    (home / ".gitconfig").write_text("".join(lines))
    env = base_environment({**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home / "none")})
    pin = Pin(url=f"{UPSTREAM}.git", commit=commit)
    said: list[str] = []
    checkout(pin, tmp_path / "tree", cache=tmp_path / "cache", jobs=1, env=env, report=said.append)
    return (tmp_path / "tree" / "word.txt").read_text()


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream.make(tmp_path / "site" / "project.git")


def test_ssh(tmp_path: Path, upstream: Upstream) -> None:
    commit = upstream.commit({"word.txt": "ssh"})
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(SSH)
    program.chmod(0o755)
    instead = f"ssh://git@mirror.example.invalid{upstream.path.parent}/"
    assert fetched(tmp_path, instead, commit, sshCommand=str(program)) == "ssh"
    assert "git-upload-pack" in (program.parent / "asked").read_text()
