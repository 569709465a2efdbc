"""What takes minutes on a real Slurm: a time limit, a killed daemon of a node, a submitter that is gone."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ordeal import world

from .conftest import Cli
from .slurm_site import Site, slurm_site, wait

pytestmark = [
    pytest.mark.on_demand,
    pytest.mark.xdist_group("slurm"),
    pytest.mark.needs("root", "slurmctld", "munged"),
    pytest.mark.timeout(900),
]
_LONG_S = 420.0


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file: while it is there, a build does not end."""
    path = tmp_path / "slow"
    path.touch()
    wait_here = f"import pathlib, time\nwhile pathlib.Path({str(path)!r}).exists():\n    time.sleep(0.2)\n"
    monkeypatch.setattr(world, "_BACKEND", wait_here + world._BACKEND)
    return path


@pytest.fixture
def site(tmp_path: Path, cli: Cli) -> Iterator[Site]:
    # Slurm counts in minutes, and may send the signal a minute early.
    with slurm_site(tmp_path, cli, build_time="00:03:00") as found:
        yield found


def _build_of(site: Site) -> str:
    return "".join(site.logs("small", "build"))


def _all_done(site: Site) -> None:
    site.slurm.wait_until_empty(_LONG_S)
    states = {place: state for place, state in site.states().items() if place[1] != "report"}
    assert set(states.values()) == {"done"}, (states, _build_of(site))


def test_at_its_time_limit_a_build_stops_and_goes_on(slow: Path, site: Site) -> None:
    site.submit()
    name = site.names["small", "build"]
    wait((site.folder / "tries" / f"{name}.time").exists, _LONG_S)
    slow.unlink()
    _all_done(site)
    log = _build_of(site)
    assert "interrupted after" in log
    assert log.count("env: create") == 1, log
    assert "unpacking" in log


def test_a_node_whose_daemon_is_killed(slow: Path, site: Site) -> None:
    site.submit()
    wait(lambda: "fast.wheel: build" in _build_of(site), _LONG_S)
    first = site.slurm.queue()[site.names["small", "build"]]
    site.slurm.kill_node()
    wait(lambda: site.slurm.queue()[site.names["small", "build"]][1] != "RUNNING", _LONG_S)
    assert first[1] == "RUNNING"
    slow.unlink()
    site.slurm.start_node()
    _all_done(site)


def test_a_submitter_that_is_gone(site: Site) -> None:
    submitter = subprocess.Popen(
        [str(site.folder / "submit")], env=site.slurm.environment, stdout=subprocess.PIPE, text=True
    )
    assert submitter.stdout
    first = submitter.stdout.readline()
    submitter.kill()
    submitter.communicate()
    assert site.names["small", "fetch"] in first
    site.submit()
    _all_done(site)
    for build, kind in site.names:
        if kind != "report":
            assert len(site.logs(build, kind)) == 1, (build, kind)
