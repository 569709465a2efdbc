"""A matrix of two recipes through a real Slurm: fetched, built and verified by jobs, one of them killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ordeal.world import contents

from .conftest import Cli
from .slurm_site import LIMIT_S, Site, slurm_site, wait

pytestmark = [
    pytest.mark.xdist_group("slurm"),
    pytest.mark.needs("root", "slurmctld", "munged"),
    pytest.mark.timeout(900),
]


@pytest.fixture
def site(tmp_path: Path, cli: Cli) -> Iterator[Site]:
    with slurm_site(tmp_path, cli) as found:
        yield found


def test_two_recipes_one_job_killed(site: Site, tmp_path: Path) -> None:
    first = site.submit()
    assert first.count("submitted") == 10, first
    killed = site.names["other", "build"]
    wait(lambda: "env: done" in "".join(site.logs("other", "build")))
    site.slurm.call("scancel", site.slurm.queue()[killed][0])
    told = {killed, site.names["other", "report"]}
    wait(lambda: not told & site.slurm.queue().keys())
    states = site.states()
    assert states["other", "build"] == "cancelled"
    assert states["other", "verify"] == "not run: its dependency failed"

    again = [line.split() for line in site.submit().splitlines()]
    assert {name for word, *_, name in again if word == "submitted"} == {
        site.names["other", kind] for kind in ("build", "report")
    } | {name for name in site.proofs if "xb-other" in name}, again
    site.slurm.wait_until_empty(LIMIT_S)
    states = {place: state for place, state in site.states().items() if place[1] != "report"}
    assert set(states.values()) == {"done"}, (states, site.logs("other", "build"))
    assert "submitted" not in site.submit()
    cells = site.cells()
    assert [(name, row["verdict"], row["passed"], row["cause"]) for name, row in cells.items()] == [
        (f"{build}-lts{driver}", "pass", 1, "") for build in ("small", "other") for driver in (2350, 2523)
    ]
    assert all(row["seconds"] > 0 and len(row["wheels"]) == 1 for row in cells.values()), cells
    _in_order_and_once(site)
    _the_same_wheels(site)
    assert not list((tmp_path / "place" / "tmp").glob("xb-*"))
    assert not list((site.folder / "builds").glob("*.tar"))


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


def _the_same_wheels(site: Site) -> None:
    """One build was killed and went on, the other was left alone."""
    small, other = (sorted((site.folder / "wheels" / build).glob("*.whl")) for build in ("small", "other"))
    assert [path.name for path in small] == [path.name for path in other]
    assert len(small) == 2
    assert [contents(path) for path in small] == [contents(path) for path in other]
