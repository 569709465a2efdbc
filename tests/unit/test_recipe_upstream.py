"""Values of the recipes that upstream's own files decide; the recipes' facts name file and line."""

from __future__ import annotations

import pytest
from packaging.version import Version
from support.releases import EVERY, recipe_of

from xpubuild.recipe.load import requirement_file
from xpubuild.supply.requirements import pinned


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


def test_kernels_are_compiled_without_the_host_compiler_from_2_15_on_and_still_need_gcc() -> None:
    newest, release = recipe_of("main").recipe, recipe_of("2.14.1").recipe
    assert newest.needs.host_compiler == release.needs.host_compiler == "GNU"
    # intel/torch-xpu-ops PR 2994 came to main ten days after the branch of 2.14 was cut.
    noted = {name for name in EVERY if "2994" in recipe_of(name).recipe.facts["needs.host_compiler"].source}
    assert noted == {name for name in EVERY if name == "main" or Version(name) >= Version("2.15")}


def test_files_of_sycl_tla_are_told_to_need_a_newer_standard() -> None:
    """What the configured commands of torch-xpu-ops 2.10 and 2.11 say; from 2.12 on, everything is C++20."""
    told = {
        name
        for name in EVERY
        if (fact := recipe_of(name).recipe.facts.get("needs.cxx_standard"))
        and "sycl-tla alone are compiled with C++20" in (fact.note or "")
    }
    assert told == {name for name in EVERY if name.startswith(("2.10.", "2.11."))}


def test_the_triton_of_2_11_is_the_commit_of_its_tag() -> None:
    """Tag v3.7.0 of intel/intel-xpu-backend-for-triton."""
    triton = recipe_of("2.11.0").recipe.components["triton"]
    assert triton.source is not None
    assert (triton.version, triton.source.ref) == ("3.7.0", "v3.7.0")
    assert triton.source.commit == "64bb0de394fe1b9e163758380ce8eed25511bb5e"
