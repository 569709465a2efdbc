"""Hostile files in a workspace that is finished: its journal, its receipt, its other documents."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

from support.ordeal.attack import Attack
from support.ordeal.judge import CARRIED_ON, CLEAR
from support.ordeal.trial import Trial


def _in_workspace(attack: Attack, change: Callable[[Path], None]) -> str:
    """Change the finished workspace; the same install then carries on, or says what is wrong."""
    finished = attack.good.trial
    kept = attack.trial.place / "kept"
    subprocess.run(["cp", "-a", str(finished.workspace), str(kept)], check=True)
    try:
        change(finished.workspace)
        workspace = str(finished.workspace)
        for words in (
            ("status", "--workspace"),
            ("check",),
            ("plan", attack.trial.world.install[1], "--workspace"),
        ):
            attack.ask(*words, workspace, "--json", trial=finished)
        _activate(attack, finished)
        if attack.ask(*finished.install_words, trial=finished):
            return CLEAR
        finished.look()
        return CARRIED_ON
    finally:
        shutil.rmtree(finished.workspace)
        subprocess.run(["cp", "-a", str(kept), str(finished.workspace)], check=True)


def _activate(attack: Attack, finished: Trial) -> None:
    answer = finished.run("env", "--workspace", str(finished.workspace), "--shell", "bash")
    answer.must_be_clear()
    if answer.code == 0:
        subprocess.run(
            ["sh", "-c", 'eval "$1"', "_", answer.out], capture_output=True, check=False, timeout=60
        )


def journal(attack: Attack) -> str:
    """The journal: bytes, values of cells, something else in its place."""

    def change(workspace: Path) -> None:
        path = workspace / "journal.db"
        choice = attack.rng.random()
        if choice < 0.5:
            _change_cell(attack, path)
        elif choice < 0.9:
            path.write_bytes(attack.hostile.flipped(path.read_bytes()))
        else:
            attack.hostile.said = "a link in its place"
            path.unlink()
            path.symlink_to(attack.hostile.canary)

    return _in_workspace(attack, change)


def _change_cell(attack: Attack, path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        tables = [
            row[0]
            for row in database.execute("select name from sqlite_master where type = 'table' order by 1")
        ]
        table = attack.rng.choice(tables)
        column = attack.rng.choice([row[1] for row in database.execute(f"pragma table_info({table})")])
        attack.hostile.said = f"{table}.{column}"
        value = attack.hostile.value()
        if (isinstance(value, int) and abs(value) >= 1 << 63) or isinstance(value, list | dict):
            value = str(value)
        with contextlib.suppress(sqlite3.Error):  # of a type or a constraint: then nothing is changed
            value = str(value) if hasattr(value, "isoformat") else value
            database.execute(f"update {table} set {column} = ?", (value,))  # noqa: S608 - names of its own


def receipt(attack: Attack) -> str:
    """The receipt and the other small documents of a workspace."""

    def change(workspace: Path) -> None:
        names = ("receipt.json", "receipt.json", "build/plan.json", "env/.xpubuild-env.json",
                 "env/pyvenv.cfg", "build/held/tiny.txt", ".lock.owner",
                 "resolved.json", "build/verify.json")  # fmt: skip
        path = workspace / attack.rng.choice(names)
        good = path.read_bytes() if path.exists() else b"{}"
        made = attack.hostile.json(good) if path.suffix == ".json" else attack.hostile.flipped(good)
        attack.hostile.said = f"{path.name} {attack.hostile.said}"
        path.write_bytes(made)

    return _in_workspace(attack, change)
