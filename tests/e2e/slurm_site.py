"""Two recipes, a Slurm and a folder of jobs for both."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from integration.test_components_held import pins, wheel
from support import documents
from support.ordeal.world import RECIPE, World, small_plan
from support.slurm import Slurm, slurm

from .conftest import Cli

_CONFIGURATION = """
[jobs]
time = "00:10:00"
setup = ["export XPUBUILD_TEST_SETUP=1", 'test "$HOME" != /root']
[jobs.build]
partition = "build"
time = "{build_time}"
cores = 1
[jobs.verify]
partition = "verify"
[verify]
only = ["import.torch"]
"""
#: What the check of verify asks of torch.
_TORCH = """
from types import SimpleNamespace
__version__ = "1.0+cpu"
version = SimpleNamespace(git_version="", cuda=None)
_C = SimpleNamespace(_GLIBCXX_USE_CXX11_ABI=1)
"""
LIMIT_S = 500.0


@dataclass
class Site:
    """A Slurm, recipes for it, and a folder of jobs."""

    slurm: Slurm
    world: World
    cli: Cli
    folder: Path
    names: dict[tuple[str, str], str]
    proofs: tuple[str, ...]

    def submit(self) -> str:
        done = subprocess.run(
            [str(self.folder / "submit")], env=self.slurm.environment, cwd="/",
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        return done.stdout

    def states(self) -> dict[tuple[str, str], str]:
        answer = self.cli("status", "--jobs", self.folder, "--json", env=self.slurm.environment).must(0)
        rows = documents.check(answer.document, "jobs")["jobs"]
        states: dict[tuple[str, str], str] = {}
        for row in rows:
            # Of a build that is verified on two drivers, what is worse than done.
            place = (row["build"], row["kind"])
            states[place] = row["state"] if states.get(place, "done") == "done" else states[place]
        return states

    def cells(self) -> dict[str, dict[str, Any]]:
        answer = self.cli("status", "--jobs", self.folder, "--json", env=self.slurm.environment).must(0)
        return {row["cell"]: row for row in documents.check(answer.document, "jobs")["cells"]}

    def logs(self, build: str, kind: str) -> list[str]:
        name = self.names[build, kind]
        return [path.read_text() for path in (self.folder / "logs").glob(f"{name}.*.log")]

    def done_at(self, build: str, kind: str) -> int:
        return int((self.folder / "done" / self.names[build, kind]).read_text().split()[0])


@contextlib.contextmanager
def slurm_site(tmp_path: Path, cli: Cli, build_time: str = "00:10:00") -> Iterator[Site]:
    """Run Slurm with the world of two recipes, and write the folder of jobs."""
    with small_plan(tmp_path / "world") as world:
        (tmp_path / "again").mkdir()
        stub = wheel(tmp_path / "again", "tiny-wheel", "1.0+cpu", "tiny.py", "torch.py", body=_TORCH)
        world.index.add(stub.name, stub.read_bytes())
        (tmp_path / "world" / "tiny.txt").write_text(pins(stub))
        text = RECIPE.format(index=world.index.url(), url=world.git.url("fast.git"), commit=world.commit)
        (tmp_path / "world" / "other.yaml").write_text(text.replace("name: small", "name: other"))
        environment = world.environment(tmp_path / "place")
        config = Path(environment["XDG_CONFIG_HOME"]) / "xpubuild" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(_CONFIGURATION.format(build_time=build_time))
        del environment["XDG_CACHE_HOME"]
        with slurm(tmp_path / "slurm", environment) as running:
            yield _planned(running, world, cli, tmp_path / "the jobs")


def _planned(running: Slurm, world: World, cli: Cli, folder: Path) -> Site:
    words = (
        "plan",
        "--format",
        "slurm",
        "--matrix",
        f"recipes={world.folder / 'small.yaml'},{world.folder / 'other.yaml'}",
        "--matrix",
        "drivers=lts2350,lts2523",
        "--output",
        folder,
        "--json",
    )
    document = cli(*words, env=running.environment).must(0).document
    jobs = documents.check(document, "planned-jobs")["jobs"]
    names = {(job["name"].split("-")[1], job["kind"]): job["name"] for job in jobs}
    proofs = tuple(job["name"] for job in jobs if job["kind"] == "verify")
    return Site(running, world, cli, folder, names, proofs)


def wait(there: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Wait until something is so."""
    end = time.monotonic() + limit_s
    while not there():
        assert time.monotonic() < end
        time.sleep(0.05)
