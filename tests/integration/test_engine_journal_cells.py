"""What the cells of a journal may hold: each column is looked at when the journal is opened."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from xpubuild.engine.journal import Journal
from xpubuild.engine.journal_cells import SCHEMA
from xpubuild.engine.process import ProcessResult
from xpubuild.errors import ToolchainError

RESULT = ProcessResult(
    argv=("/bin/true",), returncode=0, duration_s=1.5, user_s=1.0, system_s=0.25, max_rss_bytes=1 << 20,
    peak_tree_bytes=1 << 21, memory=((0.0, 1 << 20), (0.5, 1 << 21)),
)  # fmt: skip


def columns() -> Iterator[tuple[str, str]]:
    """Yield every column of every table, but for the keys that SQLite numbers itself."""
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.executescript(SCHEMA)
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall():
            names = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            yield from ((table, name) for name in names if name != "id")


@pytest.mark.parametrize(("table", "column"), [*columns()])
def test_no_cell_holds_something_else_than_its_column_says(tmp_path: Path, table: str, column: str) -> None:
    path = tmp_path / "journal.db"
    with Journal(path) as journal:
        journal.start_run("r", ["install"], "0")
        journal.begin("a", "f")
        journal.command("a", ["true"], RESULT, "log")
        journal.amount("a", {"MAX_JOBS": "2"}, 1, 2)
        journal.add_made("a", ["/x"])
        journal.settle_at(str(path.parent))
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE {table} SET {column}=?", (b"\xffhttps://me:hunter2@host",))  # noqa: S608
    with pytest.raises(ToolchainError, match="cannot be used"):
        Journal(path, read_only=True)
