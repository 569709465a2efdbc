"""Values of the recipes that upstream's own files decide; the recipes' facts name file and line."""

from __future__ import annotations

import pytest
from packaging.version import Version
from support.releases import EVERY, recipe_of

from xpubuild.packages.requirements import pinned
from xpubuild.recipe.load import requirement_file


@pytest.mark.parametrize("name", EVERY)
def test_what_triton_imports_is_installed(name: str) -> None:
    loaded = recipe_of(name)
    triton = loaded.recipe.components["triton"]
    files = [requirement_file(loaded, file).read_text("utf-8") for file in triton.build.requirements]
    pins = {dist for text in files for dist, _ in pinned(text, "3.12.3")}
    version = Version(triton.version or "9999")
    assert "pyelftools" in pins or version < Version("3.6")
    # Declared by triton 3.0.0 alone, for a part that is not built.
    assert ("llnl-hatchet" in loaded.recipe.toolchain.leave_out) == (version == Version("3.0.0"))


def test_main_compiles_kernels_without_the_host_compiler_and_still_needs_gcc() -> None:
    main, release = recipe_of("main").recipe, recipe_of("2.14.1").recipe
    assert main.needs.host_compiler == release.needs.host_compiler == "GNU"
    # intel/torch-xpu-ops PR 2994 is on no release branch.
    noted = {
        name for name in EVERY if "PR 2994" in recipe_of(name).recipe.facts["needs.host_compiler"].source
    }
    assert noted == {"main"}
