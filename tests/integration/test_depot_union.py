"""Depots are folders: copied over each other, moved, and cut off at any point, they are listed again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.mirror_world import World, content, world

from xpubuild.errors import InterruptedByUserError
from xpubuild.supply.depot.examine import check_depot, damages
from xpubuild.supply.depot.folder import Depot


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        yield made


def test_two_depots_in_one_folder_are_their_union(here: World, tmp_path: Path) -> None:
    """As rsync or tar puts them there, with the index and the ends of history of one of them."""
    inputs = {
        "demo": here.inputs("demo-1.0-py3-none-any.whl"),
        "second": here.inputs("old-0.1-py2.py3-none-any.whl", commit=here.commits["next"], recipe="second"),
    }
    for name, wanted in inputs.items():
        here.filled(tmp_path / name, wanted)
    both = tmp_path / "both"
    for name in inputs:
        shutil.copytree(tmp_path / name, both, dirs_exist_ok=True)
    here.asked()
    found = {item.path.split("/")[0] for item in check_depot(both)}
    assert found >= {"git", "sets"}
    assert check_depot(both, repair=True) == []
    for wanted in inputs.values():
        assert here.fetch(both, wanted, offline=True).run()["status"] == "ok"
    # Whichever was copied last, and without an index at all, it is the same.
    before = content(both)
    for path in ("index.json", "wheels.html", *(path for path in before if path.endswith("/shallow"))):
        (both / path).unlink()
    assert check_depot(both, repair=True) == []
    assert content(both) == before
    assert here.asked() == set()


def test_what_a_repair_cannot_find_is_returned_and_fetched(here: World, tmp_path: Path) -> None:
    depot = here.filled(tmp_path / "mirror")
    wheel = next(path for path in content(depot.path) if path.endswith(".whl"))
    (depot.path / wheel).write_bytes(b"x")
    assert [item.path for item in check_depot(depot.path, repair=True)] == [wheel]
    assert f"files/{Path(wheel).parts[1]}" not in depot.index().entries
    here.fetch(depot.path).run()
    assert damages(depot) == []


def test_readers_find_all_of_a_fetch_or_nothing_of_it(
    here: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = here.inputs("demo-1.0-py3-none-any.whl")
    depot = here.filled(tmp_path / "mirror", first)
    second = here.inputs(commit=here.commits["next"], recipe="second")

    def killed(*_: object) -> None:
        raise InterruptedByUserError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(Depot, "publish", killed)
        with pytest.raises(InterruptedByUserError):
            here.fetch(depot.path, second).run()
    assert [one.recipe for one in depot.index().sets.values()] == ["demo"]
    # Those who build from it are not disturbed by what is there beside.
    assert damages(depot, {need for one in depot.index().sets.values() for need in one.needs}) == []
    here.asked()
    here.fetch(depot.path, second).run()
    assert here.asked() == set()
    assert damages(depot) == []
    for wanted in (first, second):
        assert here.fetch(depot.path, wanted, offline=True).run()["status"] == "ok"
