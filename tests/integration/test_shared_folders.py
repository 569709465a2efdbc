"""What is made for others can be read by them, whatever the umask; errors name the place to change."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.mirror_world import World, world

from xpubuild.engine.files import explained
from xpubuild.engine.places import make_shared, reached_by, share, unreachable, within
from xpubuild.errors import NoSpaceError, ToolchainError
from xpubuild.supply.depot.examine import damages


@pytest.fixture
def private() -> Iterator[None]:
    """Make files that nobody else may read, as many sites have it."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        yield made


def closed(folder: Path) -> list[str]:
    """Return what somebody else could not read."""
    found = []
    for path in (folder, *folder.rglob("*")):
        mode = path.lstat().st_mode
        wanted = 0o055 if stat.S_ISDIR(mode) else 0o044
        if not stat.S_ISLNK(mode) and mode & wanted != wanted:
            found.append(f"{path.relative_to(folder)}: {stat.S_IMODE(mode):o}")
    return found


@pytest.mark.usefixtures("private")
def test_a_mirror_that_a_careful_user_fills_can_be_used_by_others(here: World, tmp_path: Path) -> None:
    mirror = here.filled(tmp_path / "shared" / "mirror")
    assert closed(tmp_path / "shared") == []
    assert any(path.suffix == ".pack" for path in mirror.path.rglob("*"))
    # And what is added later.
    here.fetch(mirror.path, here.inputs(commit=here.commits["top"], recipe="other")).run()
    assert closed(mirror.path) == []
    assert damages(mirror) == []


@pytest.mark.usefixtures("private")
def test_a_folder_that_was_there_is_left_as_it_is(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir(mode=0o700)
    make_shared(own)
    make_shared(own / "below")
    share(path for path in within(own) if path != own)
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert stat.S_IMODE((own / "below").stat().st_mode) == 0o755
    (own / "file").touch()
    with pytest.raises(OSError, match=r"exists|Not a directory"):
        make_shared(own / "file")


def test_links_are_not_followed(tmp_path: Path) -> None:
    secret, mirror = tmp_path / "secret", tmp_path / "mirror"
    secret.mkdir(mode=0o700)
    mirror.mkdir()
    (mirror / "link").symlink_to(secret)
    share(within(mirror))
    assert stat.S_IMODE(secret.stat().st_mode) == 0o700


@pytest.mark.parametrize(("mode", "found"), [("2750", 0o700), ("2755", 0o755), ("2775", 0o755)])
def test_whoever_is_not_in_the_group_gives_nothing_to_another_one(
    mode: str, found: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "fchown", refused)
    monkeypatch.setenv("XPUBUILD_SHARE_GROUP", str(os.getegid() + 1))
    monkeypatch.setenv("XPUBUILD_SHARE_MODE", mode)
    make_shared(tmp_path / "new")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == found


def test_a_mode_without_a_group_means_the_group_of_each_file_and_compiled_files_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XPUBUILD_SHARE_MODE", "2750")
    make_shared(tmp_path / "new" / "__pycache__")
    (tmp_path / "new" / "__pycache__").chmod(0o700)
    assert tmp_path / "new" not in unreachable(within(tmp_path / "new"))
    assert tmp_path / "new" / "__pycache__" not in unreachable(within(tmp_path / "new"))
    (tmp_path / "new").chmod(0o700)
    assert tmp_path / "new" in unreachable(within(tmp_path / "new"))


@pytest.mark.parametrize(
    ("place", "doing", "advice"),
    [
        ("cache/xpubuild/git/x.lock", "locking a source", "XDG_CACHE_HOME"),
        ("mirror/.lock", "locking a source", "--mirror"),
        ("modules/xpubuild/x", "writing x", "--module-dir"),
        ("wheels/x.whl", "copying x.whl", "--wheel-dir"),
        ("w/logs/x.log", "writing a log", "--workspace"),
    ],
)
def test_the_advice_is_about_the_place_that_cannot_be_written(
    place: str, doing: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    places = {"mirror": "--mirror", "cache": "--store", "modules": "--module-dir", "wheels": "--wheel-dir"}
    for name, option in places.items():
        reached_by(tmp_path / name, option)
    others = {"XDG_CACHE_HOME", "--workspace", *places.values()} - {advice}
    for number in (errno.EACCES, errno.EROFS, errno.ENOSPC):
        with pytest.raises((ToolchainError, NoSpaceError)) as caught, explained(tmp_path / place, doing):
            raise OSError(number, os.strerror(number))
        assert advice in caught.value.fix
        assert not any(other in caught.value.fix for other in others)
