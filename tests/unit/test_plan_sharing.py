"""Builds that cannot wait for memory run one after the other; nothing runs beside them."""

from __future__ import annotations

from xpubuild.engine.model import Command, Step
from xpubuild.install.build_jobs import JOBS_VARIABLES, VARIABLE, one_by_one


def build(name: str, *needs: str, after: tuple[str, ...] = (), waits: bool = False) -> Step:
    tuning = {**dict.fromkeys(JOBS_VARIABLES, "8"), **({VARIABLE: "/settings"} if waits else {})}
    return Step(name, name, needs=needs, after=after, commands=(Command(("make",), tuning=tuning),))


def other(name: str, *needs: str) -> Step:
    return Step(name, name, needs=needs, commands=(Command(("true",)),))


def after_of(*steps: Step) -> dict[str, tuple[str, ...]]:
    return {step.id: step.after for step in one_by_one(steps)}


def test_builds_run_one_after_the_other() -> None:
    found = after_of(
        other("env"), build("torch", "env"), other("install", "torch"), build("vision", "install", "torch"),
        build("audio", "install", after=("env",)),
    )  # fmt: skip
    assert found == {"env": (), "torch": (), "install": (), "vision": (), "audio": ("env", "torch", "vision")}


def test_builds_whose_compilers_wait_run_side_by_side_and_beside_no_other() -> None:
    found = after_of(build("a", waits=True), build("b", waits=True), build("c"), build("d", waits=True))
    assert found == {"a": (), "b": (), "c": ("a", "b"), "d": ("c",)}
