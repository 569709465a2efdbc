"""The lock: every input of a build and the machine it was made on, its file, and how two of them differ.

A lock has nothing incidental: no path, time, user or host name, no credentials. Its text is YAML with sorted
keys; ``digest``, the last line, is the sha256 of the canonical JSON of all that is above it, so that another
tool can compute it. docs/how-to/lock.md explains how the machine is compared: a lock cannot install it.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from xpubuild.documents import plain
from xpubuild.engine.files import write_atomic
from xpubuild.engine.fingerprint import digest
from xpubuild.engine.places import reached_by
from xpubuild.engine.redact import recordable
from xpubuild.errors import LockMismatchError, RecipeError, UsageError
from xpubuild.frozen import frozen
from xpubuild.install.options import Policy
from xpubuild.safe_yaml import read_yaml_strict
from xpubuild.untrusted import read_text

SCHEMA = "xpubuild.lock/1"
HEADER = """\
# The closed lock of a build: every input of it. "xpubuild lock" writes this file; an edit by hand is refused.
"""
ObjectId = Annotated[str, Field(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Hash = Annotated[str, Field(pattern=r"^[a-z0-9_]+:[0-9a-f]{32,128}$")]
_MOST_LISTED = 4


class _Strict(BaseModel):
    """Base of all parts: no unknown key, no value of another type, nothing changed afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Options(_Strict):
    """What was asked for, nothing left open; ``python`` is major.minor."""

    target: Literal["xpu", "cpu"]
    variant: str | None = None
    arch: list[str]
    cxx11_abi: Literal[0, 1]
    components: list[str]
    packages: Literal["venv", "conda"]
    python: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+$")]


class Tree(_Strict):
    """A repository at a commit; ``ref`` is the tag, branch or commit that git is asked for.

    ``submodules`` are those of every depth by their place below it, ``configure_time`` what the build of a
    component clones while it configures, by its place in the tree or its URL. A patched one is ``base``, the
    commit upstream, with ``patch``, which reverts are turned into.
    """

    url: str
    ref: str | None = None
    commit: ObjectId
    tree: ObjectId
    base: ObjectId | None = None
    patch: str | None = None
    patch_sha256: Sha256 | None = None
    submodules: dict[str, Tree] = Field(default_factory=dict)
    configure_time: dict[str, Tree] = Field(default_factory=dict)


class Package(_Strict):
    """A package; of conda with channel, folder and file.

    ``hashes`` are those of all files that an installer may choose from.
    """

    version: str
    hashes: list[Hash]
    file: str | None = None


class RequirementFile(_Strict):
    """A hashed requirement file: the sha256 of its text, and its pins by distribution and marker."""

    sha256: Sha256
    pins: dict[str, Package]


class Archive(_Strict):
    """An archive that a build would download itself; upstream may state no hash of it."""

    url: str
    sha256: Sha256
    size: int
    hash_from: Literal["upstream", "first download"]


class Machine(_Strict):
    """What cannot be fetched; driver and the components of oneAPI for XPU."""

    architecture: str
    glibc: str
    python: str
    compilers: dict[str, str]
    driver_family: str | None = None
    drivers: dict[str, str] = Field(default_factory=dict)
    oneapi: dict[str, str] = Field(default_factory=dict)


class Lock(_Strict):
    """The closed lock. ``plan`` is the lock digest that plan, journal and receipt show.

    ``recipe`` is what the recipe says of what was chosen; ``archives`` are named COMPONENT.NAME.
    """

    recipe: dict[str, Any]
    options: Options
    repositories: dict[str, Tree]
    requirements: dict[str, RequirementFile]
    conda: dict[str, Package] | None = None
    archives: dict[str, Archive]
    plan: Sha256
    machine: Machine

    @property
    def name(self) -> str:
        """The name of the recipe."""
        return str(self.recipe.get("name"))

    @property
    def digest(self) -> str:
        """The digest of everything but the machine."""
        return digest(self.model_dump(mode="json", exclude={"machine"}))


