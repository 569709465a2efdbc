"""``recipes bump`` against a git server on loopback, with repositories laid out as upstream's are."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from integration.gitserver import GitServer, Upstream, git, git_server, gitmodules
from support.cli import Xpubuild
from support.documents import check
from support.files import lay

from xpubuild.engine.process import Cancel
from xpubuild.install.bisect import Bisection
from xpubuild.recipe.load import load
from xpubuild.recipe.model import Recipe
from xpubuild.recipe.tree import expected
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.git import Git

OLD = "0d" * 20
RECIPE = f"""\
schema: 1
name: "9.8"
title: PyTorch 9.8.0, made up
extends: base
release: 9.8.0
components:
  torch:
    source:
      url: "@URL@/pytorch.git"
      ref: v9.8.0
      commit: {OLD}
      version: 9.8.0a0
      configure_time:
        - {{url: "@URL@/ops.git", pin_file: third_party/xpu.txt, commit: {OLD}}}
        - {{url: "@URL@/sycl-tla.git", ref: v0.9}}
    build: {{env: {{PYTORCH_BUILD_VERSION: 9.8.0, XPU_ENABLE_KINETO: "{{xpu}}"}}}}
  triton:
    version: 3.8.0
    source: {{url: "@URL@/triton.git", ref: release/3.8, commit: {OLD}}}
    build:
      archives: {{json: null, llvm: {{url: "https://example.invalid/l.zip", commit: {OLD}}}}}
  triton-wheel:
    kind: wheel
    dist: triton-xpu
    version: 3.8.0
    requirements: requirements/triton-xpu-3.8.0.txt
    instead_of: triton
    optional: true
  vision:
    version: 0.30.0
    requires: [torch==9.8.0]
    source: {{url: "@URL@/vision.git", ref: v0.30.0, commit: {OLD}}}
    build: {{env: {{BUILD_VERSION: 0.30.0, PYTORCH_VERSION: 9.8.0, FORCE_CUDA: 0}}}}
  audio: null
  ipex: null
facts:
  release: {{source: made up}}
  components: {{source: made up}}
