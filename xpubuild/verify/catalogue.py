"""Lists the checks and selects those of a run."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from xpubuild.errors import UsageError, did_you_mean
from xpubuild.verify.model import CheckInfo
from xpubuild.verify.suite import registry
from xpubuild.verify.suite.backends import BACKENDS
from xpubuild.verify.suite.registry import SUITES


def list_checks() -> tuple[CheckInfo, ...]:
    """Return all checks in the order they run."""
    return tuple(
        CheckInfo(check.id, check.title, check.group, check.needs, check.suites, check.deadline_s)
        for check in registry.discover().values()
    )


def select(
    *,
    device: str,
    suite: str,
    only: Sequence[str] = (),
    require: Sequence[str] = (),
    skip: Sequence[str] = (),
) -> list[registry.Check]:
    """Return the checks of a run in their order.

    ``only`` holds ids, groups or patterns (``aten.*``); the checks that they need run too. A check that
    is selected by it runs in any suite. ``require`` are optional parts, whose checks are added: those of the
    suite, or all of them if the suite has none. ``skip`` takes checks away, also those that others need.

    Raises:
        UsageError: device, suite or part is unknown, a pattern matches no check, or no check is left.
    """
    _require_known("device", device, tuple(BACKENDS))
    _require_known("suite", suite, SUITES)
    for part in require:
        _require_known("part", part, tuple(registry.PARTS))
    checks, chosen = registry.discover(), asked_for(suite, only, require)
    left_out = {identifier for pattern in skip for identifier in _matching(pattern, checks)}
    found = registry.closure(set(chosen) - left_out, checks, left_out)
    if left_out and not set(found) & set(chosen):
        raise UsageError(
            "no checks are left to run",
            why=f"--skip excludes every selected check: {', '.join(skip)}",
            fix="skip fewer checks",
            commands=["xpubuild verify --list"],
        )
    for part in require:
        _require_left(part, left_out, checks)
    return [checks[identifier] for identifier in found]


def asked_for(suite: str, only: Sequence[str] = (), require: Sequence[str] = ()) -> list[str]:
    """Return the ids that are meant themselves, without what they need.

    Raises:
        UsageError: a pattern matches no check.
    """
    checks = registry.discover()
    chosen = [identifier for identifier, check in checks.items() if suite in check.suites]
    if only:
        chosen = [identifier for pattern in only for identifier in _matching(pattern, checks)]
    return chosen + [identifier for part in require for identifier in _of_part(part, suite, checks)]


def _of_part(part: str, suite: str, checks: dict[str, registry.Check]) -> list[str]:
    every = [name for pattern in registry.PARTS[part] for name in _matching(pattern, checks)]
    return [name for name in every if suite in checks[name].suites] or every


def _require_left(part: str, left_out: set[str], checks: dict[str, registry.Check]) -> None:
    """A part that has to be there cannot be left out too."""
    gone = left_out.intersection(name for p in registry.PARTS[part] for name in _matching(p, checks))
    if gone:
        raise UsageError(
            f"--require {part} and --skip exclude each other",
            why=f"--skip removes {', '.join(sorted(gone))}",
            fix="drop one of the two options",
        )


def _require_known(what: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise UsageError(
            f"unknown {what} '{value}'",
            why=f"known {what}s: {', '.join(known)}",
            fix=f"use one of these {what}s",
        )


def _matching(pattern: str, checks: dict[str, registry.Check]) -> list[str]:
    found = [i for i, check in checks.items() if pattern == check.group or fnmatchcase(i, pattern)]
    if not found:
        raise UsageError(
            f"no check matches '{pattern}'",
            why="it is not a check id, a group, or a pattern that matches a check"
            + did_you_mean(pattern, (*checks, *(check.group for check in checks.values()))),
            fix="use an id or group from the list of checks",
            commands=["xpubuild verify --list"],
        )
    return found
