"""install --packages conda through the command line: solved, fetched, locked, and built without a network.

Real pip, CMake and ninja, made into conda packages of a channel on this machine; its Python is a stand-in
that links to the interpreter of the tests.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from integration.gitserver import Upstream
from support.cli import Result, child
from support.conda_channel import Tiny, from_wheel, make_channel, python_stand_in
from support.needs import without_network

from xpubuild.resources import recipes_dir

RECIPE = """
schema: 1
name: small
title: a wheel that CMake and ninja of conda make
target: cpu
needs: {{disk_gib: 0.1}}
toolchain:
  requirements: [requirements/small-tools.txt]
  conda:
    channels: ["{channel}"]
    packages: ["python {{python}}.*", pip, cmake, ninja]
components:
  small:
    kind: source
    dist: small
    source: {{url: {url}, commit: {commit}}}
    build:
      config_settings: {{build-dir: "{{build}}/small"}}
    audit: {{cxx11_abi: false}}
"""
CMAKE = """
cmake_minimum_required(VERSION 3.18)
project(small NONE)
file(WRITE ${CMAKE_BINARY_DIR}/who.txt "${CMAKE_COMMAND}\\n${CMAKE_MAKE_PROGRAM}\\n")
install(FILES ${CMAKE_BINARY_DIR}/who.txt DESTINATION small)
"""
PYPROJECT = """
[build-system]
requires = ["scikit-build-core"]
build-backend = "scikit_build_core.build"
[project]
name = "small"
version = "1.0"
[tool.scikit-build]
wheel.packages = []
"""

pytestmark = [pytest.mark.xdist_group("conda-route"), pytest.mark.needs("netns")]


@dataclass(frozen=True)
class Site:
    """A recipe with its channel, and a mirror that was filled from both."""

    recipe: Path
    mirror: Path
    environ: dict[str, str]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("conda route é")
    wheels = folder / "wheels"
    get = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary",
        ":all:",
        "-d",
        wheels,
    ]
    subprocess.run([*get, "pip", "cmake==3.31.10", "ninja"], check=True)
    tools = [from_wheel(path) for path in wheels.glob("*.whl")]
    cxx = Tiny("libstdcxx-ng", "15.2.0", files={"share/libstdcxx.txt": b"no library in this stand-in\n"})
    channel = make_channel(folder / "channel", [*tools, cxx, python_stand_in()])
    upstream = Upstream.make(folder / "small.git")
    commit = upstream.commit({"CMakeLists.txt": CMAKE, "pyproject.toml": PYPROJECT})
    text = (recipes_dir() / "requirements" / "quickstart-toolchain.txt").read_text()
    large = ("mkl", "onemkl", "tbb", "tcm", "umf", "intel")
    (folder / "requirements").mkdir()
    blocks = re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)
    tools_text = "".join(block for block in blocks if not block.startswith(large))
    (folder / "requirements" / "small-tools.txt").write_text(tools_text)
    recipe = folder / "small.yaml"
    recipe.write_text(RECIPE.format(channel=channel.as_uri(), url=upstream.path.as_uri(), commit=commit))
    environ = {"XDG_CACHE_HOME": str(folder / "cache")}
    answer = child("fetch", str(recipe), "--packages", "conda", "--mirror", str(folder / "mirror"), **environ)
    assert answer.status == 0, answer.err
    return Site(recipe, folder / "mirror", environ)


def install(site: Site, workspace: Path, *words: str, network: bool = False) -> Result:
    """Install as far as the wheel, where no route leads anywhere unless ``network``."""
    argv = [sys.executable, "-m", "xpubuild", "install", str(site.recipe), "--packages", "conda", "--json",
            "--workspace", str(workspace), "--until", "small.install", *words]  # fmt: skip
    done = subprocess.run(
        [*(() if network else without_network()), *argv],
        env={**os.environ, **site.environ}, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    return Result(done.returncode, done.stdout, done.stderr)


def test_it_is_built_with_conda_tools_and_without_a_network(site: Site, tmp_path: Path) -> None:
    workspace = tmp_path / "work space"
    # Another user's cache, and a channel that is gone: the mirror is all there is.
    other = Site(site.recipe, site.mirror, {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    channel = site.recipe.parent / "channel"
    channel.rename(site.recipe.parent / "channel away")
    try:
        answer = install(other, workspace, "--offline", "--mirror", str(site.mirror))
    finally:
        (site.recipe.parent / "channel away").rename(channel)
    assert answer.status == 0, answer.err
    who = next(workspace.glob("env/lib/python3*/site-packages/small/who.txt")).read_text().splitlines()
    assert len(who) == 2
    assert all(line.startswith(str(workspace / "env")) for line in who), who
    conda = sorted(path.name for path in (workspace / "env/conda-meta").glob("*.json"))
    assert [name.partition("-")[0] for name in conda].count("python") == 1
    pip = {item["name"].lower().replace("_", "-") for item in answer.document()["prebuilt"]}
    assert "scikit-build-core" in pip
    assert not pip & {"cmake", "ninja"}
    again = install(other, workspace, "--offline", "--mirror", str(site.mirror))
    assert again.status == 0, again.err
    assert again.document()["ran"] == []


def test_the_lock_has_the_conda_packages_and_is_what_gets_installed(site: Site, tmp_path: Path) -> None:
    lock = tmp_path / "small.lock.yaml"
    made = child("lock", str(site.recipe), "--packages", "conda", "-o", str(lock), **site.environ)
    assert made.status == 0, made.err
    assert "libstdcxx-ng" in lock.read_text()
    beside = tmp_path / "small.conda-lock.yml"
    words = ("--lock", str(lock), "--offline", "--mirror", str(site.mirror), "--until", "env")
    answer = install(site, tmp_path / "ws", *words)
    assert answer.status == 0, answer.err
    text = beside.read_text()
    sha256 = next(line.split()[-1] for line in text.splitlines() if "sha256:" in line)
    beside.write_text(text.replace(sha256, "a" * 64))
    answer = install(site, tmp_path / "other", *words)
    assert answer.status == 21, answer.err
    assert "conda" in answer.err


def test_without_lock_mirror_or_network_it_ends_with_30(site: Site, tmp_path: Path) -> None:
    nobody = Site(site.recipe, site.mirror, {"XDG_CACHE_HOME": str(tmp_path)})
    answer = install(nobody, tmp_path / "ws", "--offline")
    assert answer.status == 30, answer.err
    assert "--conda-lock" in answer.err
    assert not (tmp_path / "ws").exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--python", "3.7"), 22, "3.7"),
        (("--python", "/usr/bin/pypy"), 2, "--python 3.12"),
        (("--conda-channel", "/nowhere/at/all"), 30, "nowhere"),
    ],
)
def test_what_cannot_be_solved_is_explained(
    site: Site, tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    answer = install(site, tmp_path / "ws", *words, network=True)
    assert answer.status == code, answer.err
    assert said in answer.err
    assert not (tmp_path / "ws").exists()
