"""The quickstart, installed once per run, and ways to call the command line as a user does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.needs import without_network
from support.shared import folder_of_run


@dataclass(frozen=True)
class Answer:
    """What a command line answered."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on standard output."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found

    def must(self, code: int) -> Answer:
        """Return the answer if it ended with this code and without a traceback."""
        assert self.code == code, f"exit {self.code}, wanted {code}\n{self.out[-2000:]}\n{self.err[-4000:]}"
        # One that is quoted, and so indented behind a bar, is a tool's: the end of its log is shown.
        assert not re.search(r"^\s*Traceback", self.err + self.out, re.MULTILINE)
        return self


Cli = Callable[..., Answer]


def command(*arguments: str | Path) -> list[str]:
    """Return the argv of a command line of xpubuild."""
    return [sys.executable, "-m", "xpubuild", *map(str, arguments)]


@pytest.fixture(scope="session")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """Call xpubuild in a process of its own; without ``network`` in a namespace that has no route."""
    # As a user has it who has uv and ccache; the other tests install with pip.
    usual = {"XPUBUILD_INSTALLER": "auto", "CCACHE_DIR": str(folder_of_run(tmp_path_factory) / "ccache")}

    def call(
        *arguments: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float = 800,
        network: bool = True,
    ) -> Answer:
        done = subprocess.run(
            [*(() if network else without_network()), *command(*arguments)],
            env={**os.environ, **usual, **(env or {})},
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    return call


@dataclass(frozen=True)
class Built:
    """A finished quickstart."""

    workspace: Path
    receipt: dict[str, Any]


@pytest.fixture(scope="session")
def built(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Install the quickstart, in a folder with a space and a letter beyond ASCII."""
    workspace = tmp_path_factory.mktemp("quick start é") / "ws"
    answer = cli("install", "quickstart", "--workspace", workspace, "--json").must(0)
    return Built(workspace, answer.document)


def git(folder: Path, *arguments: str) -> str:
    """Run git as some developer."""
    settings = ("user.name=Somebody", "user.email=somebody@example.invalid", "protocol.file.allow=always")
    argv = ["git", *(word for setting in settings for word in ("-c", setting)), *arguments]
    return subprocess.run(argv, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def kept_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that goes with a later run: removing an environment with torch can take half a minute."""
    return tmp_path_factory.mktemp("kept")
