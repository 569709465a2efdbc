"""The file of a lock: one text for one lock, read back only if nothing in it was edited.

The text is YAML with sorted keys. ``digest``, its last line, is the sha256 of the canonical JSON of all that
is above, so that another tool can compute it. The digest that plans, receipts and ``check LOCK`` show leaves
the machine out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from xpubuild.documents import plain
from xpubuild.engine.files import write_atomic
from xpubuild.engine.fingerprint import digest
from xpubuild.errors import LockMismatchError, RecipeError, UsageError
from xpubuild.frozen import frozen
from xpubuild.install.lock_compare import Difference, differences, machine_differences
from xpubuild.install.lock_model import SCHEMA, Lock, Repository
from xpubuild.install.lock_parts import clean_text
from xpubuild.safe_yaml import read_yaml_strict
from xpubuild.untrusted import UntrustedError, read_text

HEADER = """\
# The closed lock of a build: every input of it. "xpubuild lock" writes this file; an edit by hand is refused.
"""
_MOST_NAMED = 8
#: Fields that a person knows an item of a list by.
_NAMING = ("path", "name", "component", "url")
#: Wider than any value: a line per value makes a difference of two locks readable.
_WIDTH = 1 << 20


def lock_digest(lock: Lock) -> str:
    """Return the digest of everything but the machine."""
    document = lock.model_dump(mode="json")
    del document["machine"]
    return digest(document)


def machine_digest(lock: Lock) -> str:
    """Return the digest of the machine."""
    return digest(lock.machine.model_dump(mode="json"))


def dump(lock: Lock) -> str:
    """Return the text of a lock."""
    document = lock.model_dump(mode="json")
    body = yaml.safe_dump(document, width=_WIDTH, allow_unicode=False)
    return f"{HEADER}schema: {SCHEMA}\n{body}digest: {digest({'schema': SCHEMA, **document})}\n"


def load(text: str) -> Lock:
    """Read a lock and check that it was not edited.

    Raises:
        RecipeError: it is no lock, or has an unknown schema.
        LockMismatchError: the digest does not match what is there.
    """
    try:
        document = read_yaml_strict(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise _no_lock(f"it is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise _no_lock("it is not a mapping of sections")
    if (schema := document.get("schema")) != SCHEMA:
        raise _no_lock(f"'schema' is {schema!r}, but this xpubuild reads {SCHEMA}")
    written = document.pop("digest", None)
    try:
        found = digest(document)
        # By way of JSON: there a list is what a tuple is read from, without any other leniency.
        lock = Lock.model_validate_json(
            json.dumps({key: value for key, value in document.items() if key != "schema"})
        )
    except (TypeError, ValueError) as error:  # ValidationError is a ValueError
        raise _no_lock(_reason(error, document)) from error
    if written != found:
        raise LockMismatchError(
            "the lock was edited",
            why="the content does not match the digest in its last line",
            fix=(
                "restore the file from version control; to build something else, change the recipe and "
                "create a new lock"
            ),
            commands=("xpubuild lock RECIPE",),
            evidence={"digest": written, "content": found},
        )
    return lock


def _reason(error: Exception, document: Any) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{_place(item['loc'], document)}: {item['msg']}" for item in problems[:_MOST_NAMED])


def _place(location: tuple[int | str, ...], document: Any) -> str:
    """Return the name of a place, with the names of list items instead of their numbers."""
    names = []
    for step in location:
        try:
            document = document[step]
        except (LookupError, TypeError):
            document = None
        naming = document if isinstance(step, int) and isinstance(document, dict) else {}
        names.append(str(next((naming[key] for key in _NAMING if key in naming), step)))
    return ".".join(names) or "the lock"


def _no_lock(problem: str) -> RecipeError:
    return RecipeError(
        "the lock cannot be read",
        why=problem,
        fix="restore the file from version control, or create a new lock",
        commands=("xpubuild lock RECIPE",),
        evidence={"problem": problem},
    )


def read_lock(path: Path) -> Lock:
    """Read a lock and check that it was not edited.

    Raises:
        RecipeError: there is no such file, or it is no lock.
        LockMismatchError: it was edited.
    """
    name = clean_text(str(path))
    try:
        return load(read_text(path))
    except OSError as error:
        raise RecipeError(
            f"the lock {name} cannot be read",
            why=str(error.strerror),
            fix="pass the path of a lock file",
            commands=("xpubuild lock RECIPE",),
        ) from error
    except (UnicodeDecodeError, UntrustedError) as error:
        why = str(error) if isinstance(error, UntrustedError) else "it is not UTF-8 text"
        broken = _no_lock(why)
        broken.what = f"{name} is not a lock, or is damaged"
        raise broken from error
    except RecipeError as error:
        error.what = f"{name} is not a lock, or is damaged"
        raise


@frozen
class Written:
    """A lock and its file; ``problem`` is what was wrong with the existing file."""

    lock: Lock
    path: Path | None
    changed: bool
    differences: tuple[Difference, ...] = ()
    problem: str = ""

    def document(self) -> dict[str, Any]:
        """Return the ``xpubuild.written-lock/1`` document."""
        lock = self.lock
        return {
            "schema": "xpubuild.written-lock/1",
            "recipe": lock.recipe.name,
            "file": str(self.path) if self.path is not None else None,
            "lock": lock_digest(lock),
            "machine": machine_digest(lock),
            "repositories": sum(map(_count, lock.repositories.values())),
            "archives": len(lock.archives),
            "pins": sum(len(file.pins) for file in lock.python.requirements.values()),
            "open": [
                {"component": wheel.component, "dist": wheel.dist, "version": wheel.version}
                for wheel in lock.python.wheels
                if wheel.hashes is None
            ],
            "changed": self.changed,
            "differences": plain(self.differences),
        }


def _count(repository: Repository) -> int:
    below = sum(1 + len(item.submodules) for item in repository.configure_time)
    return 1 + len(repository.submodules) + below


def write_lock(lock: Lock, path: Path) -> Written:
    """Write a lock; readers see the old file or the new one, and the same lock is not written again.

    Raises:
        UsageError: there is no such folder.
        NoSpaceError, ToolchainError: it cannot be written.
    """
    if not path.parent.is_dir():
        raise UsageError(
            f"the lock cannot be written to {path}",
            why=f"the folder {path.parent} does not exist",
            fix="use another --output, or create the folder",
        )
    old, problem = None, ""
    if path.exists():
        try:
            old = read_lock(path)
        except (RecipeError, LockMismatchError) as error:
            problem = f"{error.what}: {error.why}"
    if old == lock:
        return Written(lock, path, changed=False)
    found: list[Difference] = []
    if old is not None:
        found = differences(old, lock) + machine_differences(old.machine, lock.machine, "exact")
    write_atomic(path, dump(lock).encode("ascii"))
    return Written(lock, path, True, tuple(found), problem)
