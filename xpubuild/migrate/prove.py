"""Runs a program with trip-wires: what ran on the device, what fell back to the CPU, what asked for CUDA."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from xpubuild.engine.process import Cancel, run
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import MigrateError, UsageError
from xpubuild.migrate.migrate_json import MigrateProof
from xpubuild.resources import suite_dir
from xpubuild.verify.target import Target

_WIRES = Path(__file__).with_name("wires")
_PYTHONS = ("python", "python3")


def prove(
    words: Sequence[str], target: Target, *, on_line: Callable[[str], None], cancel: Cancel
) -> MigrateProof:
    """Run a command in the environment of a target; return what its processes noted.

    Raises:
        UsageError: there is no command.
        ToolchainError: it cannot be started.
    """
    if not words:
        raise UsageError(
            "no command was specified",
            fix="put it behind --",
            commands=("xpubuild migrate --prove --python EXE -- python train.py",),
        )
    argv = [str(target.python) if words[0] in _PYTHONS else words[0], *words[1:]]
    with scratch_folder("proof") as folder:
        notes = folder / "notes.jsonl"
        path = [str(_WIRES), *filter(None, [os.environ.get("PYTHONPATH")])]
        env = target.env | {
            "XPUBUILD_PROOF": str(notes), "XPUBUILD_PROOF_SUITE": str(suite_dir()),
            "PYTHONPATH": os.pathsep.join(path), "PYTORCH_DEBUG_XPU_FALLBACK": "1",
            "PYTHONUNBUFFERED": "1",
        }  # fmt: skip
        ended = run(argv, env=env, on_line=on_line, cancel=cancel)
        lines = notes.read_text("utf-8").splitlines() if notes.is_file() else []
    processes: list[Any] = [json.loads(line) for line in lines]
    return {
        "schema": "xpubuild.migrate-proof/1", "command": list(words), "status": ended.returncode,
        "stand_in": target.stand_in, "processes": processes,
    }  # fmt: skip


def verdict_of(proof: MigrateProof) -> MigrateError | None:
    """Return the error for what does not prove that the program ran on the device."""
    processes = proof["processes"]
    why = []
    if proof["status"]:
        why.append(f"the command ended with status {proof['status']}")
    if not processes:
        why.append("no process imported torch, or it ignores PYTHONPATH")
    elif not any(item["kernels"] or item["memory_bytes"] for item in processes):
        why.append("nothing ran on a device")
    trips = sum(len(item["trips"]) for item in processes)
    fallbacks = {text for item in processes for text in item["fallbacks"]}
    if trips:
        why.append(f"{trips} lines asked for CUDA")
    if fallbacks:
        why.append(f"{len(fallbacks)} operators ran on the CPU")
    if not why:
        return None
    return MigrateError(
        "the program is not proved to run on the device",
        why="; ".join(why),
        fix="change what the table lists, then run the same command again",
    )
