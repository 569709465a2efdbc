"""A mirror that somebody else has prepared: nothing outside is touched, nothing unverified put in place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.mirror_world import WHEELS, World, content, world

from xpubuild.errors import SourceIntegrityError, ToolchainError
from xpubuild.supply.mirror.check import is_marked
from xpubuild.supply.mirror.entries import INDEX, Entry, FileRecord
from xpubuild.supply.mirror.index import render_index
from xpubuild.supply.mirror.reading import COMMITTING, digest_of
from xpubuild.supply.mirror.store import Mirror


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        yield made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a folder of the user with files that nobody may touch."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    return folder


@pytest.mark.parametrize("name", ["files", "git", "sets", ".downloads", ".lock", "git/*/objects"])
def test_a_part_that_is_a_link_elsewhere_is_refused_before_anything_is_written(
    name: str, here: World, home: Path, tmp_path: Path
) -> None:
    mirror = here.filled(tmp_path / "mirror")
    place = next(mirror.path.glob(name), mirror.path / name)
    if place.is_dir():
        for item in place.iterdir():
            shutil.move(item, home / item.name)
        place.rmdir()
    else:
        place.unlink(missing_ok=True)
    place.symlink_to(home)
    before = content(home)
    with pytest.raises(SourceIntegrityError) as caught:
        here.fetch(mirror.path).run()
    assert str(place) in caught.value.what
    assert str(home) in caught.value.why
    assert content(home) == before


def test_a_lock_of_a_repository_that_is_a_link_makes_no_file_elsewhere(
    here: World, home: Path, tmp_path: Path
) -> None:
    mirror = here.filled(tmp_path / "mirror")
    repository = next(mirror.path.glob("git/*.git"))
    lock = repository.with_suffix(".lock")
    lock.unlink(missing_ok=True)
    lock.symlink_to(home / "new")
    before = content(home)
    with pytest.raises(ToolchainError, match="is a link") as caught:
        here.fetch(mirror.path).run()
    assert caught.value.commands == (f"rm {lock}",)
    assert content(home) == before


def planted(mirror: Mirror, files: dict[str, bytes], *, lie: str = "") -> Path:
    """Put a change into a mirror as a killed writer leaves it; ``lie`` is what a file has instead."""
    ready = mirror.path / f"{COMMITTING}planted"
    for path, data in files.items():
        target = ready / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        if path.startswith("files/"):
            name = path.rpartition("/")[2]
            entry = Entry("wheel", name, (FileRecord(path, *digest_of(target)),))
            (ready / INDEX).write_bytes(render_index([entry]))
            if lie:
                target.write_text(lie)
    return ready


@pytest.mark.parametrize("case", ["foreign", "mark", "entry", "content", "link"])
def test_a_change_that_nobody_verified_is_removed_and_not_put_in_place(
    case: str, here: World, home: Path, tmp_path: Path
) -> None:
    mirror = here.filled(tmp_path / "mirror")
    before = content(mirror.path)
    wheel = next(path for path in before if path.endswith(".whl"))
    name, digest = wheel.rpartition("/")[2], wheel.split("/")[1]
    if case == "foreign":
        planted(mirror, {"bin/git": b"#!/bin/sh\n"})
    elif case == "mark":
        planted(mirror, {"mirror.json": b"{}"})
    elif case == "entry":
        ready = planted(mirror, {wheel: before[wheel]})
        (ready / INDEX).write_text("{}")
    elif case == "content":
        planted(mirror, {wheel: before[wheel]}, lie="evil")
    else:
        ready = planted(mirror, {wheel: before[wheel]})
        (ready / f"files/{digest}/{name}").unlink()
        (ready / f"files/{digest}/{name}").symlink_to(home / "thesis.txt")
    with Mirror(mirror.path).writing():
        pass
    assert content(mirror.path) == before
    assert content(home) == {"thesis.txt": b"years of work"}
    assert Mirror(mirror.path).check() == []


def test_a_change_as_a_link_is_not_followed(here: World, home: Path, tmp_path: Path) -> None:
    mirror = here.filled(tmp_path / "mirror")
    (mirror.path / f"{COMMITTING}x").symlink_to(home)
    with pytest.raises(SourceIntegrityError, match="is a symbolic link"), Mirror(mirror.path).writing():
        pass
    assert content(home) == {"thesis.txt": b"years of work"}


def test_a_change_of_ours_that_was_cut_off_is_still_put_in_place(here: World, tmp_path: Path) -> None:
    mirror = here.filled(tmp_path / "mirror")
    wheel = next(path for path in content(mirror.path) if path.endswith(".whl"))
    name, digest = wheel.rpartition("/")[2], wheel.split("/")[1]
    assert name in WHEELS
    data = (mirror.path / wheel).read_bytes()
    mirror.drop(f"file-{digest}", f"files/{digest}")
    planted(mirror, {wheel: data})
    with Mirror(mirror.path).writing():
        pass
    assert (mirror.path / wheel).read_bytes() == data
    assert Mirror(mirror.path).check() == []


def test_a_pipe_is_no_mark_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "mirror.json")
    assert not is_marked(tmp_path)
