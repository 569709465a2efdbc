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


def select(*, device: str, suite: str, only: Sequence[str] = ()) -> list[registry.Check]:
    """Return the checks of a run in their order.

    ``only`` holds ids, groups or patterns (``aten.*``); the checks that they need run too. A check that
    is selected by it runs in any suite.

    Raises:
        UsageError: device or suite is unknown, or a pattern matches no check.
    """
    _require_known("device", device, tuple(BACKENDS))
    _require_known("suite", suite, SUITES)
    checks = registry.discover()
    chosen = [identifier for identifier, check in checks.items() if suite in check.suites]
    if only:
        chosen = [identifier for pattern in only for identifier in _matching(pattern, checks)]
    return [checks[identifier] for identifier in registry.closure(chosen, checks)]


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
