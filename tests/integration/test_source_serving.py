"""Repositories that a build clones while it configures: real CMake, its own git, and no network at all."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from integration.gitserver import Upstream, git, gitmodules

from xpubuild.engine.process import Cancel
from xpubuild.errors import FetchError, SourceIntegrityError
from xpubuild.recipe.model import ConfigureTime
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.serving import Served, ServedProof, configure_time_pins, serve_tree

#: No such host can exist (RFC 2606), so what is cloned from there came from this machine.
HOST = "https://git.example.invalid"
OPS, ONEDNN = f"{HOST}/intel/torch-xpu-ops.git", f"{HOST}/onednn/oneDNN"
TLA, MEDIA = f"{HOST}/intel/sycl-tla.git", f"{HOST}/intel/media.git"

# As PyTorch does it: torch-xpu-ops by execute_process at each configure, oneDNN as an external project, and
# sycl-tla, which torch-xpu-ops asks for, by FetchContent.
CMAKE = f"""
cmake_minimum_required(VERSION 3.18)
project(like_torch NONE)
find_package(Git REQUIRED)
set(OPS ${{CMAKE_SOURCE_DIR}}/third_party/torch-xpu-ops)
file(READ third_party/xpu.txt OPS_COMMIT)
string(STRIP "${{OPS_COMMIT}}" OPS_COMMIT)
if(NOT EXISTS ${{OPS}}/.git)
  execute_process(COMMAND ${{GIT_EXECUTABLE}} clone --quiet {OPS} ${{OPS}}
    COMMAND_ERROR_IS_FATAL ANY)
endif()
execute_process(COMMAND ${{GIT_EXECUTABLE}} fetch --quiet WORKING_DIRECTORY ${{OPS}}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${{GIT_EXECUTABLE}} checkout --quiet ${{OPS_COMMIT}} WORKING_DIRECTORY ${{OPS}}
  COMMAND_ERROR_IS_FATAL ANY)
include(cmake/FindOneDNN.cmake)
include(FetchContent)
FetchContent_Declare(repo-sycl-tla GIT_REPOSITORY {TLA} GIT_TAG v0.6 GIT_SHALLOW ${{SHALLOW}})
FetchContent_MakeAvailable(repo-sycl-tla)
# By its commit, as triton does with SPIRV-LLVM-Translator.
FetchContent_Declare(by-commit GIT_REPOSITORY {OPS} GIT_TAG ${{OPS_COMMIT}})
FetchContent_MakeAvailable(by-commit)
"""
ONEDNN_CMAKE = f"""
include(ExternalProject)
ExternalProject_Add(xpu_mkldnn_proj GIT_REPOSITORY {ONEDNN} GIT_TAG v3.10.2
  CONFIGURE_COMMAND "" BUILD_COMMAND "" INSTALL_COMMAND "" TEST_COMMAND "")
