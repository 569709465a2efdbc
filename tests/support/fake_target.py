"""A fake of an interpreter with torch: a script that sends records as the suite does, and ends as it is told.

It runs in place of the target's Python, so harness and child are the real ones and no torch is needed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TORCH = {"version": "2.13.0+fake", "git_version": "abc"}
DEVICE = {"type": "cpu", "name": "fake device"}
METRICS = {"gemm_tflops": 2.0, "launch_us": 4.0, "error": 0.5}

_SCRIPT = r'''
import json, os, signal, sys, time
from pathlib import Path

here, words = Path(__file__).resolve().parent, sys.argv[2:]


def send(**record):
    os.write(1, b"\x1e" + json.dumps(record).encode() + b"\n")


def checked(name, how):
    """Do as a check that ends like this; return its status."""
    print("output of", name, flush=True)
    if how == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif how == "hang":
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback
        time.sleep(600)
    elif how == "exit":
        sys.exit(5)
    elif how == "half":
        os.write(1, b'\x1e{"event": "result", "id": "%s", "sta' % name.encode())
        sys.exit(0)
    elif how == "garbage":
        os.write(1, b'\x1e{\n\x1e[1]\nx\x1e{"id": 1}\n\x1e{"event": "result"}\n\xff\xfe\n')
        send(event="start", id="aten.unknown")
        send(event="result", id="aten.unknown", status="pass", duration_s=1, detail="", metrics={})
        send(event="result", id=name, status="pass")
        send(event="else", id=name)
    elif how == "flood":
        for number in range(50_000):
            print("line", number)
        sys.stdout.flush()
    return how if how in ("fail", "skip") else "pass"


if words == ["--hello"]:
    send(event="hello", version=[3, 12, 0], implementation="fake")
    sys.exit()
with open(here / "runs.jsonl", "a") as log:
    log.write(json.dumps({"words": words, "env": dict(os.environ)}) + "\n")
script = json.loads((here / "script.json").read_text())
for name in words[words.index("--") + 1 :]:
    how = script.get(name, "pass")
    if how == "early":
        sys.exit(3)
    send(event="start", id=name)
    status = checked(name, how)
    if name == "import.torch":
        send(event="facts", torch=TORCH)
    if name == "device.availability":
        send(event="facts", device=DEVICE)
    send(event="result", id=name, status=status, duration_s=0.25, detail="detail of " + name,
         metrics=METRICS, warnings=["warning of " + name])
'''


class FakeTarget:
    """The script in a folder; ``script`` maps ids of checks to how they end (else they pass)."""

    def __init__(self, folder: Path, script: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.python = folder / "python"
        self._runs = folder / "runs.jsonl"
        (folder / "script.json").write_text(json.dumps(script))
        self.python.write_text(
            f"#!{sys.executable}\nTORCH = {TORCH}\nDEVICE = {DEVICE}\nMETRICS = {METRICS}\n{_SCRIPT}"
        )
        self.python.chmod(0o755)

    def runs(self) -> list[dict[str, Any]]:
        """Return the words and the environment of each process that was to run checks."""
        return [json.loads(line) for line in self._runs.read_text().splitlines()]

    def groups(self) -> list[list[str]]:
        return [run["words"][run["words"].index("--") + 1 :] for run in self.runs()]
