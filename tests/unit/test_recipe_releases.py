"""The recipes of the release lines: sound, each value with its source, paired as upstream pairs it."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from support.cli import Xpubuild
from support.plan_files import plan_for
from support.recipe_trees import recipe, write_tree
from support.releases import BRANCH, EVERY, LINES, RELEASES, recipe_of, source

from xpubuild.engine.model import Plan
from xpubuild.errors import UnsatisfiableError
from xpubuild.install.choose import choose
from xpubuild.install.options import Options
from xpubuild.install.target import Choice
from xpubuild.recipe.checked import check_recipes
from xpubuild.recipe.facts import without_source
from xpubuild.recipe.load import find, read_document, requirement_file, validated
from xpubuild.recipe.model import LoadedRecipe, Recipe
from xpubuild.recipe.order import in_order
from xpubuild.recipe.tree import check_tree, expected
from xpubuild.resources import recipes_dir


@functools.cache
def written(line: str) -> dict[str, Any]:
    return read_document(recipes_dir() / f"{line}.yaml")


def number(name: str) -> Version:
    return Version(name) if name != BRANCH else Version("9999")


def clone(recipe: Recipe, repository: str) -> Any:
    return next((item for item in source(recipe, "torch").configure_time if repository in item.url), None)


@pytest.mark.parametrize("path", sorted(recipes_dir().glob("*.yaml")), ids=lambda path: path.stem)
def test_no_problem_is_found(path: object) -> None:
    document = check_recipes([str(path)])
    assert document["recipes"][0]["problems"] == [], "after a change of ops: scripts/pin-embedded.py"


def test_every_line_has_a_recipe_and_no_file_is_forgotten() -> None:
    assert {path.stem for path in recipes_dir().glob("*.yaml")} == {*RELEASES, "main", "base", "quickstart"}
    assert set(RELEASES) >= {f"2.{minor}" for minor in range(4, 16)}
    for line, releases in RELEASES.items():
        assert [release for release in releases if not release.startswith(f"{line}.")] == []
        assert sorted(releases, key=Version, reverse=True) == list(releases)


@pytest.mark.parametrize("name", EVERY)
def test_every_release_has_sources_and_known_commits(name: str) -> None:
    loaded = recipe_of(name)
    recipe = loaded.recipe
    assert recipe.name == name
    assert name == BRANCH or name in recipe.title
    assert without_source(loaded) == []
    for key, component in recipe.components.items():
        if source(recipe, key).commit is None:
            assert recipe.facts[f"components.{key}.source.commit"].confidence == "unknown"
            # Without a commit it is looked up by its ref, which may be unknown only where it can be left out.
            assert source(recipe, key).ref or component.optional


def test_no_two_releases_have_the_same_pins() -> None:
    for key in ("torch", "vision"):
        commits = [source(recipe_of(name).recipe, key).commit for name in EVERY]
        known = [commit for commit in commits if commit is not None]
        assert len(set(known)) == len(known)


@pytest.mark.parametrize("line", [*LINES, *(patch for _, *older in RELEASES.values() for patch in older)])
def test_nothing_is_said_twice(line: str) -> None:
    """What a recipe says as base says it, or a patch release as its line, would go stale there first."""
    if line in LINES:
        above, own = written("base"), written(line)
    else:
        above, own = dict(recipe_of(of := line.rpartition(".")[0]).document), written(of)["patches"][line]
    own = {key: value for key, value in own.items() if key not in ("schema", "facts")}
    assert _repeated(own, above, "") == []


def _repeated(own: Any, above: Any, path: str) -> list[str]:
    if isinstance(own, Mapping) and isinstance(above, Mapping):
        pairs = ((own[key], above[key], f"{path}.{key}".lstrip(".")) for key in own.keys() & above.keys())
        return [found for pair in pairs for found in _repeated(*pair)]
    return [path] if own == above else []


@pytest.mark.parametrize("name", EVERY)
def test_what_goes_with_a_release_is_built_as_its_version(name: str) -> None:
    components = recipe_of(name).recipe.components
    env = {key: part.build.env for key, part in components.items()}
    assert env["torch"].get("PYTORCH_BUILD_VERSION") == (None if name == BRANCH else name)
    assert list(components)[-1] == "ops"
    for key in ("vision", "audio") if name != BRANCH else ():
        assert env[key]["BUILD_VERSION"] == components[key].version
        assert env[key].get("PYTORCH_VERSION", name) == name
        assert source(recipe_of(name).recipe, key).ref == f"v{components[key].version}"
        assert all(name in Requirement(text).specifier for text in components[key].requires)
    assert env["triton"]["TRITON_WHEEL_NAME"] == components["triton"].dist


@pytest.mark.parametrize("name", EVERY)
def test_repositories_that_the_build_clones(name: str) -> None:
    recipe, release = recipe_of(name).recipe, number(name)
    ops = clone(recipe, "torch-xpu-ops")
    assert (ops.path, ops.pin_file) == ("third_party/torch-xpu-ops", "third_party/xpu.txt")
    assert ops.path in source(recipe, "torch").made_by_build
    # 2.6 and older build oneDNN for the GPU from the submodule.
    assert (clone(recipe, "oneDNN") is not None) == (release >= Version("2.7"))
    tla = clone(recipe, "sycl-tla")
    assert (tla is not None) == (release >= Version("2.10"))
    assert bool(recipe.components["torch"].build.large_units) == (tla is not None)


@pytest.mark.parametrize("name", EVERY)
def test_variants_and_requirements(name: str) -> None:
    loaded = recipe_of(name)
    switches = {key: variant.env["torch"] for key, variant in loaded.recipe.variants.items()}
    assert set(switches) == {"full", "dev", "minimal", "debug", "debug-info"}
    assert (switches["debug"], switches["debug-info"]) == ({"DEBUG": 1}, {"REL_WITH_DEB_INFO": 1})
    assert switches["minimal"]["USE_DISTRIBUTED"] == 0
    # Without oneDNN there are no convolutions on XPU.
    assert switches["minimal"]["USE_MKLDNN"] == "{xpu}"
    tools = loaded.recipe.toolchain
    (file,) = tools.requirements
    pins = dict(re.findall(r"^(\S+)==(\S+)", requirement_file(loaded, file).read_text("utf-8"), re.MULTILINE))
    assert pins["mkl-static"] == pins["mkl-include"] == str(tools.mkl)
    assert pins["cmake"] in Requirement(f"cmake {loaded.recipe.needs.cmake}").specifier


# ---- A plan of every release whose commit is known


def plan_of(name: str, oneapi: bool = True) -> Plan:
    recipe = recipe_of(name).recipe
    optional = tuple(key for key in ("vision", "audio") if key in recipe.components)
    low = re.search(r">=([\d.]+)", recipe.needs.oneapi or "")
    assert low is not None
    asked: dict[str, Any] = {"with_": optional if name != "main" else (), "variant": "full"}
    return plan_for(name, oneapi=low[1] if oneapi else None, **asked)


@pytest.mark.parametrize("name", [name for name in EVERY if source(recipe_of(name).recipe, "torch").commit])
def test_every_release_with_a_known_commit_is_planned_for_xpu(name: str) -> None:
    plan = plan_of(name)
    steps = [step.id for step in plan.steps]
    assert steps[-1] == "verify"
    chosen = {"torch", "vision", "audio"}
    assert [step for step in steps if step.endswith(".wheel")] == [
        f"{key}.wheel" for key in recipe_of(name).recipe.components if key in chosen
    ]
    (wheel,) = (step for step in plan.steps if step.id == "torch.wheel")
    env = next(command.env for command in wheel.commands if "USE_XPU" in command.env)
    assert (env["USE_XPU"], env["TORCH_XPU_ARCH_LIST"], env["USE_MKLDNN"]) == ("1", "pvc", "1")
    assert env["PYTORCH_BUILD_VERSION"] == name
    assert "USE_XCCL" not in env or env["USE_XCCL"] == "1"


@pytest.mark.parametrize("name", ["2.4.1", "2.6.0", "2.13.0"])
def test_the_same_release_is_planned_for_the_cpu(name: str) -> None:
    plan = plan_of(name, oneapi=False)
    (wheel,) = (step for step in plan.steps if step.id == "torch.wheel")
    env = next(command.env for command in wheel.commands if "USE_XPU" in command.env)
    assert env["USE_XPU"] == "0"
    assert env.get("USE_XCCL", "0") == env.get("USE_ONEMKL_XPU", "0") == "0"


# ---- Releases are listed as versions, not as text: 2.4 comes before 2.10 wherever a list is shown


SHOWN = ["2.4", "2.9", "2.10", "main", "rig9", "rig10"]


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of recipes in front of those of xpubuild."""
    folder = tmp_path / "recipes"
    folder.mkdir()
    for name in ("rig10", "rig9"):
        (folder / f"{name}.yaml").write_text(f"schema: 1\nname: {name}\ntitle: a rig\nextends: quickstart\n")
    monkeypatch.setenv("XPUBUILD_RECIPES", str(folder))
    return folder


