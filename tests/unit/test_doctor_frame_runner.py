"""The runner of doctor: order, deadlines, needs, and checks that do everything a check must not do."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from support.doctor_frame import a_check, a_context, everything

from xpubuild.doctor.kit import Check, Look, Outcome
from xpubuild.doctor.runner import Result, run_checks
from xpubuild.machine.readers import LIVE_ROOT


def results(*checks: Check, root: Path = LIVE_ROOT, at_once: int = 16) -> dict[str, Result]:
    found = run_checks(a_context(root), everything(*checks), at_once=at_once)
    return {item.id: item for item in found}


def told(*checks: Check, root: Path = LIVE_ROOT) -> dict[str, tuple[str, str]]:
    return {name: (item.status, item.detail) for name, item in results(*checks, root=root).items()}


def test_checks_run_side_by_side_and_results_keep_their_order() -> None:
    barrier = threading.Barrier(5)

    def meet(_context: Look) -> Outcome:
        place = barrier.wait(5)
        time.sleep(0.01 * place)
        return Outcome("ok", "met")

    checks = [a_check(f"a.c{number}", meet) for number in range(5)]
    found = run_checks(a_context(), everything(*checks))
    assert [(item.id, item.status) for item in found] == [(f"a.c{number}", "ok") for number in range(5)]


def test_one_cause_is_one_failure() -> None:
    found = told(
        a_check("a.cause", Outcome("fail", "broken")),
        a_check("a.effect", needs=("a.cause",)),
        a_check("a.far", needs=("a.effect",)),
        a_check("a.farther", needs=("a.far",)),
        a_check("b.absent", Outcome("skip", "no such thing here")),
        a_check("b.of_it", needs=("b.absent",)),
        a_check("c.broken", lambda _context: 1 / 0),  # type: ignore[arg-type]
        a_check("c.of_it", needs=("c.broken",)),
        a_check("d.free"),
    )
    assert found["a.effect"] == ("skip", "needs a.cause, which failed")
    assert found["a.far"] == ("skip", "needs a.effect, which was skipped because a.cause failed")
    assert found["a.farther"] == ("skip", "needs a.far, which was skipped because a.cause failed")
    assert found["b.of_it"] == ("skip", "needs b.absent, which was skipped: no such thing here")
    assert found["c.of_it"] == ("skip", "needs c.broken, which could not complete")
    assert found["d.free"][0] == "ok"


def test_a_check_past_its_deadline_does_not_hold_the_others() -> None:
    stop = threading.Event()

    def hang(_context: Look) -> Outcome:
        stop.wait(60)
        return Outcome("ok", "too late")

    began = time.monotonic()
    found = told(
        a_check("a.hangs", hang, deadline_s=0.2), a_check("a.effect", needs=("a.hangs",)), a_check("a.well")
    )
    stop.set()
    assert time.monotonic() - began < 5
    assert found["a.hangs"] == ("error", "timed out after 0.2 s")
    assert found["a.effect"] == ("skip", "needs a.hangs, which could not complete")
    assert found["a.well"][0] == "ok"


WRONG = "TypeError: the check returned an Outcome with an unknown status or a fix that is not a Fix"


class _Wrong(BaseException):
    pass


class _Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


@pytest.mark.parametrize(
    ("raised", "detail"),
    [
        (ValueError("a message\nof two lines"), "ValueError: a message\nof two lines"),
        (KeyError(), "KeyError: no message"),
        (SystemExit(3), "SystemExit: 3"),
        (_Wrong("base"), "_Wrong: base"),
        (RecursionError("too deep"), "RecursionError: too deep"),
    ],
)
def test_an_exception_is_a_result(raised: BaseException, detail: str) -> None:
    def throw(_context: Look) -> Outcome:
        raise raised

    assert told(a_check("a.raises", throw), a_check("a.well")) == {
        "a.raises": ("error", detail),
        "a.well": ("ok", "a.well is well"),
    }


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "TypeError: the check returned NoneType, not an Outcome"),
        (Outcome("fine", ""), WRONG),
        (Outcome("ok", "", {}, "rpm"), WRONG),  # type: ignore[arg-type]
        (Outcome("ok", "", {"a": _Unprintable()}), "RuntimeError: no text for you"),
    ],
)
def test_an_answer_that_is_none_is_an_error(answer: Outcome, words: str) -> None:
    assert told(a_check("a.odd", lambda _context: answer))["a.odd"] == ("error", words)


def test_needs_that_lead_nowhere_or_in_a_circle_end() -> None:
    found = told(
        a_check("a.one", needs=("a.two",)),
        a_check("a.two", needs=("a.one",)),
        a_check("a.nowhere", needs=("z.gone",)),
        a_check("a.self", needs=("a.self",)),
    )
    assert found["a.one"] == ("error", "needs a.two, which in turn needs this check")
    assert found["a.two"][0] == "error"
    assert found["a.nowhere"] == ("error", "needs z.gone, which does not exist")
    assert found["a.self"][0] == "error"


def test_a_probe_is_asked_once_by_checks_that_run_side_by_side() -> None:
    asked: list[int] = []

    def look(_context: Look) -> int:
        time.sleep(0.05)
        asked.append(1)
        return len(asked)

    checks = [
        a_check(f"a.c{number}", lambda context: Outcome("ok", str(context.probe(look))))
        for number in range(6)
    ]
    assert {item[1] for item in told(*checks).values()} == {"1"}
