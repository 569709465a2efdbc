"""Fetched with a network, carried as one file, installed by another user without any network."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from integration.gitserver import Upstream, git_server, gitmodules
from support import documents

from xpubuild.resources import recipes_dir

from .conftest import Answer, Cli, git

pytestmark = [
    pytest.mark.xdist_group("offline"),
    pytest.mark.needs("netns", "git-http-backend"),
    pytest.mark.timeout(1800),
]

#: Nested submodules, a repository that CMake clones, fetches and checks out at each configure as PyTorch does
#: with torch-xpu-ops, and one by FetchContent as torch-xpu-ops does with sycl-tla.
CMAKE = """
cmake_minimum_required(VERSION 3.18)
project(nested NONE)
find_package(Git REQUIRED)
set(OPS ${CMAKE_SOURCE_DIR}/third_party/like-xpu-ops)
file(STRINGS third_party/xpu.txt OPS_COMMIT)
if(NOT EXISTS ${OPS}/.git)
  execute_process(COMMAND ${GIT_EXECUTABLE} clone --quiet @OPS@ ${OPS} COMMAND_ERROR_IS_FATAL ANY)
endif()
execute_process(COMMAND ${GIT_EXECUTABLE} fetch --quiet WORKING_DIRECTORY ${OPS} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${GIT_EXECUTABLE} checkout --quiet ${OPS_COMMIT} WORKING_DIRECTORY ${OPS}
  COMMAND_ERROR_IS_FATAL ANY)
include(FetchContent)
FetchContent_Declare(like-tla GIT_REPOSITORY @TLA@ GIT_TAG v0.6)
FetchContent_MakeAvailable(like-tla)
install(FILES ${OPS}/word.txt DESTINATION nested/ops)
install(FILES ${like-tla_SOURCE_DIR}/word.txt DESTINATION nested/tla)
install(FILES third_party/middle/inner/word.txt DESTINATION nested/inner)
"""
PYPROJECT = """
[build-system]
requires = ["scikit-build-core>=0.10"]
build-backend = "scikit_build_core.build"
[project]
name = "nested"
version = "1.0"
[tool.scikit-build]
wheel.packages = []
"""
RECIPE = """
schema: 1
name: nested
title: the torch of the quickstart, and a tree with everything that makes offline builds hard
extends: quickstart
toolchain: {{requirements: [tools.txt], leave_out: [], mkl: null}}
verify: {{require: []}}
components:
  ops: null
  nested:
    kind: source
    dist: nested
    needs: [torch]
    source:
      url: {url}
      commit: {commit}
      made_by_build: [third_party/like-xpu-ops]
      configure_time:
        - {{url: "{ops}", path: third_party/like-xpu-ops, pin_file: third_party/xpu.txt, when: always}}
        - {{url: "{tla}", ref: v0.6, when: always}}
    build:
      config_settings: {{build-dir: "{{build}}/nested"}}
    audit: {{cxx11_abi: false}}
"""
#: ops and the MKL that is linked into it, which take most of the quickstart's time, come offline as these do.
LEFT_OUT = ("mkl-include", "mkl-static")


@dataclass(frozen=True)
class Fetched:
    """A recipe whose sources are gone, the file that carries them, and what ``fetch`` said."""

    recipe: Path
    lock: Path
    mirror: Path
    answer: Answer


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """Serve the repositories over http, and write the recipe."""
    root = tmp_path_factory.mktemp("upstream")
    names = ("inner", "middle", "ops", "tla", "tree")
    inner, middle, ops, tla, tree = (Upstream.make(root / f"{name}.git") for name in names)
    with git_server(root) as server:
        url = {name: server.url(f"{name}.git") for name in names}
        deepest = inner.commit({"word.txt": "inner"})
        between = middle.commit(
            {".gitmodules": gitmodules(("inner", "../inner.git"))}, links={"inner": deepest}
        )
        pinned = ops.commit({"word.txt": "pinned"})
        ops.commit({"word.txt": "later"}, parent=pinned)
        tagged = tla.commit({"word.txt": "tagged"})
        git(tla.path, "update-ref", "refs/tags/v0.6", tagged)
        tla.commit({"word.txt": "later"}, parent=tagged)
        commit = tree.commit(
            {
                "CMakeLists.txt": CMAKE.replace("@OPS@", url["ops"]).replace("@TLA@", url["tla"]),
                "pyproject.toml": PYPROJECT,
                ".gitmodules": gitmodules(("third_party/middle", url["middle"])),
                "third_party/xpu.txt": f"{pinned}\n",
            },
            links={"third_party/middle": between},
        )
        recipe = root / "nested.yaml"
        text = (recipes_dir() / "requirements" / "quickstart-toolchain.txt").read_text("utf-8")
        blocks = re.split(r"\n(?=[a-z])", text)
        kept = [block for block in blocks if block.partition("==")[0] not in LEFT_OUT]
        (root / "tools.txt").write_text("\n".join(kept) + "\n", "utf-8")
        recipe.write_text(RECIPE.format(url=url["tree"], commit=commit, ops=url["ops"], tla=url["tla"]))
        yield root, recipe


@pytest.fixture(scope="module")
def fetched(cli: Cli, upstream: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Fetched:
    """Fetch, copy the folder, then take the servers and the fetching user's caches away."""
    root, recipe = upstream
    folder = tmp_path_factory.mktemp("carried")
    home = {"HOME": str(folder / "home one"), "XDG_CACHE_HOME": str(folder / "home one" / "cache")}
    answer = cli("fetch", recipe, "--mirror", folder / "first", "--json", env=home).must(0)
    lock = folder / "nested.lock.yaml"
    cli("lock", recipe, "--mirror", folder / "first", "--offline", "-o", lock, env=home, network=False).must(
        0
    )
    for repository in root.glob("*.git"):
        shutil.rmtree(repository)
    shutil.rmtree(folder / "home one", ignore_errors=True)
    mirror = folder / "second site é"
    shutil.copytree(folder / "first", mirror)
    shutil.rmtree(folder / "first")
    cli("check", mirror, network=False).must(0)
    return Fetched(recipe, lock, mirror, answer)


