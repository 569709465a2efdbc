"""Site-specific checks: entry points of the group ``xpubuild.checks``.

An entry point names a class derived from ``Check``, or a module with such classes. A faulty
entry point becomes a check with status ``error``; all other checks still run.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

from xpubuild.doctor.model import Check, Outcome
from xpubuild.machine.readers import read_bytes

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from xpubuild.doctor.context import CheckContext

GROUP = "xpubuild.checks"
_ENTRY_POINTS = "entry_points.txt"


class BrokenCheck(Check):
    """Takes the place of checks that could not be loaded."""

    id = "plugin.broken"
    title = "The checks of a plug-in can be loaded"
    problem: ClassVar[str] = ""

    def run(self, context: CheckContext) -> Outcome:  # noqa: ARG002
        """Report what went wrong."""
        return Outcome("error", self.problem)


def plugin_checks() -> Iterator[type[Check]]:
    """Yield the checks of all plug-ins, by the name of their entry point."""
    if not _any_plugin():
        return
    from importlib.metadata import entry_points  # noqa: PLC0415 - a tenth of the whole run, mostly for nothing

    for entry in sorted(entry_points(group=GROUP), key=lambda item: (item.name, item.value)):
        yield from _checks_of(entry)


def _any_plugin() -> bool:
    """Whether an installed distribution may have entry points of the group.

    Looks for the group's name in the files where ``importlib.metadata`` would find it. If ``sys.path``
    has an entry that is not a folder, or if other finders are installed, this cannot be decided.
    """
    if any(hasattr(finder, "find_distributions") for finder in sys.meta_path if finder is not PathFinder):
        return True
    return any(map(_may_have, dict.fromkeys(sys.path)))


def _may_have(place: str) -> bool:
    try:
        with os.scandir(place or ".") as found:
            infos = [item.path for item in found if item.name.lower().endswith((".dist-info", ".egg-info"))]
    except NotADirectoryError:  # a zip file
        return True
    except OSError:
        return False
    return any(GROUP.encode() in (read_bytes(Path(info, _ENTRY_POINTS)) or b"") for info in infos)


def broken(name: str, problem: str) -> type[Check]:
    """Return a check that reports something that could not be loaded."""
    title = f"The checks of {name} can be loaded"
    return type("Broken", (BrokenCheck,), {"id": f"plugin.{name}", "title": title, "problem": problem})


def classes_of(module: ModuleType) -> Iterator[type[Check]]:
    """Yield the checks that a module itself defines, in the order of their definition."""
    for value in vars(module).values():
        if is_check(value) and value.__module__ == module.__name__:
            yield value


def is_check(value: object) -> bool:
    """Whether a value is a class that can be run as a check."""
    return isinstance(value, type) and issubclass(value, Check) and not inspect.isabstract(value)


def fault(check: type[Check]) -> str:
    """Return what is wrong with the fields of a check, or an empty text."""
    for name in ("id", "title"):
        if not isinstance(getattr(check, name, None), str) or not getattr(check, name):
            return f"the class {check.__name__} has no {name}"
    if not all(part and part.isascii() and part.replace("_", "a").isalnum() for part in check.id.split(".")):
        return f"the id '{check.id}' is not a sequence of words separated by dots"
    if isinstance(check.needs, str) or isinstance(check.profiles, str):
        return f"'needs' and 'profiles' of {check.id} must be collections of strings"
    return ""


def _checks_of(entry: EntryPoint) -> Iterator[type[Check]]:
    try:
        found = entry.load()
        checks = list(classes_of(found)) if inspect.ismodule(found) else [found]
        wrong = next((f"{entry.value} is not a check" for item in checks if not is_check(item)), "")
        wrong = wrong or next(filter(None, map(fault, checks)), "")
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary: a plug-in may raise anything
        yield broken(entry.name, f"{entry.value}: {type(error).__name__}: {error}")
        return
    if wrong or not checks:
        yield broken(entry.name, wrong or f"{entry.value} contains no checks")
    else:
        yield from checks
