"""What a build must not take: of the network, which is named, and of the settings of the user's pip."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.small_world import BACKEND, SmallWorld, small_world
from integration.test_bare_trees import _ALONE
from support.cli import here

from xpubuild.install import resolve

pytestmark = pytest.mark.needs("netns")

# In its tree a file says how it takes that the network is not there.
_BACKEND = BACKEND.replace('b"Requires-Dist: tiny-wheel>=1.0\\n"', 'b""').replace(
    "    return write(folder, {",
    "    assert not config_settings, config_settings\n"
    "    import socket\n"
    "    try:\n"
    "        socket.getaddrinfo('pkgs.example', 443)\n"
    "    except OSError:\n"
    "        if not pathlib.Path('lenient').exists():\n"
    "            raise\n"
    "    return write(folder, {",
    1,
)


def locked(folder: Path, more: dict[str, str]) -> Iterator[tuple[SmallWorld, Path]]:
    files = {"backend.py": _BACKEND, "mine.py": "ANSWER = 42\n", **more}
    with small_world(folder, files) as world:
        lock = folder / "small.lock.yaml"
        made = here("lock", str(world.recipe), "--output", str(lock))
        assert made.status == 0, made.err
        yield world, lock


@pytest.fixture
def files() -> dict[str, str]:
    return {"lenient": ""}


@pytest.fixture
def world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]
) -> Iterator[tuple[SmallWorld, Path]]:
    monkeypatch.setattr("integration.small_world.RECIPE", _ALONE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield from locked(tmp_path, files)


def install(world: SmallWorld, lock: Path) -> tuple[int, dict[str, object], str]:
    words = ("--lock", str(lock), "--until", "mine.wheel", "--json")
    found = here("install", str(world.recipe), "--workspace", str(world.workspace), *words)
    return found.status, json.loads(found.out), found.err


@pytest.mark.parametrize("files", [{}], ids=["strict"])
def test_a_build_that_fails_without_its_network_names_the_host(world: tuple[SmallWorld, Path]) -> None:
    status, document, _ = install(*world)
    assert status == 50
    error = document["error"]
    assert isinstance(error, dict)
    assert "reached for pkgs.example" in error["why"]
    assert "without --locked" in error["fix"]
    assert error["evidence"]["asked"] == ["pkgs.example"]


def networks(document: dict[str, object]) -> list[dict[str, object]]:
    steps = document["steps"]
    assert isinstance(steps, list)
    return [item for step in steps for item in step["evidence"] if "network" in item]


def test_what_a_build_did_without_is_a_warning_and_in_receipt_and_provenance(
    world: tuple[SmallWorld, Path],
) -> None:
    status, document, said = install(*world)
    assert status == 0, said
    assert "has no network, and looked up pkgs.example" in " ".join(said.split())
    (found,) = networks(document)
    assert (found["network"], found["asked"]) == ("loopback", ["pkgs.example"])
    (statement,) = (world[0].workspace / "wheels").glob("*.intoto.json")
    definition = json.loads(statement.read_text())["predicate"]["buildDefinition"]
    assert definition["internalParameters"]["network"] == ["loopback"]


def test_a_compile_cache_of_another_host_stays_in_reach_and_the_receipt_says_so(
    world: tuple[SmallWorld, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from xpubuild.supply.caching import CompileCache

    cache = CompileCache(path="/usr/bin/ccache", server="cache.example")
    monkeypatch.setattr(resolve, "compile_cache", lambda *_: cache)
    status, document, said = install(*world)
    assert status == 0, said
    assert networks(document) == []
    summary = document["summary"]
    assert isinstance(summary, dict)
    assert summary["network"] == "builds have it: the compile cache is shared by cache.example"


def test_an_install_without_a_lock_has_the_network(world: tuple[SmallWorld, Path]) -> None:
    small, _ = world
    found = here("plan", str(small.recipe), "--workspace", str(small.workspace), "--json")
    assert "isolated" not in found.out
    words = ("--lock", str(world[1]), "--workspace", str(small.workspace), "--json")
    assert '"isolated": true' in here("plan", str(small.recipe), *words).out


def test_settings_of_the_users_pip_do_not_reach_the_backend(
    world: tuple[SmallWorld, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = world[0].folder / "pip.conf"
    config.write_text("[wheel]\nconfig-settings = --evil=1\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    monkeypatch.setenv("PIP_CONFIG_SETTINGS", "--evil=2")
    status, _, said = install(*world)
    assert status == 0, said
