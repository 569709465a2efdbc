"""What was done in a workspace: SQLite, durable after every step.

A step is done when its entry has its fingerprint and says so; it is written only after the checks passed. One
table has everything: each entry is a JSON text with a checksum, since SQLite checks its own structure alone.
A journal that cannot be read is set aside whole, and the steps are proved again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from xpubuild.engine.files import explained
from xpubuild.engine.journal_entries import TABLE, entries, entry, look, put
from xpubuild.engine.process import ProcessResult
from xpubuild.errors import NoSpaceError, ToolchainError
from xpubuild.frozen import frozen

_VERSION = 2
#: Seconds to wait for another process that is inside a transaction.
_PATIENCE_S = 30.0
_PROBE_BYTES = 1 << 18
#: How the detail of a step begins that was done before its workspace was moved.
MADE_IN = "made in "
#: The fields of a step that hold paths.
_WITH_PATHS = ("evidence", "witnesses", "published")


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
        try:
            self._db = self._open_reading() if read_only else self._open("mode=rwc", _prepare)
        except sqlite3.DatabaseError as error:
            if read_only or not _is_damaged(error):
                raise translated(error, path) from error
            # A journal that is no database costs a rebuild, not the user's afternoon: keep it, start again.
            self.set_aside = _put_aside(path)
            try:
                self._db = self._open("mode=rwc", _prepare)
            except sqlite3.DatabaseError as again:
                raise translated(again, path) from again

    def _open_reading(self) -> sqlite3.Connection:
        try:
            return self._open("mode=ro", _look_at)
        except sqlite3.OperationalError:
            # SQLite makes files beside a WAL database even to read it. Where one may only read, as in a
            # workspace of somebody else, it can be taken as it is, unless a log waits beside it.
            wal = self.path.with_name(f"{self.path.name}-wal")
            if os.access(self.path.parent, os.W_OK) or (wal.exists() and wal.stat().st_size):
                raise
            return self._open("mode=ro&immutable=1", _look_at)

    def _open(self, options: str, then: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
        db = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?{options}",
            uri=True,
            timeout=_PATIENCE_S,
            check_same_thread=False,
            isolation_level=None,
        )
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
            return entries(db, kind)

    def _put(self, kind: str, values: Mapping[str, Any]) -> None:
        with self._using(write=True) as db:
            put(db, kind, values)

    def _change(self, kind: str, key: str, **changes: Any) -> None:
        """Change fields of an entry; nothing where there is none."""
        with self._using(write=True) as db:
            if (found := entry(db, kind, key)) is not None:
                put(db, kind, {key: {**found, **changes}})

    def start_run(self, recipe: str, argv: Sequence[str], version: str) -> None:
        """Open a run; commands and steps recorded from now on belong to it."""
        run = {"started": time.time(), "ended": None, "status": None, "recipe": recipe, "argv": list(argv)}
        with self._using(write=True) as db:
            self.run_id = _next(db, "run")
            put(db, "run", {_key(self.run_id): {**run, "version": version}})

    def end_run(self, status: str) -> None:
        """Close the run with ok, failed or cancelled."""
        self._change("run", _key(self.run_id), ended=time.time(), status=status)

    def runs(self) -> list[dict[str, Any]]:
        """Return every run, oldest first."""
        return [{"id": int(key), **run} for key, run in self._all("run").items()]

    def record(self, step: str) -> StepRecord | None:
        """Return what is known of a step."""
        with self._using() as db:
            found = entry(db, "step", step)
        return None if found is None else StepRecord(step=step, **found)

    def records(self) -> list[StepRecord]:
        """Return all steps, in the order they were last started."""
        found = [StepRecord(step=key, **entry) for key, entry in self._all("step").items()]
        return sorted(found, key=lambda record: record.started)

    def begin(self, step: str, fingerprint: str) -> None:
        """Record that a step runs; what it published before is kept until the step is done again."""
        with self._using(write=True) as db:
            before = entry(db, "step", step) or {"evidence": [], "witnesses": {}, "published": []}
            now = {
                "fingerprint": fingerprint,
                "status": "running",
                "run": self.run_id,
                "started": time.time(),
            }
            put(db, "step", {step: {**before, **now, "ended": None, "detail": ""}})

    def done(
        self,
        step: str,
        *,
        evidence: Sequence[Mapping[str, Any]],
        witnesses: Mapping[str, Sequence[int]],
        published: Sequence[str],
    ) -> None:
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
            "run": self.run_id, "step": step, "argv": list(argv), "started": time.time() - result.duration_s,
            "duration_s": result.duration_s, "user_s": result.user_s, "system_s": result.system_s,
            "max_rss_bytes": result.max_rss_bytes, "peak_tree_bytes": result.peak_tree_bytes,
            "returncode": result.returncode, "log": log,
        }  # fmt: skip
        with self._using(write=True) as db:
            key = _key(_next(db, "command"))
            put(db, "command", {key: command})
            if len(result.memory) > 1:
                put(db, "memory", {key: [list(point) for point in result.memory]})

    def commands(self) -> list[dict[str, Any]]:
        """Return every command that was run here, oldest first."""
        return [{"id": int(key), **command} for key, command in self._all("command").items()]

    def memory(self) -> dict[int, list[list[float]]]:
        """Return id of a command -> its memory (bytes) at points in time (seconds after its start)."""
        return {int(key): points for key, points in self._all("memory").items()}

    def amount(self, step: str, tuning: Mapping[str, str], downloaded_bytes: int, disk_bytes: int) -> None:
        """Record of a step that is done what ``Amount`` has."""
        took = {"tuning": dict(tuning), "downloaded_bytes": downloaded_bytes, "disk_bytes": disk_bytes}
        self._put("amount", {f"{_key(self.run_id)} {step}": took})

    def amounts(self) -> dict[tuple[int, str], Amount]:
        """Return (run, step) -> what ``amount`` recorded."""
        split = ((key.partition(" "), took) for key, took in self._all("amount").items())
        return {(int(run), step): Amount(**took) for (run, _, step), took in split}

    def add_made(self, step: str, paths: Sequence[str]) -> None:
        """Record what this workspace makes before it exists; ``clean`` removes nothing else."""
        self._put("made", dict.fromkeys(paths, step))

    def made(self) -> dict[str, str]:
        """Return path -> step of everything that was made here."""
        return self._all("made")

    def place(self) -> str | None:
        """Return the folder that this workspace was made in; None where the journal does not tell."""
        return self._all("place").get("")

    def settle_at(self, place: str) -> None:
        """Record the folder that the workspace is made in."""
        self._put("place", {"": place})

    def move(self, old: str, new: str) -> None:
        """Record, as one change, that all of ``old`` lies in ``new`` now; what was done says where.

        Nothing of the old place counts as this workspace's own any more: a copy may be in use there.
        """
        with self._using(write=True) as db:
            for step, entry in entries(db, "step").items():
                changes = {name: relocated(entry[name], old, new) for name in _WITH_PATHS}
                detail = f"{MADE_IN}{old}" if entry["status"] == "done" else entry["detail"]
                put(db, "step", {step: {**entry, **changes, "detail": detail}})
            made = entries(db, "made")
            db.execute("DELETE FROM entries WHERE kind='made'")
            put(db, "made", {relocated(path, old, new): step for path, step in made.items()})
            put(db, "place", {"": new})

    def forget(self, steps: Sequence[str], *, removed: bool = True) -> None:
        """Remove the records of steps; unless their outputs were ``removed``, they stay ours to replace."""
        with self._using(write=True) as db:
            gone = [("step", step) for step in steps]
            if removed:
                gone += [("made", path) for path, step in entries(db, "made").items() if step in steps]
            db.executemany("DELETE FROM entries WHERE kind=? AND key=?", gone)


def relocated(value: Any, old: str, new: str) -> Any:
    """Return plain JSON in which every path of one folder is one of another, names of keys too."""
    if isinstance(value, str):
        return new + value[len(old) :] if value == old or value.startswith(f"{old}/") else value
    if isinstance(value, list):
        return [relocated(item, old, new) for item in value]
    if isinstance(value, dict):
        return {relocated(key, old, new): relocated(item, old, new) for key, item in value.items()}
    return value


def _key(number: int) -> str:
    """Return a number as a key: keys are sorted as texts."""
    return f"{number:09}"


def _next(db: sqlite3.Connection, kind: str) -> int:
    last = db.execute("SELECT max(key) FROM entries WHERE kind=?", (kind,)).fetchone()[0]
    return int(last or 0) + 1


def _prepare(db: sqlite3.Connection) -> None:
    found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise sqlite3.DatabaseError(found)
    _require_version(db)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        db.execute(TABLE)
        db.execute(f"PRAGMA user_version={_VERSION}")
    _look_at(db)


def _look_at(db: sqlite3.Connection) -> None:
    _require_version(db)
    look(db)


def _require_version(db: sqlite3.Connection) -> None:
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version not in (0, _VERSION):
        raise sqlite3.OperationalError(f"it has format {version}, this xpubuild knows format {_VERSION}")


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


def _is_full(error: Exception, folder: Path) -> bool:
    if "full" in str(error):
        return True
    if "disk I/O error" not in str(error):
        return False
    # SQLite calls a full disk that where it enlarges its shared index; a failing disk has the same name.
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(_PROBE_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as reason:
        return reason.errno in (errno.ENOSPC, errno.EDQUOT)
    return False


def translated(error: Exception, path: Path) -> NoSpaceError | ToolchainError:
    """Return what a user should read about a database at ``path``."""
    if _is_full(error, path.parent):
        return NoSpaceError(
            "no space left while writing the journal",
            why=f"{path}: {error}",
            fix="free some space, then run the same command again; finished steps are kept",
        )
    if "this xpubuild knows format" in str(error):
        fix = "use another --workspace, or the xpubuild that made this one"
    else:
        fix = "run the install again: it sets the damaged journal aside, and checks or rebuilds every step"
    return ToolchainError(f"the journal {path} cannot be used", why=str(error), fix=fix)