# --- the file --------------------------------------------------------------------------------------------


def clean_url(text: str) -> str:
    """Return a text in UTF-8; a URL without user, password and query, but for the user of ssh."""
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return recordable(text) if "://" in text else text


def dump(lock: Lock) -> str:
    """Return the text of a lock."""
    document = lock.model_dump(mode="json", exclude_defaults=True)
    # A line per value, however long, makes a difference of two locks readable.
    body = yaml.safe_dump(document, width=1 << 20, allow_unicode=False)
    return f"{HEADER}schema: {SCHEMA}\n{body}digest: {digest({'schema': SCHEMA, **document})}\n"


def read_lock(path: Path) -> Lock:
    """Read a lock and check that it was not edited.

    Raises:
        RecipeError: there is no such file, it is no lock, or has an unknown schema.
        LockMismatchError: the digest does not match what is there.
    """
    try:
        document = read_yaml_strict(read_text(path))
        if not isinstance(document, dict):
            raise _no_lock(path, "it is not a mapping of sections")
        if (schema := document.get("schema")) != SCHEMA:
            raise _no_lock(path, f"'schema' is {schema!r}, but this xpubuild reads {SCHEMA}")
        written, found = document.pop("digest", None), digest(document)
        lock = validated({key: value for key, value in document.items() if key != "schema"})
    except (yaml.YAMLError, RecursionError) as error:
        raise _no_lock(path, f"it is not YAML: {error}") from error
    except (OSError, TypeError, ValueError) as error:
        raise _no_lock(path, clean_url(str(error))) from error
    if written != found:
        raise LockMismatchError(
            "the lock was edited",
            why="the content does not match the digest in its last line",
            fix="restore the file from version control; to build something else, change the recipe and create"
            " a new lock",
            commands=("xpubuild lock RECIPE",),
            evidence={"digest": written, "content": found},
        )
    return lock


def _no_lock(path: Path, problem: str) -> RecipeError:
    return RecipeError(
        f"{clean_url(str(path))} is not a lock, or is damaged",
        why=problem,
        fix="restore the file from version control, or create a new lock",
        commands=("xpubuild lock RECIPE",),
        evidence={"problem": problem},
    )


def validated(document: Mapping[str, Any]) -> Lock:
    """Return plain values as a lock.

    Raises:
        ValueError: one has no place in it; the text names the first.
    """
    try:
        # By way of JSON, which has no other leniency than that of its own types.
        return Lock.model_validate_json(json.dumps(document))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc'])) or 'the lock'}: {first['msg']}") from error


def write_lock(lock: Lock, path: Path) -> tuple[dict[str, Any], str]:
    """Write a lock, unless the file has it already.

    Returns the ``xpubuild.written-lock/1`` document, and what was wrong with the file that was there.

    Raises:
        UsageError: there is no such folder.
        NoSpaceError, ToolchainError: it cannot be written.
    """
    if not path.parent.is_dir():
        why = f"the folder {path.parent} does not exist"
        fix = "use another --output, or create the folder"
        raise UsageError(f"the lock cannot be written to {path}", why=why, fix=fix)
    old, problem = None, ""
    if path.exists():
        try:
            old = read_lock(path)
        except (RecipeError, LockMismatchError) as error:
            problem = f"{error.what}: {error.why}"
    if old != lock:
        write_atomic(reached_by(path, "--output"), dump(lock).encode("ascii"))
    trees = [tree for top in lock.repositories.values() for tree in (top, *top.configure_time.values())]
    document = {
        "schema": "xpubuild.written-lock/1", "recipe": lock.name, "file": str(path), "lock": lock.digest,
        "repositories": sum(1 + len(tree.submodules) for tree in trees), "archives": len(lock.archives),
        "pins": sum(len(file.pins) for file in lock.requirements.values()), "changed": old != lock,
        "differences": plain(differences(old, lock, "exact") if old is not None else ()),
    }  # fmt: skip
    return document, problem


# --- how two of them differ ------------------------------------------------------------------------------