"""


@dataclass
class World:
    server: GitServer
    recipes: Path
    commits: dict[str, str]
    ops: str
    triton: str


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("bump")
    triton = Upstream.make(folder / "srv" / "triton.git").commit({"cmake/llvm-hash.txt": f"{'e1' * 20}\n"})
    ops = "0b" * 20
    commits = {}
    for name, versions in {
        "pytorch": ("9.8.0", "9.8.1", "9.9.0"),
        "vision": ("0.30.0", "0.30.2", "0.31.0"),
    }.items():
        upstream = Upstream.make(folder / "srv" / f"{name}.git")
        for version in versions:
            files = {
                "version.txt": f"{version}a0\n",
                "third_party/xpu.txt": f"{ops}\n",
                ".ci/docker/ci_commit_pins/triton-xpu.txt": f"{triton}\n",
                ".ci/docker/triton_xpu_version.txt": "3.8.1\n",
            }
            commit = commits[f"{name} {version}"] = upstream.commit(files)
            # Annotated, as upstream's are: the tag has an id of its own.
            git("tag", "-a", "-m", "a release", f"v{version}", commit, cwd=upstream.path)
        git("tag", "v99.0.0-rc1", commits[f"{name} {versions[0]}"], cwd=upstream.path)
        git("tag", "v9.8.2-rc1", commits[f"{name} {versions[0]}"], cwd=upstream.path)
    recipes = folder / "recipes"
    recipes.mkdir()
    with git_server(folder / "srv") as server:
        (recipes / "9.8.yaml").write_text(RECIPE.replace("@URL@", server.url("").rstrip("/")))
        yield World(server, recipes, commits, ops, triton)


@pytest.fixture(autouse=True)
def _own_recipes(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XPUBUILD_RECIPES", str(world.recipes))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_patch_of_a_line(world: World, xpubuild: Xpubuild, tmp_path: Path) -> None:
    file = tmp_path / "9.8.1.yaml"
    document = check(xpubuild.json("recipes", "bump", "9.8", "--output", str(file)), "recipes-bump")
    assert (document["release"], document["base"]) == ("9.8.1", "9.8")
    found = {item["key"].removeprefix("components."): item["upstream"] for item in document["proposals"]}
    assert found == {
        "release": "9.8.1",
        "torch.source.ref": "v9.8.1",
        "torch.source.commit": world.commits["pytorch 9.8.1"],
        "torch.source.configure_time.0.commit": world.ops,
        "torch.source.version": "9.8.1a0",
        "triton.source.commit": world.triton,
        "triton.version": "3.8.1",
        "triton.build.archives.llvm.commit": "e1" * 20,
        "vision.source.ref": "v0.30.2",
        "vision.source.commit": world.commits["vision 0.30.2"],
        "vision.version": "0.30.2",
    }
    assert all(item["changed"] for item in document["proposals"])
    told, wheel = document["open"]
    assert told.startswith("components.triton.build.archives.llvm.url: cmake/llvm-hash.txt says e1e1")
    assert wheel == "components.triton-wheel: hashes of other wheels than 3.8.0 are not known"
    # What is written is a recipe, with everything that follows from the pins.
    assert file.read_text() == document["text"]
    recipe = load(str(file)).recipe
    torch, triton, vision = (recipe.components[name] for name in ("torch", "triton", "vision"))
    assert [item.commit or item.ref for item in torch.source.configure_time] == [world.ops, "v0.9"]
    assert torch.build.env["PYTORCH_BUILD_VERSION"] == "9.8.1"
    assert triton.source.ref is None
    assert "triton-wheel" not in recipe.components
    assert vision.requires == ["torch==9.8.1"]
    env = vision.build.env
    assert (env["BUILD_VERSION"], env["PYTORCH_VERSION"], env["FORCE_CUDA"]) == ("0.30.2", "9.8.1", 0)
    assert check(xpubuild.json("recipes", "check", str(file)), "recipes-check")["status"] == "ok"


def test_a_checkout_without_a_tag_becomes_a_recipe_that_says_what_the_tree_does_not(
    world: World, xpubuild: Xpubuild, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The branch of 2.16, beside the newest recipe that there is; its repositories are on loopback."""
    monkeypatch.setenv("XPUBUILD_RECIPES", str(tmp_path))
    there = {"torch": "pytorch", "triton": "triton", "vision": "vision"}
    mirrored = {key: {"source": {"url": world.server.url(f"{name}.git")}} for key, name in there.items()}
    newest = {"schema": 1, "name": "2.15", "title": "t", "extends": "2.15"}
    newest_file, file, checkout = tmp_path / "2.15.yaml", tmp_path / "2.16.yaml", tmp_path / "pytorch"
    newest_file.write_text(yaml.safe_dump({**newest, "components": {**mirrored, "audio": None}}))
    variables = " ".join(expected(load("2.15").recipe, "torch").variables)
    lay(checkout, {
        "version.txt": "2.16.0a0\n",
        "pyproject.toml": "[build-system]\nrequires = []\n",
        ".gitmodules": gitmodules(("third_party/a", "/a")),
        ".ci/docker/ci_commit_pins/triton-xpu.txt": f"{world.triton}\n",
        "third_party/xpu.txt": f"{world.ops}\n",
        "cmake/EnvVarForwarding.cmake": f"set(_ENV_PASSTHROUGH {variables})\n",
        "cmake/Modules/FindMKLDNN.cmake": "# says no tag\n",
    })  # fmt: skip
    git("init", "--quiet", cwd=checkout)
    git("add", "--all", cwd=checkout)
    git("commit", "--quiet", "-m", "a branch", cwd=checkout)
    words = ("recipes", "bump", "2.16", "--tree", str(checkout), "--output", str(file))
    document = check(xpubuild.json(*words), "recipes-bump")
    assert (document["release"], document["base"]) == ("2.16.0", "2.15")
    assert any("components.vision: v0.31.0 is its newest release" in told for told in document["open"])
    checked = xpubuild.json("recipes", "check", str(file), "--tree", str(checkout))
    assert (checked["status"], checked["recipes"][0]["warnings"]) == ("ok", [])
    recipe = load(str(file)).recipe
    torch, triton = (recipe.components[name].source for name in ("torch", "triton"))
    assert (torch.commit, torch.version) == (git("rev-parse", "HEAD", cwd=checkout), "2.16.0a0")
    assert ([item.commit for item in torch.configure_time], triton.commit) == (
        [world.ops, None, None], world.triton,
    )  # fmt: skip
    facts = yaml.safe_load(document["text"])["facts"]
    assert {key.removeprefix("components.") for key in facts if "unknown" in facts[key].values()} == {
        "torch.source.ref", "torch.source.configure_time.1.ref", "torch.source.configure_time.2.ref",
        "triton.version", "triton.build.archives.llvm.url", "triton.build.archives.json.url",
    }  # fmt: skip
    result = xpubuild("recipes", "bump", "2.17", "--tree", str(checkout))
    assert (result.status, "its version.txt says 2.16.0a0" in result.err) == (2, True)
    assert xpubuild(*words).status == 2, "it would extend itself"


