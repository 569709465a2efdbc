"""The own file of a component: found, laid over a recipe, and what is wrong in it said of the file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.plan_files import known_target, target_for
from support.releases import recipe_of

from xpubuild.errors import RecipeError, UnsatisfiableError, UsageError
from xpubuild.install.choose import choose
from xpubuild.install.options import Options
from xpubuild.install.planner import make_plan
from xpubuild.recipe.checked import check_recipes
from xpubuild.recipe.load import component_files, load, requirement_file
from xpubuild.resources import recipes_dir

SHIPPED = sorted(path.stem for path in (recipes_dir() / "components").glob("*.yaml"))
CODEC = """\
schema: 1
name: codec
title: t
extends: base
abstract: true
components:
  codec:
    kind: source
    dist: codec
    version: 0.12.0
    needs: [torch]
    optional: true
    source: {url: "https://host/codec.git", commit: 0123456789abcdef0123456789abcdef01234567}
    build: {requirements: [codec.txt], against: []}
costs:
  codec.wheel: {minutes: 7}
facts:
  components.codec: {source: somebody}
  costs.codec.wheel: {source: somebody}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the components of a site, in its folder of recipes."""
    monkeypatch.setenv("XPUBUILD_RECIPES", str(tmp_path / "site"))
    place = tmp_path / "site" / "components"
    place.mkdir(parents=True)
    return place


def test_one_file_adds_a_component_to_a_release(folder: Path) -> None:
    (folder / "codec.yaml").write_text(CODEC)
    (folder / "codec.txt").write_text("")
    plain, loaded = load("2.13"), load("2.13", ("codec", "vision"))
    assert "codec" not in plain.recipe.components
    assert loaded.recipe.components["codec"].version == "0.12.0"
    assert loaded.recipe.costs["codec.wheel"].minutes == 7
    assert loaded.recipe.facts["components.codec"].source == "somebody"
    assert loaded.recipe.facts.items() > plain.recipe.facts.items()
    assert (loaded.recipe.title, loaded.recipe.abstract, loaded.path) == (
        plain.recipe.title,
        False,
        plain.path,
    )
    assert requirement_file(loaded, "codec.txt") == folder / "codec.txt"
    assert check_recipes([str(folder / "codec.yaml")])["status"] == "ok"


def test_a_component_is_taken_with_what_it_needs(folder: Path) -> None:
    (folder / "codec.yaml").write_text(CODEC)
    (folder / "codec.txt").write_text("")
    player = (
        CODEC.replace("codec", "player")
        .replace("[torch]", "[codec, vision]")
        .replace("requirements: [player.txt], ", "")
    )
    (folder / "player.yaml").write_text(player)
    loaded = load("2.13", ("player",))
    choice = choose(Options("2.13", with_=("player",), target="cpu"), loaded)
    assert set(choice.components) == {"torch", "codec", "vision", "player"}
    assert choice.components[-1] == "player"
    assert requirement_file(loaded, "codec.txt") == folder / "codec.txt"
    assert "codec" in load(str(folder / "player.yaml")).recipe.components
    with pytest.raises(UnsatisfiableError, match="'player' cannot be built without 'codec'"):
        choose(replace(choice.options, without=("codec",)), loaded)
    # Those that need each other are refused, whichever is read first.
    (folder / "codec.yaml").write_text(CODEC.replace("[torch]", "[player]"))
    for name in ("player", "codec"):
        with pytest.raises(RecipeError, match="components/"):
            load("2.13", (name,))


def test_a_recipe_finds_the_files_beside_it_first_and_its_own_block_before_all(
    tmp_path: Path, folder: Path
) -> None:
    (folder / "codec.yaml").write_text(CODEC)
    beside = tmp_path / "elsewhere" / "components"
    beside.mkdir(parents=True)
    (beside / "codec.yaml").write_text(CODEC.replace("0.12.0", "0.13.0"))
    recipe = beside.parent / "mine.yaml"
    recipe.write_text('schema: 1\nname: mine\ntitle: t\nextends: "2.13"\n')
    assert load(str(recipe), ("codec",)).recipe.components["codec"].version == "0.13.0"
    assert load("2.13", ("codec",)).recipe.components["codec"].version == "0.12.0"
    block = CODEC[CODEC.index("components:") : CODEC.index("costs:")].replace("0.12.0", "0.14.0")
    recipe.write_text(f'schema: 1\nname: mine\ntitle: t\nextends: "2.13"\n{block}')
    assert load(str(recipe), ("codec",)).recipe.components["codec"].version == "0.14.0"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (CODEC.replace("kind:", "knid:"), "components.codec.knid: unknown key"),
        (CODEC.replace("[torch]", "[nothing]"), "which is not a component"),
        (CODEC + "  - [\n", "codec.yaml is not valid YAML"),
        (CODEC.replace("\n  codec:\n", "\n  other:\n"), "codec.yaml is not that of the component 'codec'"),
        (CODEC.replace("components:\n", "components:\n  torch: {dist: x}\n"), "is not that of the component"),
    ],
)
def test_what_is_wrong_is_said_of_the_file(folder: Path, text: str, said: str) -> None:
    (folder / "codec.yaml").write_text(text)
    with pytest.raises(RecipeError) as caught:
        load("2.13", ("codec",))
    assert "components/codec.yaml" in caught.value.what
    assert said in f"{caught.value.what}: {caught.value.why}"


def test_a_name_without_a_file_is_refused_with_those_that_have_one(folder: Path) -> None:
    (folder / "codec.yaml").write_text(CODEC)
    assert component_files().keys() == {*SHIPPED, "codec"}
    with pytest.raises(UsageError) as caught:
        choose(Options("2.13", with_=("codecs",), target="cpu"), load("2.13", ("codecs", "../codec")))
    assert "with a file of their own: bitsandbytes, codec" in caught.value.why


@pytest.mark.parametrize("name", SHIPPED)
def test_those_that_are_shipped_are_right_and_planned_with_their_release(name: str) -> None:
    (result,) = check_recipes([str(recipes_dir() / "components" / f"{name}.yaml")])["recipes"]
    assert (result["problems"], result["warnings"]) == ([], [])
    assert set(SHIPPED) == {
        "bitsandbytes",
        "mpi4py",
        "torchao",
        "torchcodec",
        "torchcomms",
        "vllm",
        "vllm-xpu-kernels",
    }
    host, loaded = target_for("2.13", oneapi="2026.0"), load("2.13", (name,))
    choice = choose(replace(host.options, with_=(name,)), loaded)
    assert {name, *loaded.recipe.components[name].needs} <= {*choice.components}
    target = known_target(choice, oneapi=host.oneapi, situation=host.situation)
    source, check = loaded.recipe.components[name].source, loaded.recipe.components[name].check
    assert check is not None
    for statement in check.run:
        compile(statement, name, "exec")
    if source is not None and source.commit is None:
        assert loaded.recipe.facts[f"components.{name}.source.commit"].confidence == "unknown"
        with pytest.raises(RecipeError, match=f"component '{name}' of recipe '2.13' has no commit"):
            make_plan(target)
        return
    plan = make_plan(target)
    steps = {step.id for step in plan.steps}
    assert {f"{name}.source", f"{name}.wheel", f"{name}.install"} <= steps
    env = plan.step(f"{name}.wheel").commands[-1].env
    assert env.get("VLLM_XPU_AOT_DEVICES", "pvc") == "pvc"
    assert env.get("CMAKE_ARGS", "-DCOMPUTE_BACKEND=xpu") == "-DCOMPUTE_BACKEND=xpu"


def test_one_for_another_torch_is_refused() -> None:
    host, name = target_for("2.14", oneapi="2026.1"), "vllm-xpu-kernels"
    choice = choose(replace(host.options, with_=(name,)), load("2.14", (name,)))
    assert name not in recipe_of("2.14").recipe.components
    with pytest.raises(UnsatisfiableError) as caught:
        known_target(choice, oneapi=host.oneapi, situation=host.situation)
    assert "torch==2.13.0 for vllm-xpu-kernels; this release has torch 2.14.1" in caught.value.why
