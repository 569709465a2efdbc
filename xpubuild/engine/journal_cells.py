"""The tables of a journal, and what their cells may hold. SQLite checks its own structure, and nothing that
a cell says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
  id INTEGER PRIMARY KEY, started REAL NOT NULL, ended REAL, status TEXT, recipe TEXT NOT NULL,
  argv TEXT NOT NULL, version TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS steps (
  step TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, status TEXT NOT NULL, run INTEGER NOT NULL,
  started REAL NOT NULL, ended REAL, evidence TEXT NOT NULL DEFAULT '[]',
  witnesses TEXT NOT NULL DEFAULT '{}',
  published TEXT NOT NULL DEFAULT '[]', detail TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS commands (
  id INTEGER PRIMARY KEY, run INTEGER NOT NULL, step TEXT NOT NULL, argv TEXT NOT NULL, started REAL NOT NULL,
  duration_s REAL NOT NULL, user_s REAL NOT NULL, system_s REAL NOT NULL, max_rss_bytes INTEGER NOT NULL,
  peak_tree_bytes INTEGER NOT NULL, returncode INTEGER NOT NULL, log TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS memory (id INTEGER PRIMARY KEY REFERENCES commands, points TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS amounts (
  run INTEGER NOT NULL, step TEXT NOT NULL, tuning TEXT NOT NULL, downloaded_bytes INTEGER NOT NULL,
  disk_bytes INTEGER NOT NULL, PRIMARY KEY (run, step));
CREATE TABLE IF NOT EXISTS made (path TEXT PRIMARY KEY, step TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS place (id INTEGER PRIMARY KEY CHECK (id = 1), path TEXT NOT NULL);
"""


#: Far above any time and any size; nothing can count with infinity.
_LARGEST = 1 << 53


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and -_LARGEST <= value <= _LARGEST


def _is_integer(value: Any) -> bool:
    return isinstance(value, int)


def _is_maybe_end(value: Any) -> bool:
    return value in (None, "ok", "failed", "cancelled")


def _is_maybe_number(value: Any) -> bool:
    return value is None or _is_number(value)


def _is_status(value: Any) -> bool:
    return value in ("running", "done", "failed")


def _json(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        return _is_text(value) and fits(json.loads(value))

    return check


def _is_evidence(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_named_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _is_witnesses(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(mark, list) and all(isinstance(number, int) for number in mark) for mark in value.values()
    )


def _is_points(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(point, list) and len(point) == len(("seconds", "bytes")) and all(map(_is_number, point))
        for point in value
    )


_CELLS: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {
    "runs": {
        "started": _is_number,
        "ended": _is_maybe_number,
        "status": _is_maybe_end,
        "recipe": _is_text,
        "argv": _json(_is_texts),
        "version": _is_text,
    },
    "steps": {
        "step": _is_text,
        "fingerprint": _is_text,
        "status": _is_status,
        "run": _is_integer,
        "started": _is_number,
        "ended": _is_maybe_number,
        "evidence": _json(_is_evidence),
        "witnesses": _json(_is_witnesses),
        "published": _json(_is_texts),
        "detail": _is_text,
    },
    "commands": {
        "run": _is_integer,
        "step": _is_text,
        "argv": _json(_is_texts),
        "started": _is_number,
        "duration_s": _is_number,
        "user_s": _is_number,
        "system_s": _is_number,
        "max_rss_bytes": _is_integer,
        "peak_tree_bytes": _is_integer,
        "returncode": _is_integer,
        "log": _is_text,
    },
    "memory": {"points": _json(_is_points)},
    "amounts": {
        "run": _is_integer,
        "step": _is_text,
        "tuning": _json(_is_named_texts),
        "downloaded_bytes": _is_number,
        "disk_bytes": _is_number,
    },
    "made": {"path": _is_text, "step": _is_text},
    "place": {"path": _is_text},
}


def unreadable(rows_of: Callable[[str], Iterable[Mapping[str, Any]]]) -> str:
    """Return which cell does not hold what is written there, "" if all do.

    ``rows_of`` returns the rows of a table, with texts as the bytes that they are stored as.
    """
    for table, cells in _CELLS.items():
        for row in rows_of(table):
            for name, fits in cells.items():
                try:
                    value = row[name]
                    sound = fits(value.decode("utf-8") if isinstance(value, bytes) else value)
                except ValueError:
                    sound = False
                if not sound:
                    return f"a cell of {table}.{name} is damaged"
    return ""