def test_what_differs_is_shown_and_the_recipe_can_be_followed_by_renovate(
    world: World, xpubuild: Xpubuild
) -> None:
    shown = xpubuild.ok("recipes", "bump", "9.8").out
    # Wider than 120 columns: one value a line.
    new = world.commits["pytorch 9.8.1"]
    pattern = rf"^key: +components\.torch\.source\.commit\nrecipe: +{OLD}\nupstream: +{new}$"
    assert re.search(pattern, shown, re.M), shown
    assert "11 pins of 9.8.1 differ from recipe 9.8, 0 are the same" in shown
    text = xpubuild.json("recipes", "bump", "9.8")["text"]
    for name, tag in (("pytorch", "v9.8.1"), ("vision", "v0.30.2")):
        comment = f"# renovate: datasource=git-tags depName={world.server.url(f'{name}.git')}"
        assert re.search(rf"^ +{re.escape(comment)}\n +ref: {tag}\n +commit: [0-9a-f]{{40}}$", text, re.M)


@pytest.mark.parametrize(
    ("release", "told"),
    [("9.8.7", "has no tag of it; its newest is v9.9.0"), ("1.0", "is older"), ("main", "is not a release")],
)
def test_what_is_no_release_upstream(xpubuild: Xpubuild, release: str, told: str) -> None:
    result = xpubuild("recipes", "bump", release)
    assert result.status == 2
    assert told in result.err


def test_a_server_that_refuses_is_an_error_of_fetching(world: World, xpubuild: Xpubuild) -> None:
    world.server.faults.fail, world.server.faults.fail_status = 50, 403
    try:
        assert xpubuild("recipes", "bump", "9.8").status == 30
    finally:
        world.server.faults.fail = 0


def test_a_commit_has_the_pins_that_belong_to_it(world: World, tmp_path: Path) -> None:
    """What ``bisect`` builds: torch at a commit, or torch at its own with a commit of what it clones."""
    base = tmp_path / "base.yaml"
    commit = world.commits["pytorch 9.8.0"]
    text = f"""schema: 1
name: mine
title: with a commit that is there
extends: "9.8"
components: {{torch: {{source: {{ref: null, commit: {commit}}}}}}}
"""
    base.write_text(text)
    built: list[Recipe] = []
    store = RepositoryStore(tmp_path / "cache", Git.open())

    def judge(component: str, commit: str) -> Recipe:
        asked = {"component": component, "command": ["true"], "cwd": "/"}
        root = tmp_path / component
        (root / "build" / "bisect").mkdir(parents=True)
        search = Bisection(
            root, load(str(base)), store, asked, lambda file: built.append(load(str(file)).recipe),
            lambda: {"PATH": os.environ["PATH"]}, Cancel(), lambda _: None,
        )  # fmt: skip
        assert search.judge(commit)["verdict"] == "good"
        return built[-1]

    recipe = judge("torch", world.commits["pytorch 9.9.0"])
    torch, triton = recipe.components["torch"], recipe.components["triton"]
    assert (recipe.release, torch.source.commit) == ("9.9.0", world.commits["pytorch 9.9.0"])
    assert (torch.source.version, torch.source.ref) == ("9.9.0a0", None)
    assert torch.source.configure_time[0].commit == world.ops
    assert (triton.source.commit, triton.version) == (world.triton, "3.8.1")
    assert torch.build.env["PYTORCH_BUILD_VERSION"] == "9.9.0"
    assert recipe.components["vision"].requires == ["torch==9.9.0"]

    other = "0c" * 20
    recipe = judge("ops", other)
    source = recipe.components["torch"].source
    assert (recipe.release, source.commit) == ("9.8.0", commit)
    assert source.configure_time[0].commit == other
    assert source.configure_time[0].replaces == source.configure_time[0].url, "the pin file follows"
