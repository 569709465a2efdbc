"""Programs that note how they are called, and answer what a test says."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.files import lay, script

_NOTE = """\
import json, os, sys
given = sys.stdin.read() if not sys.stdin.isatty() else ""
note = {"argv": sys.argv[2:], "env": dict(os.environ), "cwd": os.getcwd(), "stdin": given}
open(sys.argv[1], "a").write(json.dumps(note) + "\\n")
"""


@dataclass(frozen=True)
class Program:
    path: str
    notes: Path

    def calls(self) -> list[dict[str, Any]]:
        """Return argv, env, cwd and stdin of each call."""
        text = self.notes.read_text("utf-8") if self.notes.exists() else ""
        return [json.loads(line) for line in text.splitlines()]


def program(folder: Path, name: str, says: str = "") -> Program:
    """Make a program that notes each call and then runs a few lines of shell."""
    note, notes = lay(folder, {f".{name}.py": _NOTE}) / f".{name}.py", folder / f".{name}.jsonl"
    words = " ".join(shlex.quote(word) for word in (sys.executable, "-I", str(note), str(notes)))
    return Program(str(script(folder / name, f'{words} "$@"\n{says}')), notes)


def sleeper(folder: Path, name: str) -> Program:
    """Make a program that does nothing until it is stopped."""
    return Program(str(script(folder / name, "exec sleep 600")), folder / f".{name}.jsonl")
