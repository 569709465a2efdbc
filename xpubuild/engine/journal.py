"""What was done in a workspace: SQLite, durable after every step.

A step is done when its row has its fingerprint and says so; the row is written only after the checks passed.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from xpubuild.engine.files import explained
from xpubuild.engine.journal_cells import SCHEMA, unreadable
from xpubuild.engine.journal_errors import translated
from xpubuild.engine.journal_place import led, led_step
from xpubuild.engine.process import ProcessResult
from xpubuild.errors import ToolchainError
from xpubuild.frozen import frozen

_SETTLE = "INSERT INTO place (id, path) VALUES (1, ?) ON CONFLICT(id) DO UPDATE SET path=excluded.path"
_LEAD_STEP = (
    "UPDATE steps SET evidence=:evidence, witnesses=:witnesses, published=:published, detail=:detail"
    " WHERE step=:step"
)
_LEAD_MADE = "UPDATE OR REPLACE made SET path=? WHERE path=?"
_VERSION = 1
#: Seconds to wait for another process that is inside a transaction.
_PATIENCE_S = 30.0


@frozen
class StepRecord:
    """The last known state of a step; ``status`` is running, done or failed."""

    step: str
    fingerprint: str
    status: str
    started: float
    ended: float | None
    evidence: list[dict[str, Any]]
    witnesses: dict[str, list[int]]
    published: list[str]
    detail: str


@frozen
class Amount:
    """What a step took besides time and memory."""

    tuning: Mapping[str, str]
    """The environment that changed how fast it was, such as the number of jobs."""
    downloaded_bytes: int
    """As its commands counted them; 0 where they counted none."""
    disk_bytes: int
    """By how much what it makes grew."""


class Journal:
    """The journal of one workspace; safe to use from several threads of the process that holds the lock.

    A damaged journal is kept beside its place (``set_aside``) and a new one is begun.

    Raises:
        NoSpaceError: the disk is full.
        ToolchainError: it cannot be opened, or ``read_only`` is asked for and it is missing or damaged.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._mutex = threading.Lock()
        self.run_id = 0
        self.set_aside: Path | None = None
        if read_only and not path.exists():
            raise ToolchainError(
                f"the journal {path} does not exist",
                why="nothing was installed there, or it was removed",
                fix="run xpubuild install first, or pass the right folder with --workspace",
            )
        try:
            self._db = self._open_reading() if read_only else self._open("mode=rwc", _prepare)
        except sqlite3.DatabaseError as error:
            if read_only or not _is_damaged(error):
                raise translated(error, path) from error
            # A journal that is no database costs a rebuild, not the user's afternoon: keep it, start anew.
            self.set_aside = _put_aside(path)
            try:
                self._db = self._open("mode=rwc", _prepare)
            except sqlite3.DatabaseError as again:
                raise translated(again, path) from again

    def _open_reading(self) -> sqlite3.Connection:
        try:
            return self._open("mode=ro", _look)
        except sqlite3.OperationalError:
            # SQLite makes files beside a WAL database even to read it. Where one may only read, as in a
            # workspace of somebody else, it can be taken as it is, unless a log waits beside it.
            wal = self.path.with_name(f"{self.path.name}-wal")
            if os.access(self.path.parent, os.W_OK) or (wal.exists() and wal.stat().st_size):
                raise
            return self._open("mode=ro&immutable=1", _look)

    def _open(self, options: str, then: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
        db = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?{options}",
            uri=True,
            timeout=_PATIENCE_S,
            check_same_thread=False,
            isolation_level=None,
        )
        try:
            db.row_factory = sqlite3.Row
            then(db)
        except BaseException:
            db.close()
            raise
        return db

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with self._mutex:
            try:
                yield self._db
            except sqlite3.DatabaseError as error:
                raise translated(error, self.path) from error

    def start_run(self, recipe: str, argv: Sequence[str], version: str) -> None:
        """Open a run; commands and steps recorded from now on belong to it."""
        with self._write() as db:
            cursor = db.execute(
                "INSERT INTO runs (started, recipe, argv, version) VALUES (?, ?, ?, ?)",
                (time.time(), recipe, json.dumps(list(argv)), version),
            )
            self.run_id = int(cursor.lastrowid or 0)

    def end_run(self, status: str) -> None:
        """Close the run with ok, failed or cancelled."""
        with self._write() as db:
            db.execute("UPDATE runs SET ended=?, status=? WHERE id=?", (time.time(), status, self.run_id))

    def record(self, step: str) -> StepRecord | None:
        """Return what is known of a step."""
        with self._write() as db:
            row = db.execute("SELECT * FROM steps WHERE step=?", (step,)).fetchone()
        return None if row is None else _step(row)

    def records(self) -> list[StepRecord]:
        """Return all steps, in the order they were last started."""
        with self._write() as db:
            return [_step(row) for row in db.execute("SELECT * FROM steps ORDER BY started")]

    def begin(self, step: str, fingerprint: str) -> None:
        """Record that a step runs; what it published before is kept until the step is done again."""
        with self._write() as db:
            db.execute(
                "INSERT INTO steps (step, fingerprint, status, run, started) VALUES (?, ?, 'running', ?, ?)"
                " ON CONFLICT(step) DO UPDATE SET fingerprint=excluded.fingerprint, status='running',"
                " run=excluded.run, started=excluded.started, ended=NULL, detail=''",
                (step, fingerprint, self.run_id, time.time()),
            )

    def done(
        self,
        step: str,
        *,
        evidence: Sequence[Mapping[str, Any]],
        witnesses: Mapping[str, Sequence[int]],
        published: Sequence[str],
    ) -> None:
        """Record that the checks of a step passed."""
        with self._write() as db:
            db.execute(
                "UPDATE steps SET status='done', ended=?, evidence=?, witnesses=?, published=? WHERE step=?",
                (
                    time.time(),
                    json.dumps(list(evidence)),
                    json.dumps(dict(witnesses)),
                    json.dumps(list(published)),
                    step,
                ),
            )

    def refresh_witnesses(self, step: str, witnesses: Mapping[str, Sequence[int]]) -> None:
        """Record that files were touched and found unchanged."""
        with self._write() as db:
            db.execute("UPDATE steps SET witnesses=? WHERE step=?", (json.dumps(dict(witnesses)), step))

    def failed(self, step: str, detail: str) -> None:
        """Record that a step failed."""
        with self._write() as db:
            db.execute(
                "UPDATE steps SET status='failed', ended=?, detail=? WHERE step=?",
                (time.time(), detail, step),
            )

    def command(self, step: str, argv: Sequence[str], result: ProcessResult, log: str) -> None:
        """Record the time and memory of one command."""
        with self._write() as db:
            cursor = db.execute(
                "INSERT INTO commands (run, step, argv, started, duration_s, user_s, system_s, max_rss_bytes,"
                " peak_tree_bytes, returncode, log) VALUES (?,?,?,?,?,?,?,?,?,?,?)",
                (
                    self.run_id,
                    step,
                    json.dumps(list(argv)),
                    time.time() - result.duration_s,
                    result.duration_s,
                    result.user_s,
                    result.system_s,
                    result.max_rss_bytes,
                    result.peak_tree_bytes,
                    result.returncode,
                    log,
                ),
            )
            if len(result.memory) > 1:
                points = (cursor.lastrowid, json.dumps(result.memory))
                db.execute("INSERT INTO memory (id, points) VALUES (?, ?)", points)

    def memory(self) -> dict[int, list[list[float]]]:
        """Return id of a command -> its memory (bytes) at points in time (seconds after its start)."""
        with self._write() as db:
            rows = db.execute("SELECT * FROM memory").fetchall() if _has(db, "memory") else ()
        return {row["id"]: json.loads(row["points"]) for row in rows}

    def amount(self, step: str, tuning: Mapping[str, str], downloaded_bytes: int, disk_bytes: int) -> None:
        """Record of a step that is done what ``Amount`` has."""
        with self._write() as db:
            db.execute(
                "INSERT OR REPLACE INTO amounts (run, step, tuning, downloaded_bytes, disk_bytes)"
                " VALUES (?, ?, ?, ?, ?)",
                (self.run_id, step, json.dumps(dict(tuning)), downloaded_bytes, disk_bytes),
            )

    def amounts(self) -> dict[tuple[int, str], Amount]:
        """Return (run, step) -> what ``amount`` recorded."""
        with self._write() as db:
            rows = db.execute("SELECT * FROM amounts").fetchall() if _has(db, "amounts") else ()
        return {
            (row["run"], row["step"]): Amount(
                json.loads(row["tuning"]), int(row["downloaded_bytes"]), int(row["disk_bytes"])
            )
            for row in rows
        }

    def commands(self) -> list[dict[str, Any]]:
        """Return every command that was run here, oldest first."""
        with self._write() as db:
            rows = db.execute("SELECT * FROM commands ORDER BY id").fetchall()
        return [{**dict(row), "argv": json.loads(row["argv"])} for row in rows]

    def runs(self) -> list[dict[str, Any]]:
        """Return every run, oldest first."""
        with self._write() as db:
            rows = db.execute("SELECT * FROM runs ORDER BY id").fetchall()
        return [{**dict(row), "argv": json.loads(row["argv"])} for row in rows]

    def add_made(self, step: str, paths: Sequence[str]) -> None:
        """Record what this workspace makes before it exists; ``clean`` removes nothing else."""
        with self._write() as db:
            db.executemany(
                "INSERT INTO made (path, step) VALUES (?, ?)"
                " ON CONFLICT(path) DO UPDATE SET step=excluded.step",
                [(path, step) for path in paths],
            )

    def made(self) -> dict[str, str]:
        """Return path -> step of everything that was made here."""
        with self._write() as db:
            rows = db.execute("SELECT path, step FROM made ORDER BY path").fetchall()
        return {row["path"]: row["step"] for row in rows}

    def place(self) -> str | None:
        """Return the folder that this workspace was made in; None where the journal does not tell."""
        with self._write() as db:
            row = db.execute("SELECT path FROM place").fetchone() if _has(db, "place") else None
        return None if row is None else str(row["path"])

    def settle_at(self, place: str) -> None:
        """Record the folder that the workspace is made in."""
        with self._write() as db:
            db.execute(_SETTLE, (place,))

    def move(self, old: str, new: str) -> None:
        """Take note, as one change, that all of ``old`` lies in ``new`` now; what was done says where.

        Nothing of the old place is taken for this workspace's own any more: a copy may be in use there.
        """
        with self._write() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                for row in db.execute("SELECT * FROM steps").fetchall():
                    db.execute(_LEAD_STEP, {**led_step(dict(row), old, new), "step": row["step"]})
                for row in db.execute("SELECT path FROM made").fetchall():
                    db.execute(_LEAD_MADE, (led(row["path"], old, new), row["path"]))
                db.execute(_SETTLE, (new,))
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    def forget(self, steps: Sequence[str], *, removed: bool = True) -> None:
        """Remove the records of steps; unless their outputs were ``removed``, they stay ours to replace."""
        with self._write() as db:
            for table in ("steps", "made") if removed else ("steps",):
                db.executemany(f"DELETE FROM {table} WHERE step=?", [(step,) for step in steps])  # noqa: S608


