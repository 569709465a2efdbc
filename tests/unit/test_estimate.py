"""Estimates: how steps add up side by side, how earlier times are scaled, and which of several is taken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.plan_files import target_for

from xpubuild.engine.estimate import Estimate, span, total
from xpubuild.engine.model import Step
from xpubuild.install.estimate import Earlier, Known, estimates
from xpubuild.install.planner import make_plan
from xpubuild.install.target import Target
from xpubuild.supply.store.keeping import NotKept
from xpubuild.ui.wording import roughly

TORCH = "requirements/torch-2.13.0-cpu.txt"
BUILD = Earlier(
    step="ops.wheel", recipe="quickstart", target="cpu", fingerprint="", workspace="one",
    seconds=100.0, cpu_s=160.0, jobs=2, download_bytes=0, disk_bytes=5_000_000,
)  # fmt: skip


def target_of(tmp_path: Path, jobs: int = 2, cores: int | None = None) -> Target:
    facts = {"jobs": jobs, "cache": tmp_path, "cores": cores}
    return target_for("quickstart", workspace=str(tmp_path / "ws"), facts=facts)


def guess(target: Target, step: str, *earlier: Earlier, cached: tuple[str, ...] = ()) -> Estimate:
    return estimates(target, make_plan(target), [step], Known(earlier, cached))[step]


def test_steps_that_do_not_wait_for_each_other_run_side_by_side() -> None:
    before = {"env": (), "source": (), "build": ("env", "source"), "verify": ("build",)}
    seconds = {"env": 5.0, "source": 20.0, "build": 100.0, "verify": 10.0}
    assert span(before, seconds) == 130.0
    assert span(before, seconds, width=1) == 135.0
    assert span(before, {"build": 7.0}) == 7.0
    assert span({}, {}) == 0.0


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 100), min_size=1, max_size=12), st.integers(1, 5))
def test_no_run_is_shorter_than_its_longest_step_or_its_share_of_the_work(
    times: list[int], width: int
) -> None:
    names = {str(number): () for number in range(len(times))}
    found = span(names, dict(zip(names, times, strict=True)), width)
    assert max(times) - 1e-6 <= found <= sum(times) + 1e-6
    assert found >= sum(times) / width - 1e-6


def test_what_nothing_tells_of_is_named_in_the_total() -> None:
    steps = (Step("a", "a"), Step("b", "b", needs=("a",)), Step("done", "done"))
    found = total(steps, {"a": Estimate(3.0, 10, None), "b": Estimate(None, None, 7)})
    assert (found.seconds, found.download_bytes, found.disk_bytes, found.unknown) == (3.0, 10, 7, ("b",))


def test_only_what_the_processors_did_is_divided_among_other_jobs() -> None:
    assert BUILD.with_jobs(2) == pytest.approx(100.0)
    # 160 s of compiling on 2 jobs took 80 s, 20 s were something else.
    assert BUILD.with_jobs(8) == pytest.approx(40.0)
    assert BUILD.with_jobs(1) == pytest.approx(180.0)
    assert replace(BUILD, jobs=None).with_jobs(4) == pytest.approx(100.0)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.floats(0, 1e5), st.floats(0, 1e6), st.integers(1, 64), st.integers(1, 64))
def test_more_jobs_never_take_longer(seconds: float, cpu_s: float, before: int, now: int) -> None:
    build = replace(BUILD, seconds=seconds, cpu_s=cpu_s, jobs=before)
    assert 0 <= build.with_jobs(now + 1) <= build.with_jobs(now) + 1e-6


def test_the_nearest_earlier_build_counts(tmp_path: Path) -> None:
    target = target_of(tmp_path)
    fingerprint = make_plan(target).fingerprints["ops.wheel"]
    same = replace(BUILD, fingerprint=fingerprint, seconds=7.0, cpu_s=1.0)
    other_recipe = replace(BUILD, recipe="2.13", seconds=1.0, cpu_s=500.0)
    for_gpu = replace(BUILD, target="xpu", seconds=2.0, cpu_s=900.0)
    warm = replace(BUILD, seconds=3.0, cpu_s=2.0)
    assert guess(target, "ops.wheel", for_gpu, other_recipe, warm, BUILD, same).seconds == pytest.approx(7.0)
    # A build that found part of its work done says less than one that did all of it.
    assert guess(target, "ops.wheel", for_gpu, other_recipe, warm, BUILD).seconds == pytest.approx(100.0)
    assert guess(target, "ops.wheel", for_gpu, other_recipe).seconds == pytest.approx(1.0)
    assert guess(target, "ops.wheel", for_gpu).source.startswith("recipe: ")
    # Of what compiles nothing, the newest counts.
    verify = replace(BUILD, step="verify", jobs=None)
    assert guess(target, "verify", replace(verify, seconds=4.0, cpu_s=1.0), verify).seconds == 4.0


def test_the_source_says_what_a_guess_rests_on(tmp_path: Path) -> None:
    assert guess(target_of(tmp_path), "ops.wheel", BUILD).source == "earlier build in one"
    found = guess(target_of(tmp_path, jobs=8), "ops.wheel", BUILD)
    assert found.source == "earlier build in one with 2 jobs, scaled to 8"
    assert found.seconds == pytest.approx(40.0)


def test_without_an_earlier_build_the_recipe_tells(tmp_path: Path) -> None:
    few, many = (guess(target_of(tmp_path, jobs), "ops.wheel") for jobs in (1, 8))
    assert few.seconds
    assert many.seconds
    assert few.seconds == pytest.approx(8 * many.seconds)
    assert few.source.startswith("recipe: ")
    torch = guess(target_of(tmp_path), "torch")
    assert torch.download_bytes
    assert torch.download_bytes > 190_000_000
    # An older journal has times alone: the rest is still the recipe's.
    old = replace(BUILD, step="torch", jobs=None, download_bytes=None, disk_bytes=None)
    known = guess(target_of(tmp_path), "torch", old)
    assert (known.seconds, known.download_bytes) == (100.0, torch.download_bytes)


def test_jobs_beyond_the_cores_make_nothing_quicker(tmp_path: Path) -> None:
    as_cores, beyond = (guess(target_of(tmp_path, jobs, cores=2), "ops.wheel") for jobs in (2, 64))
    assert beyond.seconds == as_cores.seconds
    assert beyond.source == f"{as_cores.source}, with 64 jobs on 2 cores"
    assert guess(target_of(tmp_path, 2, cores=1), "ops.wheel").source.endswith("with 2 jobs on 1 core")
    assert guess(target_of(tmp_path, 64, cores=64), "ops.wheel").source == as_cores.source
    scaled = guess(target_of(tmp_path, 64, cores=4), "ops.wheel", BUILD)
    assert scaled.seconds == pytest.approx(BUILD.with_jobs(4))
    assert scaled.source == "earlier build in one with 2 jobs, scaled to 64 jobs on 4 cores"
    # Nor was a build quicker that had more jobs than cores.
    crowded = replace(BUILD, jobs=64)
    assert crowded.with_jobs(1, cores=2) == pytest.approx(BUILD.with_jobs(1, cores=2))
    assert crowded.with_jobs(64, cores=2) == pytest.approx(BUILD.seconds)


def test_a_cached_commit_and_local_work_download_nothing(tmp_path: Path) -> None:
    target = target_of(tmp_path)
    fetched = replace(BUILD, step="ops.source", jobs=None, download_bytes=9)
    assert guess(target, "ops.source", fetched).download_bytes == 9
    assert guess(target, "ops.source", fetched, cached=("ops",)).download_bytes == 0
    assert guess(target, "verify").download_bytes == 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1 s"), (0.4, "1 s"), (7.4, "7 s"), (9.6, "10 s"), (12, "10 s"), (43, "45 s"), (58, "1 min"),
        (61, "1 min"), (95, "2 min"), (9.7 * 60, "10 min"), (17 * 60, "15 min"), (58 * 60, "1 h"),
        (64 * 60, "1 h"), (68 * 60, "1 h 15 min"), (4.95 * 3600, "5 h"), (7.6 * 3600, "8 h"),
        (100 * 3600, "100 h"),
    ],
)  # fmt: skip
def test_a_guess_is_told_no_finer_than_it_is_known(seconds: float, text: str) -> None:
    assert roughly(seconds) == text


def test_a_wheel_of_a_store_takes_no_build(tmp_path: Path) -> None:
    target = target_of(tmp_path)
    plan = make_plan(target)
    kept = replace(plan.step("ops.wheel"), keeper=_Kept())
    steps = tuple(kept if step.id == kept.id else step for step in plan.steps)
    found = estimates(target, replace(plan, steps=steps), ["ops.wheel"], Known((BUILD,)))["ops.wheel"]
    assert found.source == "taken from the store /s"
    assert found.seconds is not None
    assert found.seconds < BUILD.seconds / 10


class _Kept(NotKept):
    def __init__(self) -> None:
        super().__init__("")

    def to_json(self) -> dict[str, Any]:
        return {"answer": "kept", "store": "/s"}