def test_releases_come_as_versions_and_other_names_after_them() -> None:
    names = ["main", "2.10", "rig10", "2.4", "2.6.0", "2.6.0rc1", "2.10.0", "rig9", "2.9"]
    assert in_order(names) == [
        "2.4", "2.6.0rc1", "2.6.0", "2.9", "2.10", "2.10.0", "main", "rig9", "rig10",
    ]  # fmt: skip


@pytest.mark.usefixtures("few")
def test_an_unknown_recipe_names_the_known_ones_in_their_order(xpubuild: Xpubuild) -> None:
    error = xpubuild("plan", "no-such", "--json")
    assert error.status == 20
    known = error.document()["error"]["why"].removeprefix("known recipes: ").split(", ")
    assert [name for name in known if name in SHOWN] == SHOWN
    assert "base" not in known, "it is only there to be extended"


@pytest.mark.parametrize("name", ["mine.yaml", "mine.yml", "./mine.yml", "./mine"])
def test_a_file_is_named_by_its_ending_or_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text("schema: 1\nname: mine\n")
    assert find(name) == tmp_path / name


# ---- A placeholder that is none: recipes check names it, and a plan refuses it before anything is looked at


BUILD = "{arch}, {build}, {cxx11_abi}, {env}, {target}, {xpu}"
WRONG = [
    ('env: {FOO: "{nope}"}', "env.FOO: '{nope}' is not a placeholder; placeholders are " + BUILD),
    ('env: {FOO: "-I{env/include"}', "'-I{env/include' has an unmatched brace; placeholders are " + BUILD),
    ('components: {ops: {build: {config_settings: {b: "{x}"}}}}', "ops.build.config_settings.b: '{x}'"),
    ('variants: {v: {env: {ops: {B: "{jobs}"}}}}', "variants.v.env.ops.B: '{jobs}' is not a placeholder"),
    (
        'toolchain: {conda: {packages: ["cmake", "python={pyhton}"]}}',
        "toolchain.conda.packages.1: '{pyhton}' is not a placeholder; placeholders are {python}",
    ),
]  # fmt: skip