def _has(db: sqlite3.Connection, table: str) -> bool:
    """Whether a journal, of an earlier xpubuild perhaps and opened to be read, has a table."""
    found = db.execute("SELECT 1 FROM sqlite_master WHERE type='table' AND name=?", (table,))
    return found.fetchone() is not None


def _step(row: sqlite3.Row) -> StepRecord:
    return StepRecord(
        step=row["step"],
        fingerprint=row["fingerprint"],
        status=row["status"],
        started=row["started"],
        ended=row["ended"],
        evidence=json.loads(row["evidence"]),
        witnesses=json.loads(row["witnesses"]),
        published=json.loads(row["published"]),
        detail=row["detail"],
    )


def _look(db: sqlite3.Connection) -> None:
    """Read every cell once: what cannot be used is found when the journal is opened, not in the middle."""
    # A text that is no UTF-8 would be an OperationalError, like a locked database.
    db.text_factory = bytes
    try:
        # A journal of an earlier xpubuild that is only read may lack a table.
        there = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type='table'")}
        found = unreadable(
            lambda table: (
                [_row(row) for row in db.execute(f"SELECT * FROM {table}")]  # noqa: S608 - names of our own
                if table.encode() in there
                else ()
            )
        )
    finally:
        db.text_factory = str
    if found:
        raise sqlite3.DatabaseError(found)


def _row(row: sqlite3.Row) -> dict[str, Any]:
    return dict(zip(row.keys(), row, strict=True))


def _prepare(db: sqlite3.Connection) -> None:
    found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise sqlite3.DatabaseError(found)
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version not in (0, _VERSION):
        raise sqlite3.OperationalError(f"it has format {version}, this xpubuild knows format {_VERSION}")
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    db.executescript(SCHEMA)
    db.execute(f"PRAGMA user_version={_VERSION}")
    _look(db)


def _put_aside(path: Path) -> Path:
    with explained(path, "setting a damaged journal aside"):
        aside = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
        path.replace(aside)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    return aside


def _is_damaged(error: sqlite3.DatabaseError) -> bool:
    """Whether a file is no sound database."""
    # "Not a database" and "malformed" have no class of their own; locked, full, not readable are Operational.
    return type(error) is sqlite3.DatabaseError
