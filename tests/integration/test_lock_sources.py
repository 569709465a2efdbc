"""Locks of nested repositories with configure-time clones: every input is in them, every change is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import platformdirs
import pytest
from integration.gitserver import git
from integration.lock_world import HASH, Upstreams, World, paths, verify
from support.cli import Xpubuild, child

from xpubuild.engine.environment import base_environment
from xpubuild.errors import LockMismatchError, SourceIntegrityError
from xpubuild.install.lock_file import Lock, dump, read_lock, validated
from xpubuild.install.locked import options_of, require_as_locked, require_match, resolved_of
from xpubuild.install.options import Options
from xpubuild.install.resolve import prepare
from xpubuild.recipe.load import load as load_recipe
from xpubuild.supply.git.checkout import checkout
from xpubuild.supply.git.integrity import TreeProof
from xpubuild.supply.git.pin import Pin


@pytest.fixture(scope="module")
def upstreams(tmp_path_factory: pytest.TempPathFactory) -> Upstreams:
    root = tmp_path_factory.mktemp("upstreams")
    world = World(Upstreams.make(root), root)
    world.write(f"commit: {world.commit}")
    result = child("lock", world.recipe, "-o", str(world.file))
    assert result.status == 0, result.err
    return replace(world.upstreams, text=world.file.read_text())


@pytest.fixture
def world(upstreams: Upstreams, tmp_path: Path) -> World:
    (tmp_path / "recipes").mkdir()
    made = World(upstreams, tmp_path / "recipes")
    made.write(f"commit: {made.commit}")
    made.file.write_text(upstreams.text)
    return made


@pytest.fixture
def locked(world: World) -> Lock:
    return read_lock(world.file)


def test_everything_that_a_build_takes_is_in_it(world: World, locked: Lock, xpubuild: Xpubuild) -> None:
    top = locked.repositories["top"]
    assert (top.commit, top.url) == (world.commit, world.url("top.git"))
    assert [*top.submodules] == ["third_party/mid", "third_party/mid/deps/inner"]
    for name, item in zip(("mid", "inner"), top.submodules.values(), strict=True):
        path = world.upstreams.root / f"{name}.git"
        assert item.url == world.url(f"{name}.git")
        assert item.tree == git("rev-parse", f"{item.commit}^{{tree}}", cwd=path)
    pins = world.upstreams.pins
    dnn, kernels = top.configure_time["build/dnn"], top.configure_time["third_party/kernels"]
    assert (dnn.ref, dnn.commit) == ("v3.8.1", pins["dnn"])
    assert kernels.ref == pins["kernel"]
    assert {path: item.commit for path, item in kernels.submodules.items()} == {
        "third_party/sub": pins["sub"]
    }
    assert locked.recipe["env"] == {"USE_XPU": "{xpu}", "PREFIX": "{env}/x"}
    assert locked.requirements["build.txt"].pins["cmake"].hashes == [f"sha256:{HASH}"]
    result = verify(xpubuild, world)
    assert paths(result, 0) == []


def resealed(lock: Lock, steps: tuple[str, ...], value: object) -> Lock:
    """Return a lock with one value changed, for a file with new digests, as somebody would who knows how."""
    document = lock.model_dump(mode="json")
    below: Any = document
    for step in steps[:-1]:
        below = below[step]
    below[steps[-1]] = value
    return validated(document)


TOP = ("repositories", "top")
MID, INNER = (*TOP, "submodules", "third_party/mid"), (*TOP, "submodules", "third_party/mid/deps/inner")
KERNELS = (*TOP, "configure_time", "third_party/kernels")
#: Value -> another one, and the exit code if it alone differs.
FLIPS: dict[tuple[str, ...], tuple[Any, int]] = {
    (*TOP, "commit"): ("1" * 40, 21),
    (*TOP, "tree"): ("1" * 40, 31),
    (*TOP, "url"): ("https://host/x.git", 21),
    (*MID, "commit"): ("1" * 40, 21),
    (*INNER, "tree"): ("1" * 40, 31),
    (*INNER, "url"): ("https://host/x.git", 21),
    (*KERNELS, "commit"): ("1" * 40, 21),
    (*KERNELS, "tree"): ("1" * 40, 31),
    (*KERNELS, "submodules", "third_party/sub", "tree"): ("1" * 40, 31),
    ("requirements", "build.txt", "pins", "cmake", "hashes"): (["sha256:" + "1" * 64], 21),
    ("requirements", "build.txt", "sha256"): ("1" * 64, 21),
    ("recipe", "env", "USE_XPU"): ("0", 21),
    ("plan",): ("1" * 64, 21),
    ("machine", "glibc"): ("99.9", 21),
    ("machine", "compilers", "cxx"): ("tcc 1 x", 21),
}


@pytest.mark.parametrize("status", [21, 31])
def test_every_flipped_value_is_named(world: World, locked: Lock, xpubuild: Xpubuild, status: int) -> None:
    flips = {steps: value for steps, (value, code) in FLIPS.items() if code == status}
    for steps, value in flips.items():
        locked = resealed(locked, steps, value)
    world.file.write_text(dump(locked))
    result = verify(xpubuild, world)
    assert sorted(paths(result, status)) == sorted(".".join(steps) for steps in flips)
    assert "1" * 40 in result.err
    if status == 21:
        # Edited by hand: refused before anything is looked at.
        world.file.write_text(world.upstreams.text.replace(world.commit, "a" * 40))
        assert "the lock was edited" in verify(xpubuild, world).err


def test_a_moved_tag_of_a_configure_time_repository_is_named(
    world: World, locked: Lock, xpubuild: Xpubuild
) -> None:
    dnn, before = world.upstreams.dnn, world.upstreams.pins["dnn"]
    moved = dnn.commit({"dnn.h": "2\n"}, parent=before)
    git("tag", "--force", "v3.8.1", moved, cwd=dnn.path)
    try:
        result = verify(xpubuild, world)
    finally:
        git("tag", "--force", "v3.8.1", before, cwd=dnn.path)
    place = "repositories.top.configure_time.build/dnn"
    assert paths(result) == [f"{place}.commit", f"{place}.tree"]
    assert moved in result.err


def test_a_branch_that_went_on_does_not_break_a_lock(world: World, xpubuild: Xpubuild) -> None:
    first = world.upstreams.top(world.upstreams.nested.first, more="1\n")
    world.write("ref: main")
    xpubuild.ok("lock", world.recipe, "-o", str(world.file), "-q")
    lock = read_lock(world.file)
    assert (lock.repositories["top"].commit, lock.repositories["top"].ref) == (first, "main")
    second = world.upstreams.top(world.upstreams.nested.first, more="2\n")
    assert paths(verify(xpubuild, world), 0) == []
    assert resolved_of(lock, load_recipe(world.recipe).recipe)["top"].commit == first
    new = world.folder / "new.yaml"
    xpubuild.ok("lock", world.recipe, "-o", str(new), "-q")
    assert read_lock(new).repositories["top"].commit == second


def test_a_repository_at_no_known_commit_keeps_the_lock_open(world: World, xpubuild: Xpubuild) -> None:
    text = Path(world.recipe).read_text().replace("when: xpu", "pin_file: kernels.cmake, when: always")
    Path(world.recipe).write_text(text)
    world.file.unlink()
    result = xpubuild("lock", world.recipe, "-o", str(world.file))
    assert result.status == 20
    assert "none.git is cloned at an unknown commit" in result.err
    assert not world.file.exists()


def checked_out(world: World, into: Path) -> dict[str, Any]:
    """Make a checkout of the top repository and return its evidence."""
    pin = Pin(url=world.url("top.git"), commit=world.commit)
    cache = platformdirs.user_cache_path("xpubuild")
    made = checkout(pin, into, cache=cache, jobs=1, env=base_environment(), report=lambda _: None)
    return dict(made.evidence)


def test_a_checkout_is_held_against_the_lock(world: World, locked: Lock, tmp_path: Path) -> None:
    found = checked_out(world, tmp_path / "top")
    require_as_locked(TreeProof, locked, "top", found)
    first, second = found["submodules"]
    name = "repositories.top.submodules.third_party/mid/deps/inner"
    for submodules, told in (
        ([first], f"{name} is only in the lock"),
        ([first, {**second, "commit": "0" * 40}], f"{name}.commit"),
        ([first, {**second, "url": "http://other/x.git"}], f"{name}.url"),
        ([first, second, {**second, "path": "more"}], "submodules.more is not in the lock"),
    ):
        with pytest.raises(LockMismatchError) as caught:
            require_as_locked(TreeProof, locked, "top", {**found, "submodules": submodules})
        assert told in caught.value.why
    with pytest.raises(LockMismatchError, match=r"repositories\.top\.commit"):
        require_as_locked(TreeProof, locked, "top", {**found, "commit": "0" * 40})
    with pytest.raises(SourceIntegrityError, match=r"repositories\.top\.tree"):
        require_as_locked(TreeProof, locked, "top", {**found, "tree": "0" * 40})


def test_a_plan_is_held_against_the_lock_before_anything_is_fetched(
    world: World, locked: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    prepared = prepare(options_of(locked, Options(world.recipe)))
    require_match(locked, prepared, "exact")
    with pytest.raises(LockMismatchError, match=r"repositories\.top\.commit"):
        require_match(resealed(locked, (*TOP, "commit"), "0" * 40), prepared)
    changed = resealed(locked, ("machine", "glibc"), "99.1")
    with pytest.raises(LockMismatchError, match=r"machine\.glibc"):
        require_match(changed, prepared)
    require_match(changed, prepared, "ignore")
    file = world.folder / "build.txt"
    file.write_text(file.read_text().replace("3.31", "3.32"))
    with pytest.raises(LockMismatchError) as caught:
        require_match(locked, prepare(options_of(locked, Options(world.recipe))))
    names = [item["path"] for item in caught.value.evidence["differences"]]
    assert names == ["requirements.build.txt.sha256", "requirements.build.txt.pins.cmake.version", "plan"]
    # What programs say of themselves is remembered there; nothing is fetched into it.
    assert {path.name for path in cache.glob("xpubuild/*")} <= {"answers"}


def test_edits_cannot_be_locked(world: World, xpubuild: Xpubuild, tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    into = workspace / "src/top"
    checked_out(world, into)
    (into / "kernels.txt").write_text("edited\n")
    result = xpubuild("lock", world.recipe, "--workspace", str(workspace), "--allow-dirty", "-o", "-")
    assert result.status == 2
    assert "cannot include local changes in top" in result.err
