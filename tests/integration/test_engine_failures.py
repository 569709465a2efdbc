"""How a step fails: proofs, classes of errors, bugs, full disks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from integration.engine_plans import go, statuses, step
from support.engine import (
    MARK,
    FileProof,
    Recorder,
    make_plan,
    new_mark,
    nothing_left,
    shell,
)

from xpubuild.engine.events import Event, StepOutput
from xpubuild.engine.journal import Journal
from xpubuild.engine.model import XPUBUILD, Command, Step
from xpubuild.errors import (
    BuildError,
    FetchError,
    ToolchainError,
)

#: Also after errors.
pytestmark = pytest.mark.usefixtures("nothing_stays_open")


def test_a_proof_that_fails_is_a_failure_with_the_log(workspace: Path) -> None:
    target = workspace / "out"
    proof = FileProof(str(target), "right\n")
    plan = make_plan(
        workspace, step("a", f"echo wrong > '{target}'; echo built", proofs=(proof,)), step("b", needs="a")
    )
    outcome = go(plan)
    assert outcome.ran == []
    (error,) = outcome.errors
    assert error.what == "out is wrong"
    assert error.log == workspace / "logs" / "a.log"
    assert "built" in error.log.read_text()
    assert statuses(workspace) == {"a": "failed"}
    assert [type(error) for error in go(plan).errors] == [BuildError], "not done, so it runs again"


def test_a_child_xpubuild_speaks_for_itself(workspace: Path) -> None:
    plan = make_plan(
        workspace,
        Step(id="a", title="a", commands=(Command((XPUBUILD, "recipes", "show", "no-such-recipe")),)),
    )
    (error,) = go(plan).errors
    assert error.exit_code == 20
    assert "no-such-recipe" in error.what
    assert error.log == workspace / "logs" / "a.log"
    assert not list((workspace / "logs").glob("*.json"))


def test_the_error_of_one_command_is_not_taken_for_that_of_the_next(workspace: Path) -> None:
    document = json.dumps(FetchError("no network").to_json())
    leave = f"printf '%s' '{document}' > \"$XPUBUILD_ERROR_FILE\"; exit 1"
    first = shell(leave, alternatives=(("sh", "-c", "exit 4"),))
    (error,) = go(make_plan(workspace, Step(id="a", title="a", commands=(first,)))).errors
    assert type(error) is BuildError
    (error,) = go(make_plan(workspace, Step(id="b", title="b", commands=(shell(leave),)))).errors
    assert isinstance(error, FetchError)
    assert error.what == "no network"


def test_a_missing_program_is_a_failed_step(workspace: Path) -> None:
    outcome = go(make_plan(workspace, Step(id="a", title="a", commands=(Command(("no-such-tool",)),))))
    assert [type(error) for error in outcome.errors] == [ToolchainError]
    assert statuses(workspace) == {"a": "failed"}


class BugError(Exception):
    pass


@dataclass
class BuggyProof:
    def describe(self) -> str:
        return "a bug"

    def key(self) -> dict[str, Any]:
        return {"proof": "bug"}

    def check(self) -> dict[str, Any]:
        raise BugError("in a proof")


class BuggySink(Recorder):
    def emit(self, event: Event) -> None:
        super().emit(event)
        if isinstance(event, StepOutput) and event.step == "bug":
            raise BugError("in a sink")


@pytest.mark.parametrize(
    ("proofs", "make_sink"), [((BuggyProof(),), Recorder), ((), BuggySink)], ids=["proof", "sink"]
)
def test_a_bug_surfaces_at_once_and_ends_the_other_steps(
    proofs: tuple[BuggyProof, ...], make_sink: Callable[[], Recorder], workspace: Path
) -> None:
    mark = new_mark()
    begun = f"while [ ! -e '{workspace}/began' ]; do sleep 0.02; done; echo x"
    plan = make_plan(
        workspace,
        step("bug", begun, proofs=proofs),
        Step(
            id="long",
            title="long",
            commands=(shell(f"touch '{workspace}/began'; sleep 300", env={MARK: mark}),),
        ),
        step("after", f"touch '{workspace}/after'", needs=["long"]),
    )
    started = time.monotonic()
    with nothing_left(mark), pytest.raises(BugError):
        go(plan, make_sink())
    assert time.monotonic() - started < 60
    assert not (workspace / "after").exists()
    with Journal(workspace / "journal.db", read_only=True) as journal:
        assert journal.runs()[-1]["status"] == "failed"
    fixed = make_plan(workspace, step("bug", begun), step("after"))
    assert sorted(go(fixed).ran) == ["after", "bug"]