def own_recipe(folder: Path, text: str) -> str:
    path = folder / "mine.yaml"
    path.write_text(f"schema: 1\nname: mine\ntitle: t\nextends: quickstart\n{text}\n")
    return str(path)


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_check_and_plan_name_file_key_and_the_known_ones(
    xpubuild: Xpubuild, tmp_path: Path, text: str, said: str
) -> None:
    path = own_recipe(tmp_path, text)
    checked = xpubuild("recipes", "check", path, "--json")
    assert checked.status == 20
    assert said in str(checked.document()["recipes"][0]["problems"])
    refused = xpubuild("plan", path, "--workspace", str(tmp_path / "ws"), "--json")
    assert refused.status == 20
    error = refused.document()["error"]
    assert path in error["what"]
    assert said in error["why"]


def test_variables_of_cmake_and_shell_are_no_placeholders(xpubuild: Xpubuild, tmp_path: Path) -> None:
    path = own_recipe(tmp_path, 'env: {FOO: "${HOME}/{env}", BAR: "{}", BAZ: "{1}"}')
    xpubuild.ok("recipes", "check", path)


# ---- What builds download themselves: complete for every release, refused where gone, with the right ABI


_COMMIT = "1234567812345678123456781234567812345678"


def _known(loaded: LoadedRecipe) -> bool:
    """Whether upstream states the commit of a release's triton."""
    source = loaded.recipe.components["triton"].source
    return source is not None and source.commit is not None


