"""Builds side by side never use more jobs than were planned for the machine."""

from __future__ import annotations

import graphlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpubuild.engine.model import Command, Step
from xpubuild.install.build_jobs import JOBS_VARIABLES, share_jobs

GIB = 1 << 30


def jobs_environment(jobs: int) -> dict[str, str]:
    return dict.fromkeys(JOBS_VARIABLES, str(jobs))


def build(name: str, *needs: str, after: tuple[str, ...] = (), jobs: int = 8) -> Step:
    command = Command(("make",), env={"A": "1"}, tuning={**jobs_environment(jobs), "OTHER": "x"})
    return Step(name, name, needs=needs, after=after, commands=(command,), memory_bytes=jobs * GIB)


def other(name: str, *needs: str) -> Step:
    return Step(name, name, needs=needs, commands=(Command(("true",)),))


def jobs_of(steps: tuple[Step, ...]) -> dict[str, int]:
    return {
        step.id: int(step.commands[0].tuning["MAX_JOBS"])
        for step in steps
        if step.commands and step.commands[0].tuning
    }


def test_one_build_has_all_jobs() -> None:
    steps = share_jobs((other("env"), build("torch", "env"), build("vision", "torch")), 8)
    assert jobs_of(steps) == {"torch": 8, "vision": 8}
    assert steps[1].memory_bytes == 8 * GIB
    assert steps[1].after == ()


def test_two_that_may_run_at_once_have_half_each() -> None:
    plan = (build("torch"), other("install", "torch"), build("vision", "install"), build("audio", "install"))
    steps = share_jobs(plan, 8)
    assert jobs_of(steps) == {"torch": 8, "vision": 4, "audio": 4}
    assert steps[2].commands[0].tuning == {
        "MAX_JOBS": "4",
        "CMAKE_BUILD_PARALLEL_LEVEL": "4",
        "OTHER": "x",
    }
    assert steps[2].commands[0].env == {"A": "1"}
    assert steps[2].memory_bytes == steps[3].memory_bytes == 4 * GIB
    assert "vision" not in steps[3].after


def test_what_does_not_divide_goes_to_the_first() -> None:
    assert jobs_of(share_jobs((build("a"), build("b"), build("c")), 8)) == {"a": 3, "b": 3, "c": 2}


def test_with_fewer_jobs_than_builds_some_follow_each_other() -> None:
    steps = share_jobs(tuple(build(name, jobs=2) for name in "abc"), 2)
    assert jobs_of(steps) == {"a": 1, "b": 1, "c": 1}
    assert [step.after for step in steps] == [(), (), ("a",)]
    one = share_jobs(tuple(build(name, jobs=1) for name in "abc"), 1)
    assert [step.after for step in one] == [(), ("a",), ("b",)]


def test_the_next_rank_waits_for_the_whole_rank_before() -> None:
    steps = share_jobs((build("torch"), build("triton"), build("vision", "torch")), 4)
    assert jobs_of(steps) == {"torch": 2, "triton": 2, "vision": 4}
    assert steps[2].needs == ("torch",)
    assert steps[2].after == ("triton",)


def test_an_order_that_was_given_counts() -> None:
    steps = share_jobs((build("a"), build("b", after=("a",))), 4)
    assert jobs_of(steps) == {"a": 4, "b": 4}


def test_a_build_never_gets_more_than_it_asked_for() -> None:
    assert jobs_of(share_jobs((build("a", jobs=3), build("b", "a")), 8)) == {"a": 3, "b": 8}


def waiting(name: str) -> Step:
    tuning = {**jobs_environment(24), "XPUBUILD_ADMIT": "settings"}
    return Step(name, name, commands=(Command(("make",), tuning=tuning),), memory_bytes=8 * GIB)


def test_builds_whose_compilers_wait_share_a_budget_and_no_jobs() -> None:
    steps = share_jobs((waiting("a"), waiting("b")), 8)
    assert jobs_of(steps) == {"a": 24, "b": 24}
    assert steps[1].after == ()


def test_a_build_whose_compilers_cannot_wait_is_not_beside_one_whose_can() -> None:
    steps = share_jobs((waiting("a"), build("b")), 8)
    assert jobs_of(steps) == {"a": 24, "b": 8}
    assert steps[1].after == ("a",)


@st.composite
def plans(draw: st.DrawFn) -> tuple[Step, ...]:
    number = draw(st.integers(1, 9))
    steps = []
    for index in range(number):
        before = draw(st.sets(st.sampled_from([f"s{i}" for i in range(index)]))) if index else set()
        kind = build if draw(st.booleans()) else other
        steps.append(kind(f"s{index}", *sorted(before)))
    return tuple(draw(st.permutations(steps)))


@given(plan=plans(), jobs=st.integers(1, 9))
def test_no_moment_has_more_jobs_than_planned(plan: tuple[Step, ...], jobs: int) -> None:
    steps = share_jobs(plan, jobs)
    assert [step.id for step in steps] == [step.id for step in plan]
    before = {step.id: {*step.needs, *step.after} for step in steps}
    order = list(graphlib.TopologicalSorter(before).static_order())
    above: dict[str, set[str]] = {}
    for name in order:
        above[name] = before[name].union(*(above[other_] for other_ in before[name]))
    given_out = jobs_of(steps)
    assert all(count >= 1 for count in given_out.values())
    names = sorted(given_out)
    for size in range(1, len(names) + 1):
        for together in itertools.combinations(names, size):
            if not any(a in above[b] for a, b in itertools.permutations(together, 2)):
                assert sum(given_out[name] for name in together) <= jobs


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_plan_without_builds_is_left_alone(jobs: int) -> None:
    plan = (other("env"), other("torch", "env"))
    assert share_jobs(plan, jobs) == plan
