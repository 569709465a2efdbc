"""The one table of a journal: entries of a kind and a key, as JSON with a checksum of our own."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Mapping
from typing import Any, cast

TABLE = (
    "CREATE TABLE entries (kind TEXT NOT NULL, key TEXT NOT NULL, data TEXT NOT NULL, mark INTEGER NOT NULL,"
    " PRIMARY KEY (kind, key)) WITHOUT ROWID"
)
#: Far above any time and any size; nothing can count with infinity.
_LARGEST = 1 << 53
#: Kind of an entry -> the shape of what it holds; "" stands for any key. A checksum proves nothing against
#: somebody who writes one on purpose.
_SHAPES: Mapping[str, Any] = {
    "run": {"started": float, "ended": (None, float), "status": (None, "ok", "failed", "cancelled"),
            "recipe": str, "argv": [str], "version": str},
    "step": {"fingerprint": str, "status": ("running", "done", "failed"), "run": int, "started": float,
             "ended": (None, float), "evidence": [dict], "witnesses": {"": [int]}, "published": [str],
             "detail": str},
    "command": {"run": int, "step": str, "argv": [str], "started": float, "duration_s": float,
                "user_s": float, "system_s": float, "max_rss_bytes": int, "peak_tree_bytes": int,
                "returncode": int, "log": str},
    "memory": [[float]],
    "amount": {"tuning": {"": str}, "downloaded_bytes": int, "disk_bytes": int},
    "made": str,
    "place": str,
}  # fmt: skip


def mark(kind: str, key: str, data: str) -> int:
    """Return the checksum of an entry."""
    return zlib.crc32("\0".join((kind, key, data)).encode("utf-8", "surrogateescape"))


def put(db: sqlite3.Connection, kind: str, values: Mapping[str, Any]) -> None:
    """Write entries of a kind; those that are there are replaced."""
    texts = ((key, json.dumps(value)) for key, value in values.items())
    rows = [(kind, key, data, mark(kind, key, data)) for key, data in texts]
    db.executemany("INSERT OR REPLACE INTO entries (kind, key, data, mark) VALUES (?, ?, ?, ?)", rows)


def entry(db: sqlite3.Connection, kind: str, key: str) -> Any:
    """Return what an entry holds, None where it is not there."""
    row = db.execute("SELECT data FROM entries WHERE kind=? AND key=?", (kind, key)).fetchone()
    return None if row is None else json.loads(row[0])


def entries(db: sqlite3.Connection, kind: str) -> dict[str, Any]:
    """Return key -> what it holds, for all of a kind, sorted by key."""
    rows = db.execute("SELECT key, data FROM entries WHERE kind=? ORDER BY key", (kind,))
    return {key: json.loads(data) for key, data in rows}


def look(db: sqlite3.Connection) -> None:
    """Read every entry once: what cannot be used is found when the journal is opened, not in the middle."""
    if db.execute("SELECT type, sql FROM sqlite_master").fetchall() != [("table", TABLE)]:
        raise sqlite3.DatabaseError("its table is damaged")
    # A text that is no UTF-8 would be an OperationalError, like a locked database.
    db.text_factory = bytes
    try:
        for row in db.execute("SELECT kind, key, data, mark FROM entries"):
            if not _is_sound(*row):
                raise sqlite3.DatabaseError("an entry is damaged")
    finally:
        db.text_factory = str


def _is_sound(kind: object, key: object, data: object, seal: object) -> bool:
    try:
        texts = [part.decode("utf-8", "strict") for part in cast("tuple[bytes, ...]", (kind, key, data))]
        numbered = texts[0] not in ("run", "command", "memory") or texts[1].isdecimal()
        numbered = numbered and (texts[0] != "amount" or texts[1].partition(" ")[0].isdecimal())
        return numbered and mark(*texts) == seal and _fits(_SHAPES[texts[0]], json.loads(texts[2]))
    except (ValueError, KeyError, AttributeError, RecursionError):
        return False


def _fits(shape: Any, value: Any) -> bool:
    if isinstance(shape, tuple):
        return any(_fits(one, value) for one in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(shape[0], item) for item in value)
    if isinstance(shape, dict):
        return isinstance(value, dict) and _fields_fit(shape, value)
    if shape is float:
        return isinstance(value, (int, float)) and -_LARGEST <= value <= _LARGEST
    return isinstance(value, shape) if isinstance(shape, type) else bool(value == shape)


def _fields_fit(shape: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    if "" in shape:
        return all(_fits(shape[""], item) for item in value.values())
    return shape.keys() == value.keys() and all(_fits(one, value[name]) for name, one in shape.items())
