"""A file that no build made is refused before the build, whatever ignores it, and no wheel of it is kept."""

from __future__ import annotations

import json
import py_compile
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.small_world import BACKEND, RECIPE, SmallWorld, small_world
from support.cli import here

# It leaves what real builds leave in a tree, and takes a header where it lies there.
_BACKEND = (
    BACKEND.replace('b"Requires-Dist: tiny-wheel>=1.0\\n"', 'b""')
    .replace('Path("mine.py").read', 'Path(max(pathlib.Path().glob("answer.h"), default="mine.py")).read')
    .replace('    info = "mine', '    pathlib.Path("left.o").write_text("1")\n    info = "mine')
)
_ALONE = RECIPE[: RECIPE.index("  tiny:")] + RECIPE[RECIPE.index("  mine:") :].replace(
    "    needs: [tiny]\n", ""
)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallWorld]:
    monkeypatch.setattr("integration.small_world.RECIPE", _ALONE)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XPUBUILD_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("XPUBUILD_STORE_READ_ONLY", "0")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "store").mkdir(mode=0o755)
    files = {"backend.py": _BACKEND, "mine.py": "ANSWER = 42\n", ".gitignore": "*.o\n__pycache__/\n"}
    with small_world(tmp_path, files) as made:
        yield made


def kept(world: SmallWorld) -> list[str]:
    """Return the wheels in all stores."""
    return [path.name for place in ("store", "cache") for path in (world.folder / place).rglob("*.whl")]


def module(world: SmallWorld) -> str:
    with zipfile.ZipFile(world.wheel) as archive:
        return archive.read("mine.py").decode()


def test_what_a_build_leaves_is_its_own_and_a_file_of_the_user_is_not(world: SmallWorld) -> None:
    first = world.install()
    assert first.status == 0, first.err
    tree = world.workspace / "src" / "mine"
    assert (tree / "left.o").exists()
    assert not list(tree.rglob("*.pyc"))
    assert module(world) == "ANSWER = 42\n"
    assert len(set(kept(world))) == 1, first.err
    again = world.install("--json")
    assert json.loads(again.out)["ran"] == []
    (tree / "other.o").write_text("mine")
    refused = world.install()
    assert refused.status == 31
    assert "other.o" in refused.err
    assert "left.o" not in refused.err
    assert "git -C" in refused.err
    looked = here("check", str(world.workspace), "--json")
    assert json.loads(looked.out)["edited"] == [str(tree / "other.o")]
    assert (tree / "other.o").read_text() == "mine"


def planted(world: SmallWorld, tree: Path, rules: str) -> Path:
    """Put a file into the tree that ``rules`` ignore."""
    place = tree / ("answer.o" if rules == "the pin" else "answer.h")
    if rules == "bytecode":
        other = world.folder / "backend.py"
        other.write_text(_BACKEND.replace("answer.h", "backend.py"))
        place = tree / "__pycache__" / f"backend.{sys.implementation.cache_tag}.pyc"
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(str(other), str(place), invalidation_mode=mode)
        return place
    place.write_text("ANSWER = 666\n")
    config, exclude = world.folder / "config" / "git", tree / ".git" / "info" / "exclude"
    (world.folder / "ignored").write_text("answer.h\n")
    for path, rule, text in (
        (config / "ignore", "user", "answer.h\n"),
        (config / "config", "core.excludesFile", f"[core]\n\texcludesFile = {world.folder / 'ignored'}\n"),
        (exclude, "info/exclude", "answer.h\n"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if rules == rule else "")
    return place


def test_no_wheel_is_built_or_kept_of_a_tree_with_a_file_that_git_ignores(world: SmallWorld) -> None:
    until = ("--until", "mine.source")
    made = here("install", str(world.recipe), "--workspace", str(world.workspace), *until)
    assert made.status == 0, made.err
    tree = world.workspace / "src" / "mine"
    for rules in ("user", "core.excludesFile", "info/exclude", "the pin", "bytecode"):
        place = planted(world, tree, rules)
        refused = world.install()
        assert refused.status == 31, (rules, refused.err)
        assert place.name in refused.err
        assert place.exists()
        assert not world.wheel.exists()
        assert kept(world) == []
        if rules != "bytecode":
            place.unlink()
    planted(world, tree, "user")
    dirty = world.install("--allow-dirty")
    assert dirty.status == 0, dirty.err
    # Not even then is bytecode read that lies in the tree.
    assert module(world) == "ANSWER = 666\n"
    assert kept(world) == []
    again = world.install("--allow-dirty", "--json")
    assert json.loads(again.out)["ran"] == []
    assert world.install().status == 31
    assert kept(world) == []


@pytest.mark.parametrize("name", ["lib/python3*/site-packages/sitecustomize.py", "include/stdio.h"])
def test_no_wheel_is_built_with_what_nobody_installed_in_the_environment(
    world: SmallWorld, name: str
) -> None:
    until = ("--until", "env")
    made = here("install", str(world.recipe), "--workspace", str(world.workspace), *until)
    assert made.status == 0, made.err
    folder, _, file = name.rpartition("/")
    (place,) = (world.workspace / "env").glob(folder)
    (place / file).write_text("")
    refused = world.install()
    assert refused.status == 60, refused.err
    assert file in refused.err
    assert (place / file).exists()
    assert not world.wheel.exists()
    assert kept(world) == []
    (place / file).unlink()
    assert world.install().status == 0
