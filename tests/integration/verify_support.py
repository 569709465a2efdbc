"""Running the verify suite in the shared environment of the tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from integration.mutations import mutate, python_path
from integration.torch_env import OpsSite, TorchEnv
from integration.warm_python import warm_python

from xpubuild.verify.harness import run_suite
from xpubuild.verify.model import CheckResult, VerifyReport


@dataclass
class Target:
    """The environment to verify, with or without the extension, and what to break in it."""

    env: TorchEnv
    ops: OpsSite
    work: Path

    def __post_init__(self) -> None:
        self.env = replace(self.env, environ=dict(self.env.environ))
        self.scratch = self.work / "scratch with ünïcode"

    def verify(
        self,
        *only: str,
        suite: str = "smoke",
        device: str = "cpu",
        mutation: str = "",
        module: str = "torch",
        ops: bool = True,
        path: Sequence[Path] = (),
        python: Path | None = None,
        **more: Any,
    ) -> VerifyReport:
        """Run checks; ``mutation`` is code that runs in the target after ``module`` is imported."""
        folders = list(path)
        if mutation:
            folders.append(mutate(self.work / "mutation", mutation, module=module))
        if ops:
            folders.append(self.ops.site)
        environ = {**self.env.environ, "PYTHONPATH": python_path(*folders)}
        where = {"device": device, "env": environ, "work": self.scratch, "suite": suite}
        return run_suite(python or self.env.python, only=only, **where, **more)


def by_id(report: VerifyReport) -> dict[str, CheckResult]:
    return {check.id: check for check in report.checks}


def bad(report: VerifyReport) -> dict[str, str]:
    """Return the status of everything that did not pass or skip."""
    return {check.id: check.status for check in report.checks if check.bad}


@pytest.fixture
def target(torch_env: TorchEnv, ops_site: OpsSite, tmp_path: Path) -> Target:
    return Target(torch_env, ops_site, tmp_path)


@pytest.fixture(scope="module")
def warm(torch_env: TorchEnv, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The interpreter of the environment, forked with torch imported."""
    with warm_python(torch_env.python, torch_env.environ, tmp_path_factory.mktemp("warm")) as python:
        yield python
