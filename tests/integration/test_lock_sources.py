"""Locks of nested repositories with configure-time clones: every input is in them, every change is named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import platformdirs
import pytest
from integration.gitserver import git, git_server
from integration.lock_world import HASH, Upstreams, World, paths, verify
from support.cli import Xpubuild, child

from xpubuild.engine.environment import base_environment
from xpubuild.errors import LockMismatchError, SourceIntegrityError
from xpubuild.install import lock_model as model
from xpubuild.install.lock_file import dump, load, read_lock
from xpubuild.install.locked import options_of, require_match, require_tree, resolved_of
from xpubuild.install.options import Options
from xpubuild.install.resolve import prepare
from xpubuild.recipe.load import load as load_recipe
from xpubuild.supply.git.checkout import checkout
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
def locked(world: World) -> model.Lock:
    return read_lock(world.file)


def test_everything_that_a_build_takes_is_in_it(world: World, locked: model.Lock, xpubuild: Xpubuild) -> None:
    top = locked.repositories["top"]
    assert (top.commit, top.url) == (world.commit, world.url("top.git"))
    assert [item.path for item in top.submodules] == ["third_party/mid", "third_party/mid/deps/inner"]
    for name, item in zip(("mid", "inner"), top.submodules, strict=True):
        path = world.upstreams.root / f"{name}.git"
        assert item.url == world.url(f"{name}.git")
        assert item.tree == git("rev-parse", f"{item.commit}^{{tree}}", cwd=path)
    pins = world.upstreams.pins
    dnn, kernels = top.configure_time
    assert (dnn.path, dnn.asked_for, dnn.commit) == ("build/dnn", "v3.8.1", pins["dnn"])
    assert (kernels.path, kernels.asked_for) == ("third_party/kernels", pins["kernel"])
    assert [(item.path, item.commit) for item in kernels.submodules] == [("third_party/sub", pins["sub"])]
    assert locked.options.flags == {
        "top": {"USE_XPU": "{xpu}", "PREFIX": "{env}/x"},
        "wheel": locked.options.flags["wheel"],
    }
    assert locked.python.requirements["build.txt"].pins[0].hashes == (f"sha256:{HASH}",)
    result = verify(xpubuild, world)
    assert paths(result, 0) == []
    assert result.document()["open"] == ["wheel"]
    assert "no hash is known" in xpubuild.ok("check", str(world.file), "--recipe", world.recipe).out


def resealed(lock: model.Lock, steps: tuple[Any, ...], value: object) -> str:
    """Return a lock with one leaf changed and all digests made anew, as somebody would who knows how."""
    document = lock.model_dump(mode="json")
    below: Any = document
    for step in steps[:-1]:
        below = below[step]
    below[steps[-1]] = value
    return dump(model.Lock.model_validate_json(json.dumps(document)))


TOP = ("repositories", "top")
KERNELS = (*TOP, "configure_time", 1)
FLIPS = [
    ((*TOP, "commit"), "repositories.top.commit", 21),
    ((*TOP, "tree"), "repositories.top.tree", 31),
    ((*TOP, "url"), "repositories.top.url", 21),
    ((*TOP, "submodules", 0, "commit"), "repositories.top.submodules.third_party/mid.commit", 21),
    ((*TOP, "submodules", 1, "tree"), "repositories.top.submodules.third_party/mid/deps/inner.tree", 31),
    ((*TOP, "submodules", 1, "url"), "repositories.top.submodules.third_party/mid/deps/inner.url", 21),
    ((*KERNELS, "commit"), "repositories.top.configure_time.third_party/kernels.commit", 21),
    ((*KERNELS, "tree"), "repositories.top.configure_time.third_party/kernels.tree", 31),
    (
        (*KERNELS, "submodules", 0, "tree"),
        "repositories.top.configure_time.third_party/kernels.submodules.third_party/sub.tree",
        31,
    ),
    (
        ("python", "requirements", "build.txt", "pins", 0, "hashes", 0),
        "python.requirements.build.txt.pins.cmake.hashes",
        21,
    ),
    (("python", "requirements", "build.txt", "sha256"), "python.requirements.build.txt.sha256", 21),
    (("python", "wheels", 0, "version"), "python.wheels.wheel.version", 21),
    (("options", "flags", "top", "USE_XPU"), "options.flags.top.USE_XPU", 21),
    (("recipe", "parts", "env"), "recipe.parts.env", 21),
    (("plan",), "plan", 21),
    (("machine", "glibc"), "machine.glibc", 21),
    (("machine", "compilers", "cxx", "kind"), "machine.compilers.cxx", 21),
]


def flipped(value: str) -> str:
    last = value[-1]
    return value[:-1] + ("1" if last != "1" else "2") if last.isalnum() else value + "1"


def value_at(lock: model.Lock, steps: tuple[Any, ...]) -> str:
    found: Any = lock.model_dump(mode="json")
    for step in steps:
        found = found[step]
    return str(found)


def new_value(lock: model.Lock, steps: tuple[Any, ...]) -> str:
    return "99.9" if steps[-1] == "glibc" else flipped(value_at(lock, steps))


@pytest.mark.parametrize("flip", [FLIPS[number] for number in (0, 1, 4)], ids=lambda flip: flip[1])
def test_a_flipped_value_is_named_with_its_exit_code(
    world: World, locked: model.Lock, xpubuild: Xpubuild, flip: tuple[tuple[Any, ...], str, int]
) -> None:
    steps, name, status = flip
    new = new_value(locked, steps)
    # With new digests: only the sources can say it.
    world.file.write_text(resealed(locked, steps, new))
    result = verify(xpubuild, world)
    assert paths(result, status) == [name]
    assert name in result.err
    assert new in result.err
    # Edited by hand: refused before anything is looked at.
    world.file.write_text(world.upstreams.text.replace(value_at(locked, steps), new))
    result = verify(xpubuild, world)
    assert result.status == 21
    assert "the lock was edited" in result.err


def test_every_other_flipped_value_is_named(world: World, locked: model.Lock, xpubuild: Xpubuild) -> None:
    lock = locked
    for steps, _, status in FLIPS:
        if status == 21:
            lock = load(resealed(lock, steps, new_value(lock, steps)))
    world.file.write_text(dump(lock))
    found = paths(verify(xpubuild, world))
    assert sorted(found) == sorted(name for _, name, status in FLIPS if status == 21)
    for steps, _, status in FLIPS:
        if status == 31:
            locked = load(resealed(locked, steps, new_value(locked, steps)))
    world.file.write_text(dump(locked))
    assert sorted(paths(verify(xpubuild, world), 31)) == sorted(
        name for _, name, status in FLIPS if status == 31
    )


def test_a_moved_tag_of_a_configure_time_repository_is_named(
    world: World, locked: model.Lock, xpubuild: Xpubuild
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


def test_another_pin_of_the_recipe_names_everything_that_it_moves(
    world: World, locked: model.Lock, xpubuild: Xpubuild
) -> None:
    world.write(f"commit: {world.upstreams.top(world.upstreams.nested.second)}")
    found = paths(verify(xpubuild, world))
    assert "recipe.parts.components.top" in found
    assert "repositories.top.commit" in found
    assert "repositories.top.submodules.third_party/mid/deps/inner" in found
    assert "repositories.top.submodules.third_party/mid/deps/other" in found
    result = xpubuild.ok("lock", world.recipe, "-o", str(world.file))
    assert "third_party/mid/deps/other" in result.err


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


def test_a_url_with_credentials_is_refused_and_not_shown(world: World, xpubuild: Xpubuild) -> None:
    with git_server(world.upstreams.root) as server:
        world.write(f"commit: {world.commit}", server.url("").replace("http://", "http://ghp-token@"))
        before = world.file.read_text()
        result = xpubuild("lock", world.recipe, "-o", str(world.file))
        assert result.status == 20
        assert "user name" in result.err
        assert "ghp-token" not in result.out + result.err
        assert world.file.read_text() == before


def test_a_repository_at_no_known_commit_keeps_the_lock_open(world: World, xpubuild: Xpubuild) -> None:
    text = Path(world.recipe).read_text().replace("when: xpu", "pin_file: kernels.cmake, when: always")
    Path(world.recipe).write_text(text)
    world.file.unlink()
    result = xpubuild("lock", world.recipe, "-o", str(world.file))
    assert result.status == 20
    assert "none.git is cloned at an unknown commit" in result.err
    assert not world.file.exists()


def test_a_source_that_cannot_be_had_is_told(world: World, xpubuild: Xpubuild) -> None:
    empty = str(world.folder / "empty")
    result = verify(xpubuild, world, "--offline", variables={"XDG_CACHE_HOME": empty})
    assert result.status == 30
    assert ".git could not be fetched" in result.err


def checked_out(world: World, into: Path) -> dict[str, Any]:
    """Make a checkout of the top repository and return its evidence."""
    pin = Pin(url=world.url("top.git"), commit=world.commit)
    cache = platformdirs.user_cache_path("xpubuild")
    made = checkout(pin, into, cache=cache, jobs=1, env=base_environment(), report=lambda _: None)
    return dict(made.evidence)


def test_a_checkout_is_held_against_the_lock(world: World, locked: model.Lock, tmp_path: Path) -> None:
    found = checked_out(world, tmp_path / "top")
    require_tree(locked, "top", found)
    first, second = found["submodules"]
    name = "repositories.top.submodules.third_party/mid/deps/inner"
    for submodules, told in (
        ([first], f"{name} is only in the lock"),
        ([first, {**second, "commit": "0" * 40}], f"{name}.commit"),
        ([first, {**second, "url": "http://other/x.git"}], f"{name}.url"),
        ([first, second, {**second, "path": "more"}], "submodules.more is not in the lock"),
    ):
        with pytest.raises(LockMismatchError) as caught:
            require_tree(locked, "top", {**found, "submodules": submodules})
        assert told in caught.value.why
    with pytest.raises(LockMismatchError, match=r"repositories\.top\.commit"):
        require_tree(locked, "top", {**found, "commit": "0" * 40})
    with pytest.raises(SourceIntegrityError, match=r"repositories\.top\.tree"):
        require_tree(locked, "top", {**found, "tree": "0" * 40})
    with pytest.raises(LockMismatchError, match="does not list the source repository of other"):
        require_tree(locked, "other", found)


def test_a_plan_is_held_against_the_lock_before_anything_is_fetched(
    world: World, locked: model.Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    prepared = prepare(options_of(locked, Options(world.recipe)))
    require_match(locked, prepared, "exact")
    changed = load(resealed(locked, (*TOP, "commit"), "0" * 40))
    with pytest.raises(LockMismatchError, match=r"repositories\.top\.commit"):
        require_match(changed, prepared)
    changed = load(resealed(locked, ("machine", "glibc"), "99.1"))
    with pytest.raises(LockMismatchError, match=r"machine\.glibc"):
        require_match(changed, prepared)
    require_match(changed, prepared, "ignore")
    file = world.folder / "build.txt"
    file.write_text(file.read_text().replace("3.31", "3.32"))
    with pytest.raises(LockMismatchError) as caught:
        require_match(locked, prepare(options_of(locked, Options(world.recipe))))
    names = [item["path"] for item in caught.value.evidence["differences"]]
    assert names == [
        "plan",
        "python.requirements.build.txt.sha256",
        "python.requirements.build.txt.pins.cmake.version",
    ]
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
