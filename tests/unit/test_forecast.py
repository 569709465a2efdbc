"""What is left of a run: what its steps took the last time, and builds replayed edge by edge."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from support.plan_files import prepared_for

from xpubuild.engine.events import (
    Event,
    RunForecast,
    StepFinished,
    StepOutput,
    StepProgress,
    StepStarted,
)
from xpubuild.engine.forecast import Estimate, Forecaster, edge_key, total
from xpubuild.engine.model import Step
from xpubuild.install.estimate import edge_weights, estimates
from xpubuild.supply.depot.keeping import Found, WheelKeeper
from xpubuild.ui import wording


@dataclass
class Kept:
    events: list[Event] = field(default_factory=list)

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def close(self) -> None:
        pass


STEPS = (Step("env", "env"), Step("a.wheel", "a", needs=("env",)), Step("verify", "v", needs=("a.wheel",)))
EXPECTED = {"env": Estimate(10.0), "a.wheel": Estimate(100.0), "verify": Estimate(20.0)}


def forecaster(kept: Kept, now: list[float], **expected: Estimate) -> Forecaster:
    return Forecaster(kept, STEPS, expected or EXPECTED, {}, clock=lambda: now[0])


def test_the_whole_of_a_run_goes_down_as_its_steps_do() -> None:
    now, kept = [1000.0], Kept()
    run = forecaster(kept, now)
    assert run.forecast().left_s == pytest.approx(130)
    run.emit(StepStarted(1000, "env", "env", "log"))
    now[0] = 1004
    assert run.forecast().left_s == pytest.approx(126)
    now[0] = 1040
    assert run.forecast().left_s == pytest.approx(120), "late steps are over at any moment"
    run.emit(StepFinished(1040, "env", "env", "done", 40.0))
    run.emit(StepStarted(1040, "a.wheel", "a", "log"))
    run.emit(StepProgress(1050, "a.wheel", 0, 4, "edges"))
    run.emit(StepProgress(1090, "a.wheel", 2, 4, "edges"))
    now[0] = 1090
    # By its pace 50 s, by the last time 50 s too.
    assert dict(run.forecast().steps)["a.wheel"] == pytest.approx(50)
    now[0] = 1140
    assert dict(run.forecast().steps)["a.wheel"] == pytest.approx(75), "between 100 s and 50 s"
    assert run.forecast().unknown == ()
    passed_on = [event for event in kept.events if not isinstance(event, RunForecast)]
    assert len(passed_on) == 5


def test_what_is_not_known_makes_it_at_least() -> None:
    found = forecaster(Kept(), [0.0], env=Estimate(1200.0), verify=Estimate(None)).forecast()
    assert found.unknown == ("verify",)
    assert wording.left(found) == "at least 20 min left"


def test_forecasts_come_by_themselves_while_something_runs() -> None:
    kept = Kept()
    now = [1000.0]
    run = forecaster(kept, now)
    run.emit(StepStarted(1000, "env", "env", "log"))
    for now[0] in (1001.0, 1004.0, 1006.0):
        run.emit(StepOutput(now[0], "env", "x"))
    told = [event.to_json()["event"] for event in kept.events]
    assert told == ["step-started", "run-forecast", *["step-output"] * 3, "run-forecast"]


@pytest.mark.parametrize(
    "line", ["  [1/2] c++ -c one.cpp -o /elsewhere/q/a/one.o", "[1/2] Building CXX object q/a/one.o"]
)
def test_an_edge_counts_by_what_it_took_the_last_time(line: str) -> None:
    now, weights = [0.0], {edge_key("/home/q/a/one.o"): 90.0, edge_key("/home/q/a/two.o"): 10.0}
    run = Forecaster(Kept(), STEPS, {"a.wheel": Estimate()}, {"a.wheel": weights}, clock=lambda: now[0])
    run.emit(StepStarted(0, "a.wheel", "a", "log"))
    run.emit(StepOutput(45, "a.wheel", line))
    run.emit(StepProgress(45, "a.wheel", 1, 2, "edges"))
    now[0] = 45
    assert run.forecast().left_s == pytest.approx(5)


def test_the_edges_of_the_last_build_are_those_of_its_log(tmp_path: Path) -> None:
    target = prepared_for("quickstart", workspace=str(tmp_path / "ws")).target
    assert edge_weights(target, "ops.wheel") == {}
    folder = tmp_path / "ws" / "build" / "ops"
    folder.mkdir(parents=True)
    (folder / ".ninja_log").write_text("# ninja log v7\n0\t2000\t0\ta.o\t1\n1000\t3500\t0\tx/y/b.o\t2\n")
    assert edge_weights(target, "ops.wheel") == {"a.o": 2.0, "x/y/b.o": 2.5}


def test_without_a_last_time_the_recipe_says_what_a_step_takes(tmp_path: Path) -> None:
    def guess(step: str, jobs: int = 2, cores: int | None = None) -> Estimate:
        facts = {"jobs": jobs, "cores": cores}
        return estimates(prepared_for("quickstart", workspace=str(tmp_path), facts=facts), [step])[step]

    few, many = guess("ops.wheel", 1), guess("ops.wheel", 8)
    assert few.seconds
    assert many.seconds
    assert few.seconds == pytest.approx(8 * many.seconds)
    assert few.source.startswith("recipe: ")
    assert (guess("torch").download_bytes or 0) > 190_000_000
    assert guess("ops.wheel", 64, 2) == guess("ops.wheel", 2, 2)


def test_a_build_for_xpu_takes_longer_with_more_files_and_more_gpus(tmp_path: Path) -> None:
    def hours(name: str, oneapi: str, *arch: str) -> float:
        prepared = prepared_for(name, oneapi=oneapi, workspace=str(tmp_path), arch=arch)
        return (estimates(prepared, ["torch.wheel"])["torch.wheel"].seconds or 0.0) / 3600

    one, eight = ("pvc",), ("pvc", "bmg", "dg2", "arl-h", "mtl-h", "lnl-m", "ptl-h", "ptl-u")
    assert hours("2.13", "2026.0", *eight) > 2 * hours("2.13", "2026.0", *one)
    assert hours("2.13", "2026.0", *one) > 1.3 * hours("2.4", "2024.1", *one)


def test_a_sum_says_where_a_step_is_missing() -> None:
    known = {"env": Estimate(1.0, 10, 20), "verify": Estimate(None, 5, None)}
    steps = [STEPS[0], replace(STEPS[2], needs=("env",))]
    assert total(steps, known).at_least == ("seconds", "disk_bytes")
    assert total(steps, known).unknown == ("verify",)
    assert total(steps[:1], {"env": known["env"]}).at_least == ()


def test_a_wheel_of_a_store_takes_no_build(tmp_path: Path) -> None:
    prepared = prepared_for("quickstart", workspace=str(tmp_path))
    kept = replace(prepared.plan.step("ops.wheel"), keeper=_Kept())
    plan = replace(prepared.plan, steps=(kept,))
    found = estimates(replace(prepared, plan=plan), ["ops.wheel"])["ops.wheel"]
    assert (found.source, found.seconds) == ("taken from the store /s", 3.0)


class _Kept(WheelKeeper):
    def __init__(self) -> None:
        super().__init__("", Found(), (), str, lambda *_: pytest.fail("nothing is built"))

    def to_json(self) -> dict[str, Any]:
        return {"answer": "kept", "store": "/s"}
