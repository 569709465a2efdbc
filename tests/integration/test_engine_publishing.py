"""What a step makes: moved from its stage when it is whole, and never in place of somebody else's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from integration.engine_plans import go, step
from support.engine import make_plan, shell

from xpubuild.engine.journal import Journal
from xpubuild.engine.model import Publish, Step
from xpubuild.errors import ToolchainError

#: Also after errors.
pytestmark = pytest.mark.usefixtures("nothing_stays_open")


def build_wheel(workspace: Path, name: str, **options: Any) -> Step:
    stage, wheels = workspace / "wheels" / ".stage-a", workspace / "wheels"
    return Step(
        id="wheel",
        title="wheel",
        commands=(shell(f"echo {name} > '{stage}/{name}.whl'; touch '{stage}/other.txt'", **options),),
        outputs=(str(wheels),),
        fresh=(str(stage),),
        publish=Publish(str(stage), str(wheels), "*.whl"),
    )


def wheels(workspace: Path) -> list[str]:
    return sorted(path.name for path in (workspace / "wheels").iterdir())


def test_publishing_replaces_what_the_step_published_before(workspace: Path) -> None:
    assert go(make_plan(workspace, build_wheel(workspace, "a-1"))).ran == ["wheel"]
    assert wheels(workspace) == ["a-1.whl"]
    (workspace / "wheels" / "users.whl").write_text("of the user")
    assert go(make_plan(workspace, build_wheel(workspace, "a-2"))).ran == ["wheel"]
    assert wheels(workspace) == ["a-2.whl", "users.whl"]
    assert go(make_plan(workspace, build_wheel(workspace, "a-2"))).up_to_date == ["wheel"]


def test_what_a_killed_run_staged_or_published_does_not_stay(workspace: Path) -> None:
    """Killed after it had moved one wheel, with another still in the stage; the next run makes neither."""
    stage = workspace / "wheels" / ".stage-a"
    plan = make_plan(workspace, build_wheel(workspace, "a-3"))
    stage.mkdir(parents=True)
    with Journal(workspace / "journal.db") as journal:
        journal.begin("wheel", "0" * 64)
        journal.add_made("wheel", [str(workspace / "wheels"), str(workspace / "wheels" / "a-1.whl")])
    (workspace / "wheels" / "a-1.whl").write_text("moved by the killed run")
    (stage / "a-2.whl").write_text("left in the stage")
    assert go(plan).ran == ["wheel"]
    assert wheels(workspace) == ["a-3.whl"]


def test_somebody_elses_folder_is_in_the_way_and_stays(workspace: Path) -> None:
    env = workspace / "env"
    env.mkdir()
    (env / "thesis.txt").write_text("years")
    plan = make_plan(workspace, step("a", f"mkdir '{env}'", outputs=(str(env),), fresh=(str(env),)))
    (error,) = go(plan).errors
    assert isinstance(error, ToolchainError)
    assert "was not created by xpubuild" in error.what
    assert (env / "thesis.txt").read_text() == "years"
    env.rename(workspace / "elsewhere")
    assert go(plan).ran == ["a"]
    plan = make_plan(workspace, step("a", f"mkdir '{env}'; true", outputs=(str(env),), fresh=(str(env),)))
    assert go(plan).ran == ["a"], "what was made here may be replaced"


def test_a_damaged_journal_does_not_make_our_own_work_foreign(workspace: Path) -> None:
    env = workspace / "env"
    make = step("a", f"mkdir '{env}'", outputs=(str(env),), fresh=(str(env),))
    plan = make_plan(workspace, make)
    assert go(plan).ran == ["a"]
    (workspace / "journal.db").write_text("no database at all")
    assert go(plan).ran == ["a"]
    assert go(plan).up_to_date == ["a"]
