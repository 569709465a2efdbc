"""A matrix of two recipes through a real Slurm: fetched, built and verified by jobs, one of them killed."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from integration.test_components_held import wheel
from support import documents
from support.ordeal.world import RECIPE, World, contents, small_plan
from support.slurm import Slurm, slurm

from .conftest import Cli

pytestmark = [
    pytest.mark.xdist_group("slurm"),
    pytest.mark.needs("root", "slurmctld", "munged"),
    pytest.mark.timeout(300),
]

_CONFIGURATION = """
[jobs]
time = "00:10:00"
setup = ["export XPUBUILD_TEST_SETUP=1", 'test "$HOME" != /root']
[jobs.build]
partition = "build"
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
_LIMIT_S = 90.0


@dataclass
class Site:
    """A Slurm, recipes for it, and a folder of jobs."""

    slurm: Slurm
    world: World
    cli: Cli
    folder: Path
    names: dict[tuple[str, str], str]

    def submit(self) -> str:
        done = subprocess.run(
            [str(self.folder / "submit")], env=self.slurm.environment, cwd="/",
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        return done.stdout

    def states(self) -> dict[tuple[str, str], str]:
        answer = self.cli("status", "--jobs", self.folder, "--json", env=self.slurm.environment).must(0)
        rows = documents.check(answer.document, "jobs")["jobs"]
        return {(row["build"], row["kind"]): row["state"] for row in rows}

    def logs(self, build: str, kind: str) -> list[str]:
        name = self.names[build, kind]
        return [path.read_text() for path in (self.folder / "logs").glob(f"{name}.*.log")]

    def done_at(self, build: str, kind: str) -> int:
        return int((self.folder / "done" / self.names[build, kind]).read_text().split()[0])


@pytest.fixture
def site(tmp_path: Path, cli: Cli) -> Iterator[Site]:
    with small_plan(tmp_path / "world") as world:
        (tmp_path / "again").mkdir()
        stub = wheel(tmp_path / "again", "tiny-wheel", "1.0+cpu", "tiny.py", "torch.py", body=_TORCH)
        world.index.add(stub.name, stub.read_bytes())
        text = RECIPE.format(index=world.index.url(), url=world.git.url("fast.git"), commit=world.commit)
        (tmp_path / "world" / "other.yaml").write_text(text.replace("name: small", "name: other"))
        environment = world.environment(tmp_path / "place")
        config = Path(environment["XDG_CONFIG_HOME"]) / "xpubuild" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(_CONFIGURATION)
        del environment["XDG_CACHE_HOME"]
        (tmp_path / "world" / "both.yaml").write_text("recipes: [./small.yaml, ./other.yaml]\n")
        with slurm(tmp_path / "slurm", environment) as running:
            yield _planned(running, world, cli, tmp_path / "the jobs")


def _planned(running: Slurm, world: World, cli: Cli, folder: Path) -> Site:
    words = (
        "plan",
        "--format",
        "slurm",
        "--matrix",
        world.folder / "both.yaml",
        "--output",
        folder,
        "--json",
    )
    document = cli(*words, env=running.environment).must(0).document
    jobs = documents.check(document, "planned-jobs")["jobs"]
    names = {(job["name"].split("-")[1], job["kind"]): job["name"] for job in jobs}
    return Site(running, world, cli, folder, names)


def _wait(there: Callable[[], object]) -> None:
    end = time.monotonic() + _LIMIT_S
    while not there():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_two_recipes_one_job_killed(site: Site, tmp_path: Path) -> None:
    first = site.submit()
    assert first.count("submitted") == 8, first
    killed = site.names["other", "build"]
    _wait(lambda: "env: done" in "".join(site.logs("other", "build")))
    site.slurm.call("scancel", site.slurm.queue()[killed][0])
    _wait(lambda: not {killed, site.names["other", "verify"]} & site.slurm.queue().keys())
    states = site.states()
    assert states["other", "build"] == "cancelled"
    assert states["other", "verify"] == "gone"

    again = [line.split() for line in site.submit().splitlines()]
    assert {name for word, *_, name in again if word == "submitted"} == {
        site.names["other", kind] for kind in ("build", "verify", "report")
    }, again
    site.slurm.wait_until_empty(_LIMIT_S)
    states = {place: state for place, state in site.states().items() if place[1] != "report"}
    assert set(states.values()) == {"done"}, (states, site.logs("other", "build"))
    assert "submitted" not in site.submit()
    _in_order_and_once(site)
    _as_installed_here(site, tmp_path / "here")
    assert not list((tmp_path / "place" / "tmp").glob("xb-*"))
    assert not list((site.folder / "work").glob("*.tar"))


def _in_order_and_once(site: Site) -> None:
    for build in ("small", "other"):
        moments = [site.done_at(build, kind) for kind in ("fetch", "build", "verify")]
        assert moments == sorted(moments)
        assert [len(site.logs(build, kind)) for kind in ("fetch", "verify")] == [1, 1]
    assert len(site.logs("small", "build")) == 1
    # The second attempt found what the first had made on the node's own disk, and went on there.
    (resumed,) = (log for log in site.logs("other", "build") if "unpacking" in log)
    assert "env: create" not in resumed, resumed
    assert "cancelled" in "".join(site.logs("other", "report"))


def _as_installed_here(site: Site, workspace: Path) -> None:
    words = (*site.world.install, "--workspace", workspace, "--json")
    site.cli(*words, env=site.slurm.environment).must(0)
    (made,) = (workspace / "wheels").glob("fast*.whl")
    for build in ("small", "other"):
        wheels = site.folder / "wheels" / build
        assert contents(wheels / made.name) == contents(made)
        assert len(list(wheels.glob("*.whl"))) == 2
