"""What was done in a workspace: SQLite, durable after every step.

A step is done when its entry has its fingerprint and says so; it is written only after the checks passed. One
table has everything: each entry is a JSON text of a kind and a key, with a checksum of our own, since SQLite
checks its structure alone. A journal that cannot be read is set aside whole, and the steps are proved again.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sqlite3
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

from xpubuild.engine.files import explained, no_space
from xpubuild.engine.process import ProcessResult
from xpubuild.errors import NoSpaceError, ToolchainError
from xpubuild.frozen import frozen

_VERSION = 3
_TABLE = (
    "CREATE TABLE entries (kind TEXT NOT NULL, key TEXT NOT NULL, data TEXT NOT NULL, mark INTEGER NOT NULL,"
    " PRIMARY KEY (kind, key)) WITHOUT ROWID"
)
#: Seconds to wait for another process that is inside a transaction.
_PATIENCE_S = 30.0
#: Of version 0.2, "memory" held what is now in each command.
_KINDS = frozenset({"run", "step", "command", "memory", "made", "place"})


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
    run: int = 0


@frozen
class RanCommand:
    """One process that was run, with its cost."""

    step: str
    argv: tuple[str, ...]
    started: float
    """Seconds since the epoch."""
    duration_s: float
    user_s: float
    system_s: float
    max_rss_bytes: int
    """Of its largest process."""
    peak_bytes: int
    """Of the whole process tree at one moment."""
    returncode: int
    log: str


def ran_command(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a command of the journal as documents have it; journals of before named its peak otherwise."""
    row = {"peak_bytes": row.get("peak_tree_bytes", 0), **row}
    return {field.name: row[field.name] for field in fields(RanCommand)}


