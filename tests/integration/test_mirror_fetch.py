"""Filling a mirror: all of it, only what is new, nothing twice, nothing on a dry run, nothing offline."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from integration.gitserver import Upstream
from integration.mirror_world import WHEELS, World, content, summary, world
from support.documents import check as check_document

from xpubuild.errors import FetchError, SourceIntegrityError
from xpubuild.install.fetch import Fetch
from xpubuild.supply.conda.lockfile import CondaLock, CondaPackage, write_lock
from xpubuild.supply.depot.examine import damages
from xpubuild.supply.depot.folder import Depot


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        yield made


def test_everything_comes_once_and_is_accounted_for(here: World, tmp_path: Path) -> None:
    place = tmp_path / "mirror"
    document = here.fetch(place).run()
    check_document(document, "fetch")
    assert summary(document) == (4, 3)
    assert {(item["path"], item["configure_time"]) for item in document["repositories"]} == {
        ("", False),
        ("third_party/mid", False),
        ("third_party/mid/deps/inner", False),
        ("third_party/ops", True),
    }
    assert here.asked() == {"top", "mid", "inner", "ops"}
    mirror = Depot.open(place)
    assert damages(mirror) == []
    (needed,) = mirror.index().sets.values()
    assert {use.commit for use in needed.repositories} == {
        here.commits[name] for name in ("top", "mid", "inner", "ops")
    }
    assert {entry.name for entry in mirror.files()} == set(WHEELS)
    listed = {record.path for entry in mirror.index().entries.values() for record in entry.files}
    derived = {path for entry in mirror.index().entries.values() for path in entry.derived()}
    assert set(content(place)) == {
        *listed, *derived, needed.path, "index.json", "wheels.html"
    }  # fmt: skip

    before = content(place)
    again = here.fetch(place).run()
    assert summary(again) == (0, 0)
    assert not any(item["new"] for item in again["repositories"] + again["files"])
    assert here.asked() == set()
    assert content(place) == before


def test_a_second_recipe_adds_only_what_is_new(here: World, tmp_path: Path) -> None:
    place = tmp_path / "mirror"
    here.filled(place, here.inputs("demo-1.0-py3-none-any.whl"))
    here.asked()
    document = here.fetch(place, here.inputs(commit=here.commits["next"], recipe="second")).run()
    assert here.asked() == {"top"}
    assert {item["name"] for item in document["files"] if item["new"]} == {
        "tool-2.0-cp311-cp311-manylinux_2_28_x86_64.whl", "old-0.1-py2.py3-none-any.whl"
    }  # fmt: skip
    mirror = Depot.open(place)
    assert damages(mirror) == []
    assert {needed.recipe for needed in mirror.index().sets.values()} == {"demo", "second"}
    for recipe, commit in (("demo", here.commits["top"]), ("second", here.commits["next"])):
        wheels = ("demo-1.0-py3-none-any.whl",) if recipe == "demo" else ()
        inputs = here.inputs(*wheels, commit=commit, recipe=recipe)
        assert here.fetch(place, inputs, offline=True).run()["status"] == "ok"
    assert here.asked() == set()


def test_offline_names_the_first_missing_thing(here: World, tmp_path: Path) -> None:
    place = tmp_path / "mirror"
    with pytest.raises(FetchError, match="is not a mirror"):
        here.fetch(place, offline=True).run()
    here.filled(place, here.inputs("demo-1.0-py3-none-any.whl"))
    here.asked()
    with pytest.raises(FetchError, match=here.commits["next"]):
        here.fetch(place, here.inputs(commit=here.commits["next"]), offline=True).run()
    with pytest.raises(FetchError, match="tool") as caught:
        here.fetch(place, offline=True).run()
    assert caught.value.exit_code == 30
    assert here.asked() == set()
    for lock in place.rglob("*.lock"):
        lock.unlink()

    def state() -> list[tuple[str, int]]:
        return [(str(path), path.stat().st_mtime_ns) for path in sorted(place.rglob("*"))]

    # As on a file system that is mounted read-only: nothing is written, not even a lock.
    before = state()
    assert here.fetch(place, here.inputs("demo-1.0-py3-none-any.whl"), offline=True).run()["status"] == "ok"
    assert state() == before


def test_a_tag_that_the_build_asks_for_is_remembered(here: World, tmp_path: Path) -> None:
    top, ops = Upstream(tmp_path / "srv" / "top.git"), Upstream(tmp_path / "srv" / "ops.git")
    subprocess.run(["git", "tag", "v1", here.commits["ops"]], cwd=ops.path, check=True)
    commit = top.commit({"ops.txt": "v1\n"}, parent=here.commits["next"])
    place = tmp_path / "mirror"
    document = here.fetch(place, here.inputs(commit=commit)).run()
    (found,) = [item for item in document["repositories"] if item["configure_time"]]
    assert (found["commit"], found["ref"]) == (here.commits["ops"], "v1")
    assert damages(Depot.open(place)) == []
    here.server.faults.fail = 99
    assert here.fetch(place, here.inputs(commit=commit), offline=True).run()["status"] == "ok"


def test_a_fetch_that_was_cut_leaves_what_the_next_one_takes_up(here: World, tmp_path: Path) -> None:
    place = tmp_path / "mirror"
    inputs = here.inputs()
    here.server.faults.fail, here.server.faults.fail_status = 99, 404
    with pytest.raises(FetchError):
        here.fetch(place, inputs).run()
    here.server.faults.fail = 0
    # The packs of top came, and xpubuild was killed before it could enter them.
    mirror = here.filled(place, inputs)
    (entry,) = [
        item
        for item in mirror.index().entries.values()
        if item.name.startswith("127.0.0.1") and "top" in item.name
    ]
    known = mirror.index()
    mirror.publish(
        replace(known, entries={name: known.entries[name] for name in known.entries if name != entry.id})
    )
    assert {item.entry for item in damages(mirror)} == {entry.id}
    here.asked()
    document = here.fetch(place, inputs).run()
    assert here.asked() == set()
    assert {item["entry"] for item in document["damaged"]} == {entry.id}
    assert damages(mirror) == []


def _with_conda(fetch: Fetch, lock: str) -> Fetch:
    return replace(fetch, wanted=replace(fetch.wanted, conda_lock=lock))


def test_the_packages_of_a_conda_lock_come_too(here: World, tmp_path: Path) -> None:
    name, data = "_tool-1.0-0.conda", b"a conda package"
    channel = tmp_path / "channel" / "noarch"
    channel.mkdir(parents=True)
    (channel / name).write_bytes(data)
    package = CondaPackage(
        name="_tool", version="1.0", build="0", filename=name, url=(channel / name).as_uri(),
        sha256=hashlib.sha256(data).hexdigest(), md5=hashlib.md5(data, usedforsecurity=False).hexdigest(),
    )  # fmt: skip
    lock = write_lock(CondaLock((package,), ((tmp_path / "channel").as_uri(),), "0" * 64))
    place = tmp_path / "mirror"
    with pytest.raises(FetchError, match="is not a mirror"):
        _with_conda(here.fetch(place, offline=True), lock).run()
    here.filled(place)
    with pytest.raises(FetchError, match=name):
        _with_conda(here.fetch(place, offline=True), lock).run()
    document = _with_conda(here.fetch(place), lock).run()
    new = [item["name"] for item in document["files"] if item["new"]]
    assert new == [name, "demo.conda-lock.yml"]
    assert _with_conda(here.fetch(place, offline=True), lock).run()["status"] == "ok"
    assert name not in (place / "wheels.html").read_text()
    other = lock.replace(package.sha256, "f" * 64)
    with pytest.raises(SourceIntegrityError, match=name):
        _with_conda(here.fetch(place), other).run()
    assert damages(Depot.open(place)) == []
