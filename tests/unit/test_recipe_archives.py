"""What builds download themselves: complete for every release, refused where gone, with the right ABI."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.plan_files import plan_for
from support.recipe_trees import recipe, write_tree
from support.releases import EVERY, recipe_of

from xpubuild.errors import UnsatisfiableError
from xpubuild.install.choose import choose
from xpubuild.install.options import Options
from xpubuild.install.target import Choice
from xpubuild.recipe.load import validated
from xpubuild.recipe.model import LoadedRecipe
from xpubuild.recipe.tree import check_tree, expected

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