class Journal:
    """The journal of one workspace; safe to use from several threads of the process that holds the lock.

    A damaged journal is kept beside its place (``set_aside``) and a new one is begun.

    Raises:
        NoSpaceError: the disk is full.
        ToolchainError: it cannot be opened, has another format, or ``read_only`` is asked for and it is
            missing or damaged.
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
        while True:
            try:
                self._db = self._open_reading() if read_only else self._open("mode=rwc", _prepare)
            except sqlite3.DatabaseError as error:
                if read_only or self.set_aside is not None or not self._is_damage(error):
                    raise translated(error, path) from error
            else:
                return
            # A journal that is no database costs a rebuild, not the user's afternoon: keep it, start again.
            self.set_aside = _put_aside(path)

    def _is_damage(self, error: sqlite3.DatabaseError) -> bool:
        """Whether it cannot be read whatever one waits for or frees."""
        # "Not a database" and "malformed" have no class of their own; locked, full, not readable have. What
        # the header says of formats and of writing has not.
        if type(error) is sqlite3.DatabaseError or "unsupported file format" in str(error):
            return True
        return "readonly database" in str(error) and os.access(self.path, os.W_OK)

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
        uri = f"{self.path.absolute().as_uri()}?{options}"
        db = sqlite3.connect(uri, _PATIENCE_S, uri=True, check_same_thread=False, isolation_level=None)
        try:
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
    def _using(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """Yield the database; what is written in the block becomes one change."""
        with self._mutex:
            try:
                if write:
                    self._db.execute("BEGIN IMMEDIATE")
                yield self._db
                if write:
                    self._db.execute("COMMIT")
            except BaseException as error:
                if self._db.in_transaction:
                    with contextlib.suppress(sqlite3.Error):
                        self._db.execute("ROLLBACK")
                if isinstance(error, sqlite3.DatabaseError):
                    raise translated(error, self.path) from error
                raise

    def _all(self, kind: str) -> dict[str, Any]:
        with self._using() as db:
            return _entries(db, kind)

    def _change(self, kind: str, key: str, **changes: Any) -> None:
        """Change fields of an entry; nothing where there is none."""
        with self._using(write=True) as db:
            if (found := _entry(db, kind, key)) is not None:
                _put(db, kind, {key: {**found, **changes}})

    def start_run(self, recipe: str, argv: Sequence[str], version: str) -> None:
        """Open a run; commands and steps recorded from now on belong to it."""
        run = {"started": time.time(), "ended": None, "status": None, "recipe": recipe, "argv": list(argv)}
        with self._using(write=True) as db:
            self.run_id = _next(db, "run")
            _put(db, "run", {_key(self.run_id): {**run, "version": version}})

    def end_run(self, status: str) -> None:
        """Close the run with ok, failed or cancelled."""
        self._change("run", _key(self.run_id), ended=time.time(), status=status)

    def runs(self) -> list[dict[str, Any]]:
        """Return every run, oldest first."""
        return [{"id": int(key), **run} for key, run in self._all("run").items()]

    def record(self, step: str) -> StepRecord | None:
        """Return what is known of a step."""
        with self._using() as db:
            found = _entry(db, "step", step)
        return None if found is None else StepRecord(step=step, **found)

    def records(self) -> list[StepRecord]:
        """Return all steps, in the order they were last started."""
        found = [StepRecord(step=key, **entry) for key, entry in self._all("step").items()]
        return sorted(found, key=lambda record: record.started)

    def begin(self, step: str, fingerprint: str) -> None:
        """Record that a step runs; what it published before is kept until the step is done again."""
        now = {"fingerprint": fingerprint, "status": "running", "run": self.run_id, "started": time.time()}
        with self._using(write=True) as db:
            before = _entry(db, "step", step) or {"evidence": [], "witnesses": {}, "published": []}
            _put(db, "step", {step: {**before, **now, "ended": None, "detail": ""}})

    def done(
        self, step: str, *, evidence: Sequence[Mapping[str, Any]], witnesses: Mapping[str, Sequence[int]],
        published: Sequence[str],
    ) -> None:  # fmt: skip
        """Record that the checks of a step passed."""
        made = {"evidence": list(evidence), "witnesses": dict(witnesses), "published": list(published)}
        self._change("step", step, status="done", ended=time.time(), **made)

    def refresh_witnesses(self, step: str, witnesses: Mapping[str, Sequence[int]]) -> None:
        """Record that files were touched and found unchanged."""
        self._change("step", step, witnesses=dict(witnesses))

    def failed(self, step: str, detail: str) -> None:
        """Record that a step failed."""
        self._change("step", step, status="failed", ended=time.time(), detail=detail)

    def command(self, step: str, argv: Sequence[str], result: ProcessResult, log: str) -> None:
        """Record the time and memory of one command."""
        command = {
            "run": self.run_id, "step": step, "argv": list(argv), "log": log,
            "started": time.time() - result.duration_s, "returncode": result.returncode,
            "max_rss_bytes": result.max_rss_bytes, "peak_bytes": result.peak_tree_bytes,
            "memory": [list(point) for point in result.memory] if len(result.memory) > 1 else [],
            **{name: round(getattr(result, name), 3) for name in ("duration_s", "user_s", "system_s")},
        }  # fmt: skip
        with self._using(write=True) as db:
            _put(db, "command", {_key(_next(db, "command")): command})

    def commands(self) -> list[dict[str, Any]]:
        """Return every command that was run here, oldest first.

        ``memory`` is bytes at points in time, in seconds after its start; journals of before have none.
        """
        return [{"id": int(key), **command} for key, command in self._all("command").items()]

    def add_made(self, step: str, paths: Sequence[str]) -> None:
        """Record what this workspace makes before it exists; ``clean`` removes nothing else."""
        with self._using(write=True) as db:
            _put(db, "made", dict.fromkeys(paths, step))

    def made(self) -> dict[str, str]:
        """Return path -> step of everything that was made here."""
        return self._all("made")

    def place(self) -> str | None:
        """Return the folder that this workspace was made in; None if the journal does not have it."""
        return self._all("place").get("")

    def settle_at(self, place: str) -> None:
        """Record the folder that the workspace is made in."""
        with self._using(write=True) as db:
            _put(db, "place", {"": place})

    def forget(self, steps: Sequence[str], *, removed: bool = True) -> None:
        """Remove the records of steps; unless their outputs were ``removed``, xpubuild may replace these."""
        with self._using(write=True) as db:
            gone = [("step", step) for step in steps]
            if removed:
                gone += [("made", path) for path, step in _entries(db, "made").items() if step in steps]
            db.executemany("DELETE FROM entries WHERE kind=? AND key=?", gone)


def _key(number: int) -> str:
    """Return a number as a key: keys are sorted as texts."""
    return f"{number:09}"


def _next(db: sqlite3.Connection, kind: str) -> int:
    last = db.execute("SELECT max(key) FROM entries WHERE kind=?", (kind,)).fetchone()[0]
    return int(last or 0) + 1


def _mark(kind: str, key: str, data: str) -> int:
    """Return the checksum of an entry."""
    return zlib.crc32("\0".join((kind, key, data)).encode("utf-8", "surrogateescape"))


def _put(db: sqlite3.Connection, kind: str, values: Mapping[str, Any]) -> None:
    texts = ((key, json.dumps(value)) for key, value in values.items())
    rows = [(kind, key, data, _mark(kind, key, data)) for key, data in texts]
    db.executemany("INSERT OR REPLACE INTO entries (kind, key, data, mark) VALUES (?, ?, ?, ?)", rows)


def _entry(db: sqlite3.Connection, kind: str, key: str) -> Any:
    row = db.execute("SELECT data FROM entries WHERE kind=? AND key=?", (kind, key)).fetchone()
    return None if row is None else json.loads(row[0])


def _entries(db: sqlite3.Connection, kind: str) -> dict[str, Any]:
    rows = db.execute("SELECT key, data FROM entries WHERE kind=? ORDER BY key", (kind,))
    return {key: json.loads(data) for key, data in rows}


def _prepare(db: sqlite3.Connection) -> None:
    found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise sqlite3.DatabaseError(found)
    is_new = not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if not is_new:
        _look(db)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    if is_new:
        db.execute(_TABLE)
    # Written even where it is so: a damaged header may say that nothing can be written.
    db.execute(f"PRAGMA user_version={_VERSION}")


def _look(db: sqlite3.Connection) -> None:
    """Read every entry once: what cannot be used is found when the journal is opened, not in the middle."""
    if db.execute("SELECT type, sql FROM sqlite_master").fetchall() != [("table", _TABLE)]:
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, _VERSION):
            raise sqlite3.OperationalError(f"it has format {version}, this xpubuild knows format {_VERSION}")
        raise sqlite3.DatabaseError("its table is damaged")
    # A text that is no UTF-8 would be an OperationalError, like a locked database.
    db.text_factory = bytes
    try:
        if not all(_is_sound(*row) for row in db.execute("SELECT kind, key, data, mark FROM entries")):
            raise sqlite3.DatabaseError("an entry is damaged")
    finally:
        db.text_factory = str


def _is_sound(kind: object, key: object, data: object, seal: object) -> bool:
    try:
        texts = [part.decode("utf-8", "strict") for part in cast("tuple[bytes, ...]", (kind, key, data))]
    except (ValueError, AttributeError):
        return False
    return texts[0] in _KINDS and _mark(*texts) == seal


def _put_aside(path: Path) -> Path:
    with explained(path, "setting a damaged journal aside"):
        aside = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
        path.replace(aside)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    return aside


def _no_room(folder: Path) -> bool:
    """Try to write: SQLite calls a used-up disk or quota an I/O error at times, as it does a failing disk."""
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(256 * 1024))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as reason:
        return reason.errno in (errno.ENOSPC, errno.EDQUOT)
    return False


def translated(error: Exception, path: Path) -> NoSpaceError | ToolchainError:
    """Return what a user should read about a database at ``path``."""
    if "full" in str(error) or ("disk I/O error" in str(error) and _no_room(path.parent)):
        return no_space("no space left while writing the journal", f"{path}: {error}", path.parent)
    fix = "run the install again: it sets the damaged journal aside, and checks or rebuilds every step"
    if "this xpubuild knows format" in str(error):
        fix = "use another --workspace, or the xpubuild that made this one"
    return ToolchainError(f"the journal {path} cannot be used", why=str(error), fix=fix)
