"""The table of scripts/verify-good-runs.py: runs by torch and suite, and each false alarm by name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parents[2] / "scripts" / "verify-good-runs.py"


def _run(suite: str, passed: int, *bad: str) -> dict[str, Any]:
    failed = [{"id": name, "status": "timeout", "detail": "no result", "output": []} for name in bad]
    counts = {"pass": passed, "fail": 0, "skip": 2, "crash": 0, "timeout": len(bad)}
    return {"suite": suite, "torch": "2.13.0", "device": "cpu", "s": 60.2, "counts": counts,
            "bad": failed}  # fmt: skip


def _summary(tmp_path: Path, *runs: dict[str, Any]) -> tuple[int, str]:
    out = tmp_path / "runs.jsonl"
    out.write_text("".join(json.dumps(one) + "\n" for one in runs))
    words = [sys.executable, str(SCRIPT), "--out", str(out)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout


def test_good_runs_are_added_up(tmp_path: Path) -> None:
    status, said = _summary(tmp_path, _run("smoke", 26), _run("smoke", 25), _run("full", 118))
    assert status == 0
    assert "| 2.13.0 | cpu | smoke | 2 | 51 | 4 | 0 | 60 to 60 |" in said
    assert "| 2.13.0 | cpu | full | 1 | 118 | 2 | 0 |" in said
    assert "No false alarm." in said


def test_a_false_alarm_is_named_and_ends_with_status_1(tmp_path: Path) -> None:
    status, said = _summary(tmp_path, _run("smoke", 26), _run("smoke", 25, "aten.large"))
    assert status == 1
    assert "- 2.13.0, smoke: aten.large (timeout): no result" in said
    assert "No false alarm." not in said
