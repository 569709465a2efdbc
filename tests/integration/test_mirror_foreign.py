"""A mirror that somebody else has prepared: nothing outside is touched, nothing unverified put in place."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.mirror_world import World, content, world

from xpubuild.errors import SourceIntegrityError, ToolchainError


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