@frozen
class Difference:
    """One thing that is not what a lock says."""

    path: str
    """Name of the thing, such as repositories.torch.submodules.NAME.commit."""
    old: Any
    """What the lock has; null where it has nothing."""
    new: Any
    """What there is now; null where there is nothing."""
    text: str
    """The difference as a sentence."""


def differences(old: Lock, new: Lock, policy: Policy) -> list[Difference]:
    """Return what differs in the order of the sections; of the machine what does not satisfy ``policy``."""
    one, other = old.model_dump(), new.model_dump()
    machine, here = one.pop("machine"), other.pop("machine")
    found = list(compare("", one, other))
    if policy == "exact":
        return [*found, *compare("machine", machine, here)]
    return [*found, *_incompatible(machine, here)] if policy == "compatible" else found


def compare(name: str, old: Any, new: Any) -> Iterator[Difference]:
    """Yield what differs between two trees of named values; None stands for what is not there."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        if old != new:
            yield Difference(name, old, new, _sentence(name, old, new))
        return
    for key in dict.fromkeys((*old, *new)):
        yield from compare(f"{name}.{key}" if name else key, old.get(key), new.get(key))


def _sentence(name: str, old: Any, new: Any) -> str:
    if isinstance(old, Mapping) or isinstance(new, Mapping):
        return f"{name} is {'not' if old is None else 'only'} in the lock"
    if isinstance(old, list) and isinstance(new, list):
        gone, came = [item for item in old if item not in new], [item for item in new if item not in old]
        return f"{name}: the lock has {_shown(gone or old)}, now it is {_shown(came or new)}"
    return f"{name}: the lock has {_shown(old)}, now it is {_shown(new)}"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        rest = len(value) - _MOST_LISTED
        return ", ".join(map(str, value[:_MOST_LISTED])) + (f" and {rest} more" if rest > 0 else "")
    return "none" if value is None else f"'{value}'" if value == "" else str(value)


def not_older(here: str, there: str) -> bool:
    """Whether a version is the same or newer, by its numbers; an epoch (``1:2.3``) counts first."""
    return here == there or _numbers(here) >= _numbers(there)


def _numbers(version: str) -> tuple[int, ...]:
    epoch, colon, rest = version.rpartition(":")
    numbers = tuple(map(int, re.findall(r"\d+", rest)))
    return (int(epoch) if colon and epoch.isdigit() else 0, *numbers)


def _same_compiler(here: str, there: str) -> bool:
    (kind, *rest), (other, *more) = here.split() or [""], there.split() or [""]
    return kind == other and _numbers(" ".join(rest[:1]))[:2] == _numbers(" ".join(more[:1]))[:2]


def _same_minor(here: str, there: str) -> bool:
    return re.findall(r"\d+", here)[:2] == re.findall(r"\d+", there)[:2]


#: Section of the machine -> what must hold of each value (here, in the lock), and how that is reported.
_COMPATIBLE: Mapping[str, tuple[Callable[[Any, Any], bool], str]] = {
    "architecture": (operator.eq, "it must be the same"),
    "glibc": (not_older, "it must not be older"),
    "python": (_same_minor, "major and minor version must be the same"),
    "compilers": (_same_compiler, "kind and major version must be the same"),
    "driver_family": (operator.eq, "it must be the same"),
    "drivers": (not_older, "it must not be older"),
    "oneapi": (_same_minor, "major and minor version must be the same"),
}


def _incompatible(lock: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[Difference]:
    for section, (holds, rule) in _COMPATIBLE.items():
        old, new = (one if isinstance(one, dict) else {"": one} for one in (lock[section], here[section]))
        for key, wanted in old.items():
            found = new.get(key)
            if wanted is not None and (found is None or not holds(found, wanted)):
                name = f"machine.{section}.{key}".rstrip(".")
                text = f"{name}: the lock has {_shown(wanted)}, this machine has {_shown(found)}; {rule}"
                yield Difference(name, wanted, found, text)