def _chosen(loaded: LoadedRecipe) -> Choice:
    return choose(Options(None, Path("/ws"), with_=("triton",), target="xpu"), loaded)


@pytest.mark.parametrize("name", [name for name in EVERY if _known(recipe_of(name))])
def test_triton_has_all_that_its_build_takes_from_outside(name: str) -> None:
    triton = recipe_of(name).recipe.components["triton"]
    asked = {item.url.rpartition("/")[2]: item for item in triton.source.configure_time}
    assert {"SPIRV-LLVM-Translator.git", "SPIRV-Headers.git"} <= set(asked)
    assert all(item.commit or item.ref for item in asked.values())
    llvm = triton.build.archives["llvm"]
    assert llvm.commit is not None
    assert llvm.commit[:8] in str(llvm.url)
    assert llvm.folder in str(llvm.url)
    assert {item.variable for item in triton.build.archives.values()} >= {"LLVM_SYSPATH"}
    assert bool(llvm.gone) == name.startswith("2.4")


def test_an_llvm_that_is_gone_is_refused_unless_the_user_has_one() -> None:
    loaded = recipe_of("2.4.1")
    with pytest.raises(UnsatisfiableError, match="llvm can no longer be downloaded") as caught:
        _chosen(loaded)
    assert caught.value.exit_code == 22
    assert "components.triton.build.env.LLVM_SYSPATH" in caught.value.fix
    assert "10dc3a8e916d73291269e5e2b82dd22681489aa1" in caught.value.fix
    document = loaded.recipe.model_dump(mode="json", by_alias=True, exclude_none=True)
    document["components"]["triton"]["build"]["env"]["LLVM_SYSPATH"] = "/opt/llvm"
    assert "triton" in _chosen(validated(document, loaded.path, loaded.folders)).components
    document["components"]["triton"]["build"]["env"]["LLVM_SYSPATH"] = ""
    document["components"]["triton"] |= {"kind": "wheel", "version": "3.0.0", "requirements": "t.txt"}
    assert "triton" in _chosen(validated(document, loaded.path, loaded.folders)).components


def test_with_the_old_abi_triton_keeps_that_of_its_llvm() -> None:
    plan = plan_for("2.6", oneapi="2025.0", cxx11_abi="0", with_=("triton",))
    flags = {name: plan.step(f"{name}.wheel").commands[-1].env for name in ("torch", "triton")}
    assert flags["torch"]["CXXFLAGS"].endswith("-D_GLIBCXX_USE_CXX11_ABI=0")
    assert flags["triton"]["CXXFLAGS"].endswith("-D_GLIBCXX_USE_CXX11_ABI=1")
    assert flags["triton"]["_GLIBCXX_USE_CXX11_ABI"] == "1"
    assert flags["triton"]["LLVM_SYSPATH"].endswith("/build/archives/triton/llvm/llvm-4ad870d1-ubuntu-x64")
    assert flags["triton"]["TRITON_HOME"].startswith(plan.workspace)


def test_the_tree_decides_which_llvm_is_right(tmp_path: Path) -> None:
    archive = {"variable": "LLVM_SYSPATH", "pin_file": "cmake/llvm-hash.txt", "commit": _COMMIT}
    wanted = expected(recipe(triton={"build": {"archives": {"llvm": archive}}}), "triton")
    tree = write_tree(tmp_path)
    (tree / "cmake").mkdir()
    (tree / "cmake" / "llvm-hash.txt").write_text(f"{_COMMIT}\n")
    assert not [text for text in check_tree(wanted, tree).problems if "llvm" in text]
    (tree / "cmake" / "llvm-hash.txt").write_text("8" * 40)
    (text,) = [text for text in check_tree(wanted, tree).problems if "llvm" in text]
    assert "components.triton.build.archives.llvm" in text
