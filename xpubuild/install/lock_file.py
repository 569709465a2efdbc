"""The file of a lock: one text for one lock, read back only if nothing in it was edited.

The text is YAML with sorted keys; ``digest``, its last line, is the sha256 of the canonical JSON of all that
is above it, so that another tool can compute it. The digest that plans and receipts show leaves the machine
out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import ValidationError
from typing_extensions import TypedDict

from xpubuild.documents import plain
from xpubuild.engine.files import write_atomic
from xpubuild.engine.fingerprint import digest
from xpubuild.engine.redact import recordable
from xpubuild.errors import LockMismatchError, RecipeError, UsageError
from xpubuild.install.lock_model import Difference, Lock, differences
from xpubuild.safe_yaml import read_yaml_strict
from xpubuild.untrusted import UntrustedError, read_text

SCHEMA = "xpubuild.lock/1"
HEADER = """\
# The closed lock of a build: every input of it. "xpubuild lock" writes this file; an edit by hand is refused.
"""


def clean_text(text: str) -> str:
    """Return a text with the bytes that are no UTF-8 written as escapes."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def clean_url(url: str) -> str:
    """Return a URL without user, password and query; the user of ssh stays."""
    return recordable(clean_text(url)) if "://" in url else clean_text(url)


def dump(lock: Lock) -> str:
    """Return the text of a lock."""
    document = lock.model_dump(mode="json")
    # A line per value, however long, makes a difference of two locks readable.
    body = yaml.safe_dump(document, width=1 << 20, allow_unicode=False)
    return f"{HEADER}schema: {SCHEMA}\n{body}digest: {digest({'schema': SCHEMA, **document})}\n"


def load(text: str) -> Lock:
    """Read a lock and check that it was not edited.

    Raises:
        RecipeError: it is no lock, or has an unknown schema.
        LockMismatchError: the digest does not match what is there.
    """
    try:
        document = read_yaml_strict(text)
        if not isinstance(document, dict):
            raise _no_lock("it is not a mapping of sections")
        if (schema := document.get("schema")) != SCHEMA:
            raise _no_lock(f"'schema' is {schema!r}, but this xpubuild reads {SCHEMA}")
        written, found = document.pop("digest", None), digest(document)
        # By way of JSON: there a list is what a tuple is read from, without any other leniency.
        sections = json.dumps({key: value for key, value in document.items() if key != "schema"})
        lock = Lock.model_validate_json(sections)
    except (yaml.YAMLError, RecursionError) as error:
        raise _no_lock(f"it is not YAML: {error}") from error
    except ValidationError as error:
        raise _no_lock(problem_of(error)) from error
    except (TypeError, ValueError) as error:
        raise _no_lock(str(error)) from error
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


def problem_of(error: ValidationError) -> str:
    """Return in words where a value has no place in a lock, the first of them."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the lock'}: {first['msg']}"


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
        broken = _no_lock(str(error.strerror))
        broken.what, broken.fix = f"the lock {name} cannot be read", "pass the path of a lock file"
        raise broken from error
    except (UnicodeDecodeError, UntrustedError, RecipeError) as error:
        broken = error if isinstance(error, RecipeError) else _no_lock(f"it is no text of a lock: {error}")
        broken.what = f"{name} is not a lock, or is damaged"
        raise broken from error


def write_lock(lock: Lock, path: Path) -> tuple[dict[str, Any], str]:
    """Write a lock, unless the file has it already.

    Returns the ``xpubuild.written-lock/1`` document, and what was wrong with the file that was there.

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
    if old != lock:
        write_atomic(path, dump(lock).encode("ascii"))
    top = list(lock.repositories.values())
    below = [one for item in top for one in item.configure_time]
    document = {
        "schema": "xpubuild.written-lock/1",
        "recipe": lock.recipe.name,
        "file": str(path),
        "lock": lock.digest,
        "machine": digest(lock.machine.model_dump(mode="json")),
        "repositories": sum(1 + len(one.submodules) for one in top)
        + sum(1 + len(one.submodules) for one in below),
        "archives": len(lock.archives),
        "pins": sum(len(file.pins) for file in lock.python.requirements.values()),
        "open": [
            {"component": wheel.component, "dist": wheel.dist, "version": wheel.version}
            for wheel in lock.python.wheels
            if wheel.hashes is None
        ],
        "changed": old != lock,
        "differences": plain(tuple(differences(old, lock, "exact")) if old is not None else ()),
    }
    return document, problem


class OpenWheel(TypedDict):
    """A prebuilt wheel without a known hash."""

    component: str
    dist: str
    version: str


class LockDocument(TypedDict):
    """What lock wrote, and how it differs from the file that was there before."""

    schema: Literal["xpubuild.written-lock/1"]
    """Name and version."""
    recipe: str
    file: str | None
    """Where the lock was written; null for standard output."""
    lock: str
    """Digest of every input but the machine."""
    machine: str
    """Digest of the machine's section."""
    repositories: int
    """Repositories in it, submodules and configure-time ones included."""
    archives: int
    """Archives in it that builds would download themselves."""
    pins: int
    """Python requirements in it."""
    open: list[OpenWheel]
    """Wheels without a hash."""
    changed: bool
    """Whether the file was not there, or is another one now."""
    differences: list[Difference]
    """To the lock that was there before."""


class VerifyLockDocument(TypedDict):
    """A lock compared with its recipe, the sources and this machine."""

    schema: Literal["xpubuild.verify-lock/1"]
    """Name and version."""
    status: Literal["ok", "differs"]
    recipe: str
    lock: str
    """Digest of every input but the machine."""
    policy: Literal["exact", "compatible", "ignore"]
    """How the machine was compared."""
    differences: list[Difference]
    open: list[str]
    """Components that are wheels without a hash."""
