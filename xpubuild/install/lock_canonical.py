"""The one text of a lock, and the strict reader of it.

``digest`` is the sha256 of the text above its line; ``machine.digest`` that of the machine's section without
its last line. ``marks`` are short checksums of every named item: after an edit by hand the digest does not
match, and the marks show which item was edited.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from xpubuild.errors import LockMismatchError, RecipeError
from xpubuild.install.lock_items import items, machine_items, marks
from xpubuild.install.lock_model import SCHEMA, Lock
from xpubuild.install.lock_reader import no_lock, read
from xpubuild.install.lock_text import render

HEADER = """\
# The closed lock of a build: every input of it. "xpubuild lock" writes this file; an edit by hand is refused.
"""
_INPUTS = ("recipe", "plan", "options", "repositories", "python", "conda", "archives")
#: Left out where they say nothing; every other field is always there.
_LEFT_OUT = frozenset({"url", "embedded", "marker"})
_MOST_NAMED = 8
#: Fields that a person knows an item of a list by.
_NAMING = ("path", "name", "component", "url")


def dump(lock: Lock) -> str:
    """Return the text of a lock: the same for the same lock, everywhere."""
    above = _inputs_text(lock)
    machine = _machine_text(lock)
    return f"{above}digest: {_sha256(above)}\n{machine}  digest: {_sha256(machine)}\n"


def lock_digest(lock: Lock) -> str:
    """Return the digest of everything but the machine."""
    return _sha256(_inputs_text(lock))


def machine_digest(lock: Lock) -> str:
    """Return the digest of the machine."""
    return _sha256(_machine_text(lock))


def load(text: str) -> Lock:
    """Read a lock and check that it was not edited.

    Raises:
        RecipeError: it is no lock, has an unknown schema, or is not in the form that ``dump`` writes.
        LockMismatchError: a digest does not fit what is there; the message names what was edited.
    """
    data = read(text)
    schema = data.pop("schema", None)
    if schema != SCHEMA:
        raise _wrong_schema(schema)
    written = _Written(data)
    lock = _validated(data)
    _require_unedited(lock, written)
    canonical = dump(lock)
    if text != canonical:
        raise _not_canonical(text, canonical)
    return lock


class _Written:
    """The digests and marks that a file has, taken out of what is read."""

    def __init__(self, data: dict[str, Any]) -> None:
        machine = data.get("machine")
        machine = machine if isinstance(machine, dict) else {}
        self.digest = _taken(data, "digest", "digest", str)
        self.marks: Mapping[str, Any] = _taken(data, "marks", "marks", dict)
        self.machine_digest = _taken(machine, "digest", "machine.digest", str)
        self.machine_marks: Mapping[str, Any] = _taken(machine, "marks", "machine.marks", dict)


def _taken(data: dict[str, Any], key: str, name: str, kind: type) -> Any:
    if key not in data:
        raise no_lock(f"'{name}' is missing")
    value = data.pop(key)
    if not isinstance(value, kind):
        raise no_lock(f"'{name}' has an unexpected value")
    return value


def _inputs_text(lock: Lock) -> str:
    sections = {name: _plain(getattr(lock, name)) for name in _INPUTS}
    if not lock.archives:
        del sections["archives"]
    return HEADER + render({"schema": SCHEMA, **sections, "marks": marks(items(lock))})


def _machine_text(lock: Lock) -> str:
    machine = _plain(lock.machine)
    return render({"machine": {**machine, "marks": marks(machine_items(lock.machine))}})


def _plain(value: Any) -> Any:
    """Return what is written: the fields of a part in their order, what is keyed by names sorted."""
    if isinstance(value, BaseModel):
        fields = {name: getattr(value, name) for name in type(value).model_fields}
        return {
            name: _plain(item) for name, item in fields.items() if item is not None or name not in _LEFT_OUT
        }
    if isinstance(value, Mapping):
        return {name: _plain(value[name]) for name in sorted(value)}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _validated(data: dict[str, Any]) -> Lock:
    try:
        # By way of JSON: there a list is what a tuple is read from, without any other leniency.
        return Lock.model_validate_json(json.dumps(data))
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        found = [f"{_where(item['loc'], data)}: {item['msg']}" for item in problems[:_MOST_NAMED]]
        raise no_lock("; ".join(found)) from error


def _where(place: tuple[int | str, ...], data: Any) -> str:
    """Return the name of a place, with the names of list items instead of their numbers."""
    names = []
    for step in place:
        data = _below(data, step)
        if isinstance(step, int) and isinstance(data, dict):
            names.append(
                next((str(data[key]) for key in _NAMING if isinstance(data.get(key), str)), str(step))
            )
        else:
            names.append(str(step))
    return ".".join(names) or "the lock"


def _below(data: Any, step: int | str) -> Any:
    if isinstance(data, dict):
        return data.get(step)
    if isinstance(data, list) and isinstance(step, int) and step < len(data):
        return data[step]
    return None


def _require_unedited(lock: Lock, written: _Written) -> None:
    edited = _edited(written.marks, marks(items(lock)))
    edited += _edited(written.machine_marks, marks(machine_items(lock.machine)))
    if written.digest != lock_digest(lock):
        edited = edited or ["digest"]
    if written.machine_digest != machine_digest(lock):
        edited = edited or ["machine.digest"]
    if edited:
        rest = len(edited) - _MOST_NAMED
        more = f" and {rest} more" if rest > 0 else ""
        raise LockMismatchError(
            f"the lock was edited: {', '.join(edited[:_MOST_NAMED])}{more}",
            why="the content does not match the digest in the file",
            fix=(
                "restore the file from version control; to build something else, change the recipe and "
                "create a new lock"
            ),
            commands=("xpubuild lock RECIPE",),
            evidence={"edited": edited},
        )


def _edited(written: Mapping[str, Any], real: Mapping[str, str]) -> list[str]:
    return [name for name in sorted({*written, *real}) if written.get(name) != real.get(name)]


def _wrong_schema(schema: object) -> RecipeError:
    if isinstance(schema, str) and schema.startswith(f"{SCHEMA.partition('/')[0]}/"):
        return no_lock(f"'schema' is version '{schema}', but this xpubuild reads {SCHEMA}")
    return no_lock(
        f"'schema' is {schema!r}, not {SCHEMA}" if schema is not None else f"it has no 'schema: {SCHEMA}'"
    )


def _not_canonical(text: str, canonical: str) -> RecipeError:
    lines = itertools.zip_longest(text.split("\n"), canonical.split("\n"))
    number, (found, wanted) = next(
        (number, pair) for number, pair in enumerate(lines, 1) if pair[0] != pair[1]
    )
    return no_lock(
        f"it is not in the form that xpubuild writes: here {found!r}, written as {wanted!r}", number
    )
