"""A short run of ``make torture``: each kind of fault and of hostile input, from fixed seeds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.ordeal.attempts import SHARES
from support.ordeal.judge import LET_IN, LOST
from support.ordeal.table import read

SCRIPT = Path(__file__).resolve().parent.parent.parent / "scripts" / "torture.py"
# "mixed" is one of each kind that needs no file system of its own, on one workspace.
KINDS = ("mixed", "power", "full", *(kind for kind in SHARES if kind.startswith("hostile ")))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.needs("root", "mount", "mkfs.ext4", "strace", "netns"),
]


def test_one_attempt_of_each_kind_loses_nothing_and_lets_nothing_in(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    words = [word for kind in KINDS for word in ("--kind", kind)]
    argv = [sys.executable, SCRIPT, "--each", "--count", "1", "--jobs", "1", "--results", results, *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    found = read(results)
    assert {result.kind for result in found} == set(KINDS)
    assert not [result for result in found if result.verdict in (LOST, LET_IN)]
    # What is known already is not tried again.
    again = subprocess.run([*argv, "--table"], capture_output=True, text=True, check=True).stdout
    assert again.splitlines()[-1].startswith(f"| all | {len(KINDS)} |")