"""
ITEMS = (
    ConfigureTime(url=OPS, path="third_party/torch-xpu-ops", pin_file="third_party/xpu.txt"),
    ConfigureTime(url=ONEDNN, pin_file="cmake/FindOneDNN.cmake"),
    ConfigureTime(url=TLA, ref="v0.6"),
)


@dataclass(frozen=True)
class World:
    """Upstreams, a tree that asks for them, and a store that reaches them by ``insteadOf`` alone."""

    folder: Path
    env: dict[str, str]
    tree: Path
    commit: str
    pins: Mapping[str, str]

    def store(
        self, cache: str = "cache", *, offline: bool = False, stock: str | None = None
    ) -> RepositoryStore:
        stocks = (self.folder / stock,) if stock else ()
        env = {k: v for k, v in self.env.items() if not (offline and k.startswith("GIT_CONFIG_"))}
        return RepositoryStore(
            self.folder / cache, Git.open(env), offline=offline, stocks=stocks, cancel=Cancel()
        )

    def serve(self, store: RepositoryStore, into: Path) -> list[Served]:
        said: list[str] = []
        return serve_tree(
            store, self.tree, self.commit, ITEMS, into, environ=self.env, jobs=2, report=said.append
        )

    def configure(self, into: Path, build: str, *, shallow: bool = False) -> subprocess.CompletedProcess[str]:
        """Run CMake with nothing but the configuration that was served; git may use local files only."""
        env = {k: v for k, v in self.env.items() if not k.startswith("GIT_CONFIG_")}
        env |= {"GIT_CONFIG_GLOBAL": str(into / "gitconfig"), "GIT_ALLOW_PROTOCOL": "file"}
        cmake = str(shutil.which("cmake"))
        place = str(self.folder / build)
        argv = [
            cmake,
            "-G",
            "Ninja",
            "-S",
            str(self.tree),
            "-B",
            place,
            f"-DSHALLOW={'ON' if shallow else 'OFF'}",
        ]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return subprocess.run(
                [cmake, "--build", place], env=env, capture_output=True, text=True, check=False
            )
        return done


def in_the_past(
    upstream: Upstream, files: dict[str, str | bytes], *, tag: str = "", links: Any = None
) -> str:
    """Commit ``files`` and something after it, so that a branch alone would lead to the wrong commit."""
    commit = upstream.commit(files, links=links)
    if tag:
        git("update-ref", f"refs/tags/{tag}", commit, cwd=upstream.path)
    upstream.commit({"later": "later"}, parent=commit)
    return commit


@pytest.fixture
def world(tmp_path: Path) -> World:
    root = tmp_path / "up stream é"
    names = ("torch-xpu-ops", "oneDNN", "sycl-tla", "media")
    ops, onednn, tla, media = (Upstream.make(root / f"{name}.git") for name in names)
    pins = {
        OPS: in_the_past(ops, {"CMakeLists.txt": "# pinned\n"}),
        ONEDNN: in_the_past(onednn, {"CMakeLists.txt": "# 3.10\n"}, tag="v3.10.2"),
        MEDIA: in_the_past(media, {"picture": "a picture"}),
    }
    # FetchContent brings submodules too.
    files = {"readme": "no CMake project of its own", ".gitmodules": gitmodules(("media", "../media.git"))}
    pins[TLA] = in_the_past(tla, files, tag="v0.6", links={"media": pins[MEDIA]})
    tree = Upstream.make(tmp_path / "tree.git")
    commit = tree.commit(
        {
            "CMakeLists.txt": CMAKE,
            "cmake/FindOneDNN.cmake": ONEDNN_CMAKE,
            "third_party/xpu.txt": f"{pins[OPS]}\n",
        }
    )
    work = tmp_path / "work tree"
    subprocess.run(["git", "clone", "--quiet", str(tree.path), str(work)], check=True)
    env = {**os.environ, "GIT_CONFIG_COUNT": "4"}
    for number, (url, upstream) in enumerate(((OPS, ops), (ONEDNN, onednn), (TLA, tla), (MEDIA, media))):
        env[f"GIT_CONFIG_KEY_{number}"] = f"url.{upstream.path}.insteadOf"
        env[f"GIT_CONFIG_VALUE_{number}"] = url
    return World(tmp_path, env, work, commit, pins)


def test_what_the_tree_asks_for_is_served(world: World) -> None:
    served = world.serve(world.store(), world.folder / "served")
    assert {item.url: (item.commit, item.asked_for) for item in served} == {
        OPS: (world.pins[OPS], world.pins[OPS]),
        ONEDNN: (world.pins[ONEDNN], "v3.10.2"),
        TLA: (world.pins[TLA], "v0.6"),
        MEDIA: (world.pins[MEDIA], world.pins[MEDIA]),
    }
    evidence = ServedProof(str(world.folder / "served")).check()
    assert [item["commit"] for item in evidence["served"]] == [item.commit for item in served]


@pytest.mark.needs("cmake", "ninja")
@pytest.mark.parametrize("shallow", [False, True])
def test_cmake_clones_from_what_is_served_and_from_nowhere_else(world: World, shallow: bool) -> None:
    into = world.folder / "served é"
    world.serve(world.store(), into)
    for upstream in (world.folder / "up stream é").iterdir():
        shutil.rmtree(upstream)
    done = world.configure(into, "build", shallow=shallow)
    assert done.returncode == 0, done.stdout + done.stderr
    again = world.configure(into, "build", shallow=shallow)  # fetched and checked out at each configure
    assert again.returncode == 0, again.stdout + again.stderr
    places = {
        OPS: world.tree / "third_party/torch-xpu-ops",
        ONEDNN: world.folder / "build/xpu_mkldnn_proj-prefix/src/xpu_mkldnn_proj",
        TLA: world.folder / "build/_deps/repo-sycl-tla-src",
        MEDIA: world.folder / "build/_deps/repo-sycl-tla-src/media",
    }
    for url, place in places.items():
        head = subprocess.run(
            ["git", "-C", str(place), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        )
        assert head.stdout.strip() == world.pins[url], url


def test_no_hook_of_the_user_runs_in_what_a_build_clones(world: World) -> None:
    home, into = world.folder / "home", world.folder / "served"
    hook = home / "template" / "hooks" / "post-checkout"
    hook.parent.mkdir(parents=True)
    hook.write_text(f"#!/bin/sh\ntouch '{home}/ran'\n")
    hook.chmod(0o755)
    config = f"[init]\n\ttemplateDir = {home}/template\n[core]\n\thooksPath = {hook.parent}\n"
    (home / ".gitconfig").write_text(config)
    world.env.update(HOME=str(home), XDG_CONFIG_HOME=str(home / "none"))
    world.env.pop("GIT_CONFIG_GLOBAL", None)
    world.serve(world.store(), into)
    clone = ["git", "clone", "--quiet", MEDIA, str(world.folder / "clone")]
    env = {**world.env, "GIT_CONFIG_COUNT": "0", "GIT_CONFIG_GLOBAL": str(into / "gitconfig")}
    subprocess.run(clone, env=env, check=True)
    assert not (home / "ran").exists()


def test_a_fork_is_pinned_where_the_tree_names_what_it_replaces(world: World) -> None:
    fork = ConfigureTime(url=f"{HOST}/me/fork", replaces=ONEDNN, pin_file="cmake/FindOneDNN.cmake")
    (pin,) = configure_time_pins(Git.open(), world.tree / ".git", world.commit, [fork])
    assert (pin.url, pin.ref) == (fork.url, "v3.10.2")


def test_offline_and_without_a_stock_the_first_missing_thing_is_named(world: World) -> None:
    with pytest.raises(FetchError) as caught:
        world.serve(world.store(offline=True), world.folder / "served")
    assert OPS in caught.value.what
    assert not (world.folder / "served").exists()


def test_a_pin_that_nobody_knows_is_left_to_the_build_and_refused_offline(world: World) -> None:
    items = [ConfigureTime(url=OPS, pin_file="third_party/nothing.txt")]
    said: list[str] = []
    store, into = world.store(), world.folder / "served"
    assert (
        serve_tree(store, world.tree, world.commit, items, into, environ={}, jobs=1, report=said.append) == []
    )
    assert any("does not state" in line for line in said)
    with pytest.raises(FetchError, match="it is unknown"):
        serve_tree(
            world.store(offline=True),
            world.tree,
            world.commit,
            items,
            into,
            environ={},
            jobs=1,
            report=said.append,
        )


@pytest.mark.parametrize("harm", ["list", "commit", "object"])
def test_the_proof_sees_what_was_changed_afterwards(world: World, harm: str) -> None:
    into = world.folder / "served"
    world.serve(world.store(), into)
    listed = json.loads((into / "served.json").read_text("utf-8"))
    git_dir = into / listed[0]["folder"]
    if harm == "list":
        (into / "served.json").write_text("[]x")
    elif harm == "commit":
        name = f"refs/heads/xpubuild-{listed[0]['commit']}"
        subprocess.run(["git", "--git-dir", str(git_dir), "update-ref", "-d", name], check=True)
    else:
        shutil.rmtree(git_dir / "objects" / "pack")
    with pytest.raises(SourceIntegrityError):
        ServedProof(str(into)).check()
