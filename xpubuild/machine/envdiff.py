"""The difference between two environments as data: what oneAPI's scripts change, to be applied elsewhere.

Search paths are kept as entries to put in front, to put behind and to take out, so that a difference that
was captured in an empty environment can be applied to one that has search paths of its own. Pure: no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from xpubuild.documents import plain
from xpubuild.engine.fingerprint import digest
from xpubuild.frozen import frozen

#: Variables that hold a list separated by colons (facts on what oneAPI scripts set, and their relatives).
PATH_LIKE = frozenset({
    "PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH",
    "CMAKE_PREFIX_PATH", "CMAKE_MODULE_PATH", "PKG_CONFIG_PATH", "ACLOCAL_PATH", "MANPATH", "INFOPATH",
    "NLSPATH", "PYTHONPATH", "CLASSPATH", "DIAGUTIL_PATH", "FI_PROVIDER_PATH", "OCL_ICD_FILENAMES",
    "XDG_DATA_DIRS",
})  # fmt: skip
#: An empty entry stands for the system's default here; in every other list it would be the current folder.
KEEPS_EMPTY_ENTRY = frozenset({"MANPATH", "INFOPATH"})
#: Differ from shell to shell, or would make a later run of setvars.sh believe that it has run already.
VOLATILE = frozenset({
    "_", "SHLVL", "PWD", "OLDPWD", "SHELLOPTS", "BASHOPTS", "BASH_ENV", "ENV", "PS1", "PS2", "PS4", "LINES",
    "COLUMNS", "SETVARS_COMPLETED", "SETVARS_CALL", "SETVARS_ARGS", "SETVARS_VARS_PATH", "SETVARS_CONFIG",
})  # fmt: skip
_FUNCTION_PREFIX = "BASH_FUNC_"
SEPARATOR = ":"


def is_volatile(name: str) -> bool:
    """Whether a variable is left out of every difference; exported bash functions are."""
    return name in VOLATILE or name.startswith(_FUNCTION_PREFIX)


def entries(name: str, value: str) -> tuple[str, ...]:
    """Return the entries of a search path, each once, the first place winning.

    Empty entries are kept only where they mean "the system's default" (``KEEPS_EMPTY_ENTRY``); a list
    of nothing else has no entries.
    """
    parts = dict.fromkeys(value.split(SEPARATOR))
    if name not in KEEPS_EMPTY_ENTRY or set(parts) == {""}:
        parts.pop("", None)
    return tuple(parts)


def normalise(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what two environments are compared by: no volatile names, no duplicate or empty entries.

    A search path without entries counts as unset.
    """
    result: dict[str, str] = {}
    for name, value in environment.items():
        if is_volatile(name):
            continue
        if name not in PATH_LIKE:
            result[name] = value
        elif found := entries(name, value):
            result[name] = SEPARATOR.join(found)
    return result


@frozen
class PathChange:
    """What happened to one search path: entries in front, entries behind, entries that went away."""

    prepend: tuple[str, ...] = ()
    append: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()

    def apply(self, existing: Iterable[str]) -> tuple[str, ...]:
        """Return the new list; an entry that is there already moves, so applying twice changes nothing."""
        moved = {*self.prepend, *self.append, *self.remove}
        return (*self.prepend, *(entry for entry in existing if entry not in moved), *self.append)


@frozen
class EnvDiff:
    """A typed difference: plain values, removed names, changes of search paths."""

    set: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    paths: Mapping[str, PathChange] = field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        """Every variable the difference touches."""
        return frozenset({*self.set, *self.unset, *self.paths})

    def to_json(self) -> dict[str, Any]:
        """Return the canonical form: the same difference always gives the same document."""
        return {
            "set": {name: self.set[name] for name in sorted(self.set)},
            "unset": sorted(self.unset),
            "paths": {name: plain(change) for name, change in sorted(self.paths.items())},
        }

    def digest(self) -> str:
        """Return the sha256 (hex) of the canonical form."""
        return digest(self.to_json())


def _path_change(before: tuple[str, ...], after: tuple[str, ...]) -> PathChange:
    stayed = tuple(entry for entry in before if entry in after)
    removed = tuple(entry for entry in before if entry not in after)
    if not stayed:
        return PathChange(prepend=after, remove=removed)
    start = after.index(stayed[0])
    end = start + len(stayed)
    if after[start:end] != stayed:
        # Reordered or interleaved: what lies up to the last old entry is taken as one new front.
        start = end = max(after.index(entry) for entry in stayed) + 1
    return PathChange(prepend=after[:start], append=after[end:], remove=removed)


def diff(before: Mapping[str, str], after: Mapping[str, str]) -> EnvDiff:
    """Return what has to be done to ``before`` to get ``after``, volatile names and duplicates aside."""
    old, new = normalise(before), normalise(after)
    plain: dict[str, str] = {}
    paths: dict[str, PathChange] = {}
    for name, value in new.items():
        if old.get(name) == value:
            continue
        if name in PATH_LIKE:
            paths[name] = _path_change(entries(name, old.get(name, "")), entries(name, value))
        else:
            plain[name] = value
    return EnvDiff(set=plain, unset=tuple(sorted(old.keys() - new.keys())), paths=paths)


def apply(difference: EnvDiff, environment: Mapping[str, str]) -> dict[str, str]:
    """Return ``environment`` with the difference applied; applying it again changes nothing.

    Search paths that are touched come out without duplicates. The argument is left as it is.
    """
    result = {name: value for name, value in environment.items() if name not in difference.unset}
    result.update(difference.set)
    for name, change in difference.paths.items():
        new = change.apply(entries(name, result.get(name, "")))
        if new:
            result[name] = SEPARATOR.join(new)
        else:
            result.pop(name, None)
    return result


def assignments(difference: EnvDiff, environment: Mapping[str, str]) -> dict[str, str | None]:
    """Return the final value of every touched variable in ``environment``; None means unset."""
    result = apply(difference, environment)
    return {name: result.get(name) for name in sorted(difference.names)}


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("expected a list of strings")
    return tuple(value)


def from_json(document: Any) -> EnvDiff:
    """Read the canonical form back.

    Raises:
        ValueError: the document is not such a form.
    """
    try:
        plain = dict(zip(document["set"], _strings([*document["set"].values()]), strict=True))
        paths = {
            name: PathChange(*(_strings(change[key]) for key in ("prepend", "append", "remove")))
            for name, change in document["paths"].items()
        }
        return EnvDiff(plain, _strings(document["unset"]), paths)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError("expected the objects 'set' and 'paths' and the list 'unset'") from error
