"""Running command lines of xpubuild: in this process, which is quick, or as a child, as users do."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from xpubuild.cli.app import run

XPUBUILD = (sys.executable, "-m", "xpubuild")


@dataclass(frozen=True)
class Result:
    status: int
    out: str
    err: str

    def document(self) -> dict[str, Any]:
        """Return standard output as the one JSON document it must be."""
        document = json.loads(self.out)
        assert isinstance(document, dict)
        return document


class Xpubuild:
    """Runs command lines in this process; keyword arguments are environment variables of one call."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *arguments: str, **variables: str) -> Result:
        """Return how it ended, whatever the status."""
        with self._monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            self._capsys.readouterr()
            status = run(arguments)
        captured = self._capsys.readouterr()
        return Result(status, captured.out, captured.err)

    def ok(self, *arguments: str, **variables: str) -> Result:
        """Return how it ended, which must be with status 0."""
        result = self(*arguments, **variables)
        assert result.status == 0, result.err
        return result

    def json(self, *arguments: str, **variables: str) -> dict[str, Any]:
        """Return the document of a command line that ends with status 0."""
        return self.ok(*arguments, "--json", **variables).document()


def here(*arguments: str, **variables: str) -> Result:
    """Run a command line in this process, also where there is no fixture: a start takes half a second."""
    written = io.BytesIO(), io.BytesIO()
    out, err = (io.TextIOWrapper(stream, "utf-8", write_through=True) for stream in written)
    with pytest.MonkeyPatch.context() as patch:
        # The journal keeps the command line, which a repair runs again.
        patch.setattr(sys, "argv", ["xpubuild", *arguments])
        for name, value in variables.items():
            patch.setenv(name, value)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = run(arguments)
    return Result(status, *(stream.getvalue().decode() for stream in written))


def child(
    *arguments: str, timeout_s: float = 120, cwd: Path | None = None, before: Sequence[str] = (),
    **variables: str,
) -> Result:  # fmt: skip
    """Run a command line as a process of its own, with words before it."""
    env = {**os.environ, **variables}
    done = subprocess.run(
        [*before, *XPUBUILD, *arguments],
        env=env, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        timeout=timeout_s,
    )  # fmt: skip
    return Result(done.returncode, done.stdout, done.stderr)