def _clean_home(tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "another user"
    home.mkdir()
    return {
        "HOME": str(home),
        **{f"XDG_{name}_HOME": str(home / name) for name in ("CACHE", "CONFIG", "DATA")},
    }


def test_fetch_says_what_it_brought(fetched: Fetched) -> None:
    documents.check(fetched.answer.document, "fetch")


def test_without_the_mirror_it_ends_before_any_build(cli: Cli, fetched: Fetched, tmp_path: Path) -> None:
    home = _clean_home(tmp_path)
    workspace = tmp_path / "ws"
    answer = cli("install", fetched.recipe, "--offline", "--workspace", workspace, env=home, network=False)
    answer.must(30)
    assert "tree.git" in answer.err
    assert not (workspace / "env").exists()
    quick = cli("install", "quickstart", "--offline", "--workspace", tmp_path / "q", env=home, network=False)
    quick.must(30)
    assert "cmake" in quick.err
    assert "fill a mirror with xpubuild fetch" in quick.err
    runs = cli("status", "--workspace", tmp_path / "q", "--json", env=home).document["runs"]
    assert [run["status"] for run in runs] == ["failed"]
    assert not (tmp_path / "q" / "env").exists()


def test_another_user_installs_without_a_network(cli: Cli, fetched: Fetched, kept_path: Path) -> None:
    """torch, and the tree with nested and configure-time repositories; of verify, the quickstart runs all."""
    home, workspace = _clean_home(kept_path), kept_path / "work space"
    before = {path: path.stat().st_mtime_ns for path in fetched.mirror.rglob("*")}
    words = ("--offline", "--mirror", fetched.mirror, "--workspace", workspace, "--json")
    words = (*words, "--until", "nested.install")
    answer = cli("install", fetched.recipe, "--lock", fetched.lock, *words, env=home, network=False).must(0)
    receipt = documents.check(answer.document, "receipt")
    assert {step["id"] for step in receipt["steps"] if step["status"] != "done"} == {"verify"}
    assert {wheel["name"] for wheel in receipt["wheels"]} == {"nested"}
    verify = ("verify", "--workspace", workspace, "--only", "import,aten.sort", "--json")
    assert cli(*verify, env=home, network=False).must(0).document["status"] == "pass"
    site = next(workspace.glob("env/lib/python3*/site-packages/nested"))
    words_found = {name: (site / name / "word.txt").read_text() for name in ("ops", "tla", "inner")}
    assert words_found == {"ops": "pinned", "tla": "tagged", "inner": "inner"}
    head = git(workspace / "src/nested/third_party/like-xpu-ops", "rev-parse", "HEAD")
    assert head == (workspace / "src/nested/third_party/xpu.txt").read_text().strip()
    assert {path: path.stat().st_mtime_ns for path in fetched.mirror.rglob("*")} == before, (
        "the mirror changed"
    )
    assert str(fetched.lock) in receipt["summary"]["locked"]
    # The lock alone names the recipe, which is found where recipes of a site are.
    home["XPUBUILD_RECIPES"] = str(fetched.recipe.parent)
    again = cli("install", fetched.lock, *words, env=home, network=False).must(0).document
    assert again["ran"] == []


def test_a_damaged_mirror_is_never_built_from(cli: Cli, fetched: Fetched, tmp_path: Path) -> None:
    mirror = tmp_path / "damaged"
    shutil.copytree(fetched.mirror, mirror)
    wheel = next(path for path in mirror.rglob("*.whl") if path.name.startswith("ninja"))
    data = bytearray(wheel.read_bytes())
    data[len(data) // 2] ^= 1
    wheel.chmod(0o644)
    wheel.write_bytes(data)
    words = ("--offline", "--mirror", mirror, "--workspace", tmp_path / "ws", "--json")
    answer = cli("install", fetched.recipe, *words, env=_clean_home(tmp_path), network=False).must(31)
    error = documents.check(answer.document, "error")["error"]
    assert wheel.name in error["what"] + json.dumps(error["evidence"])
    assert not (tmp_path / "ws" / "env").exists()
