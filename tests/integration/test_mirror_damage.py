"""Every file of a mirror damaged in turn: found and named each time, repaired alone, refused offline."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.mirror_world import World, content, world

from xpubuild.errors import FetchError, SourceIntegrityError
from xpubuild.supply.depot.examine import damages
from xpubuild.supply.depot.folder import Depot
from xpubuild.supply.git.git import Git

_FLIPS = 3


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        yield made


def _damages(path: str, data: bytes) -> Iterator[tuple[str, bytes | None]]:
    """Yield name and content of what can happen to a file; None is its removal."""
    chosen = random.Random(path)  # noqa: S311 - the same cases each time
    for _ in range(_FLIPS if data else 0):
        changed = bytearray(data)
        bit = chosen.randrange(8 * len(data))
        changed[bit // 8] ^= 1 << bit % 8
        yield f"bit {bit}", bytes(changed)
    if data:
        yield "cut", data[: chosen.randrange(len(data))]
        yield "cut by one", data[:-1]
        yield "emptied", b""
    yield "grown", data + b"\0"
    yield "removed", None


def _put(file: Path, data: bytes | None) -> None:
    file.unlink(missing_ok=True)
    if data is not None:
        file.write_bytes(data)


def test_every_damage_to_every_file_is_found_named_and_refused_offline(here: World, tmp_path: Path) -> None:
    mirror = here.filled(tmp_path / "mirror")
    here.asked()
    files = content(mirror.path)
    kinds = {Path(path).suffix or Path(path).name for path in files}
    assert kinds >= {".pack", ".idx", "HEAD", "config", "shallow", ".json", ".whl", ".html"}
    git, cases = Git.open(), 0
    for path, data in files.items():
        for name, damaged in _damages(path, data):
            cases += 1
            _put(mirror.path / path, damaged)
            found = damages(Depot(mirror.path))
            assert path in {item.path for item in found}, (path, name, found)
            if cases % 3 and damaged is not None:
                continue
            # Those who build from it say so too, and never go on.
            with pytest.raises(SourceIntegrityError) as caught:
                here.fetch_with(mirror.path, git).run()
            assert caught.value.exit_code == 31
            assert path in {item["path"] for item in caught.value.evidence["damaged"]}, (path, name)
        _put(mirror.path / path, data)
    assert cases >= 200
    assert damages(mirror) == []
    assert here.asked() == set()


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("objects/info/alternates", b"/srv/theirs/objects\n"),
        ("packed-refs", b"# pack-refs with: peeled fully-peeled sorted\n"),
        ("hooks/post-checkout", b"#!/bin/sh\n"),
        ("refs/replace/" + "a" * 40, b"b" * 40 + b"\n"),
        ("objects/pack/pack-" + "c" * 40 + ".pack", b"PACK"),
    ],
)
def test_a_file_that_could_change_what_git_reads_is_found(
    here: World, tmp_path: Path, path: str, data: bytes
) -> None:
    mirror = here.filled(tmp_path / "mirror")
    repository = next(item for item in (mirror.path / "git").glob("*.git"))
    file = repository / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    assert [item.path for item in damages(mirror)] == [f"git/{repository.name}/{path}"]
    here.fetch(mirror.path).run()
    assert damages(mirror) == []
    assert not file.exists()


def _one_of_each(files: dict[str, bytes]) -> list[str]:
    """Return one path for each kind of file."""
    chosen: dict[str, str] = {}
    for path in files:
        parts = Path(path)
        kind = parts.suffix if parts.suffix in (".pack", ".idx", ".rev", ".whl") else parts.name
        if path.startswith("sets/"):
            kind = "set"
        elif "/refs/" in path:
            kind = "ref"
        chosen.setdefault(kind, path)
    return list(chosen.values())


def test_online_only_what_is_damaged_is_fetched_again(here: World, tmp_path: Path) -> None:
    mirror = here.filled(tmp_path / "mirror")
    here.asked()
    files = content(mirror.path)
    paths = _one_of_each(files)
    assert len(paths) >= 10
    for number, path in enumerate(paths):
        damaged = list(_damages(path, files[path]))[(0, 3, -1)[number % 3]][1]
        _put(mirror.path / path, damaged)
        document = here.fetch(mirror.path).run()
        repository = path.split("/")[1] if path.startswith("git/") else ""
        asked = here.asked()
        assert all(f"-{name}-" in repository for name in asked), (path, asked)
        assert path in {item["path"] for item in document["damaged"]}
        assert damages(mirror) == [], path
        now = content(mirror.path)
        assert {name for name in now if "/pack-" not in name} == {
            name for name in files if "/pack-" not in name
        }
        assert here.fetch(mirror.path, offline=True).run()["status"] == "ok"


def test_recipes_that_a_lost_commit_belongs_to_are_fetched_again(here: World, tmp_path: Path) -> None:
    first = here.inputs()
    mirror = here.filled(tmp_path / "mirror", first)
    second = here.inputs(commit=here.commits["next"], recipe="second")
    here.filled(mirror.path, second)
    here.asked()
    pack = next(mirror.path.glob("git/*-top-*.git/objects/pack/*.pack"))
    pack.unlink()
    here.fetch(mirror.path, second).run()
    assert here.asked() == {"top"}
    assert damages(mirror) == []
    assert here.fetch(mirror.path, second, offline=True).run()["status"] == "ok"
    here.fetch(mirror.path, first).run()
    assert {one.recipe for one in mirror.index().sets.values()} == {"demo", "second"}
    for inputs in (first, second):
        assert here.fetch(mirror.path, inputs, offline=True).run()["status"] == "ok"


def test_a_repair_that_fails_is_made_by_the_next_fetch(here: World, tmp_path: Path) -> None:
    mirror = here.filled(tmp_path / "mirror")
    pack = next(mirror.path.glob("git/*-top-*.git/objects/pack/*.pack"))
    _put(pack, pack.read_bytes()[:-1])
    here.server.faults.fail, here.server.faults.fail_status = 99, 404
    with pytest.raises(FetchError, match=r"top\.git"):
        here.fetch(mirror.path).run()
    assert {item.entry for item in damages(mirror)} == {f"git/{pack.parents[2].name}"}
    here.server.faults.fail = 0
    here.fetch(mirror.path).run()
    assert damages(mirror) == []
