#!/usr/bin/env python3
"""Break a good torch in every way of tests/integration/verify_mutations*.yaml and see each one caught.

The tests do that on the CPU. This runs the same on a machine with a device: ``--device cuda`` takes the
mutations that are marked for devices. Needs PyYAML, and torch in the interpreter that ``--python`` names.
Ends with status 1 where a mutation was not caught by its check with its words.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from integration.mutations import mutate  # noqa: E402
from integration.verify_mutations import load, program  # noqa: E402

RUN = ROOT / "xpubuild" / "verify" / "suite" / "run.py"
_DEADLINE_S = 120


def attempt(mutation: dict[str, Any], device: str, python: str, folder: Path) -> tuple[bool, str]:
    """Return whether the mutation was caught by the check, and the output of the check."""
    place = mutate(folder, program(mutation, device), module=mutation["module"])
    path = os.pathsep.join([str(place), os.environ.get("PYTHONPATH", "")])
    environ = {**os.environ, **mutation.get("environ", {}), "PYTHONPATH": path}
    try:
        done = subprocess.run(
            [python, str(RUN), "--device", device, "--", mutation["check"]],
            env=environ, capture_output=True, text=True, check=False, timeout=_DEADLINE_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False, f"no result after {_DEADLINE_S} s"
    records = [json.loads(line[1:]) for line in done.stdout.split("\n") if line.startswith("\x1e")]
    result: dict[str, str] = next((r for r in records if r["event"] == "result"), {})
    said = f"{result.get('status', 'no result')}: {result.get('detail', done.stderr[-300:])}"
    wanted = "fail" if mutation["code"] else "pass"
    right = result.get("status") == wanted and mutation["detail"] in said + done.stdout + done.stderr
    return right, said


def main() -> int:
    """Run the tool."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda", "xpu"))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--pair", action="store_true", help="two devices are visible")
    parser.add_argument("--control", action="store_true", help="break nothing: the checks have to pass")
    parser.add_argument("--only", default="", help="part of the names to run")
    parser.add_argument("--file", default="", help="part of the names of the files to read")
    options = parser.parse_args()
    chosen = [
        mutation
        for mutation in load()
        if options.device in mutation["devices"]
        and options.only in mutation["name"]
        and options.file in mutation["file"]
        and (options.pair or not mutation.get("pair"))
        and mutation["module"] != "xpubuild_ops"
    ]
    if options.control:
        chosen = [
            {**mutation, "code": "", "detail": "pass"} for mutation in chosen if mutation.get("simulated")
        ]
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(options.jobs) as pool:
        answers = pool.map(
            lambda pair: attempt(pair[1], options.device, options.python, Path(scratch) / str(pair[0])),
            enumerate(chosen),
        )
        missed = 0
        for mutation, (caught, said) in zip(chosen, answers, strict=True):
            missed += not caught
            word = "caught" if caught else "MISSED"
            sys.stdout.write(f"{word}  {mutation['check']}  {mutation['name']}\n    {said[:200]}\n")
    sys.stdout.write(f"{len(chosen) - missed} of {len(chosen)} mutations caught on {options.device}\n")
    return 1 if missed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
