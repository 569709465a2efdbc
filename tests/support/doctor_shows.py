"""``@shows("fail", "gpu.bar")``: the test brings a check to a status, and fails where it did not.

``tests/unit/test_style_checks.py`` reads these decorators and requires, for every check, one with ``ok`` and
one with ``warn`` or ``fail``. A decorator cannot be a mere mention: the test fails if the check did not run
in it, or answered something else.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from xpubuild.doctor.kit import Check, Look, Outcome
from xpubuild.doctor.registry import shipped

Test = TypeVar("Test", bound=Callable[..., None])


def shows(status: str, *identifiers: str) -> Callable[[Test], Test]:
    """Return a decorator for a test in whose process each of these checks answers with ``status``."""

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(*arguments: Any, **named: Any) -> None:
            seen: set[tuple[str, str]] = set()
            with pytest.MonkeyPatch.context() as patch:
                for check in shipped():
                    if check.id in identifiers:
                        patch.setattr(check, "ask", _noting(check, seen))
                test(*arguments, **named)
            missing = sorted({(name, status) for name in identifiers} - seen)
            assert not missing, f"not shown by this test: {missing}"

        return run  # type: ignore[return-value]

    return decorate


def _noting(check: Check, seen: set[tuple[str, str]]) -> Callable[[Look], Outcome]:
    ask = check.ask

    @functools.wraps(ask)
    def noting(look: Look) -> Outcome:
        outcome = ask(look)
        seen.add((check.id, check.severity if outcome.status == "finding" else outcome.status))
        return outcome

    return noting
