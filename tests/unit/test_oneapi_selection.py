"""Which of several installed versions a recipe gets, and what is said when none fits."""

from __future__ import annotations

from pathlib import Path

import pytest
from integration import oneapi_standin as standin

from xpubuild.errors import RecipeError, ToolchainError, UnsatisfiableError
from xpubuild.machine.oneapi_components import list_components
from xpubuild.machine.oneapi_roots import find_roots
from xpubuild.machine.oneapi_selection import Mode, OneapiNeeds, Selection, select

V2025_1 = ">=2025.1,<2025.2"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "oneapi"


def choose(
    place: Path,
    versions: str = V2025_1,
    components: tuple[str, ...] = standin.NEEDED,
    mode: Mode = "components",
    **more: dict[str, str],
) -> Selection:
    root = find_roots(place, {})[0]
    return select(root, list_components(root), OneapiNeeds(versions, components, **more), mode)


def versions(selection: Selection) -> dict[str, str]:
    return {component.name: component.version for component in selection.components}


def codes(selection: Selection) -> list[str]:
    return [finding.code for finding in selection.findings]


def test_one_bundle_is_taken_as_it_is_in_the_recipes_order(place: Path) -> None:
    standin.build_root(place)
    selection = choose(place, components=("umf", "compiler", "pti"))
    assert [component.name for component in selection.components] == ["umf", "compiler", "pti"]
    assert selection.findings == ()
    assert selection.mode == "components"


def test_with_two_bundles_the_older_one_is_taken_whole(place: Path) -> None:
    standin.build_root(place)
    for name, version in standin.BUNDLE_2025_3.items():
        standin.add_component(place, name, version)
    assert versions(choose(place)) == standin.BUNDLE_2025_1
    assert versions(choose(place, ">=2025.3")) == standin.BUNDLE_2025_3


def test_latest_wins_among_versions_that_fit(place: Path) -> None:
    standin.build_root(place)
    standin.add_component(place, "compiler", "2025.3", latest=False)
    assert versions(choose(place, ">=2025.1", ("compiler",))) == {"compiler": "2025.1"}
    standin.point_latest(place, "compiler", "2025.3")
    assert versions(choose(place, ">=2025.1", ("compiler",))) == {"compiler": "2025.3"}


def test_a_mixed_stack_is_a_finding(place: Path) -> None:
    standin.build_root(place, {**standin.BUNDLE_2025_3, "ccl": "2021.15"})
    selection = choose(place, ">=2025.3")
    (finding,) = selection.findings
    assert finding.code == "oneapi-mixed-stack"
    assert "compiler 2025.3 is used with ccl 2021.15, expected 2021.17" in finding.message
    assert "belongs to Intel Deep Learning Essentials 2025.1.3" in finding.message


def test_drifted_links_are_a_finding_although_the_choice_is_whole(place: Path) -> None:
    standin.build_root(place)
    standin.add_component(place, "compiler", "2025.3")
    selection = choose(place)
    assert versions(selection) == standin.BUNDLE_2025_1
    assert set(codes(selection)) == {"oneapi-latest-drift"}


def test_the_recipes_version_map_wins_over_the_bundle(place: Path) -> None:
    standin.build_root(place)
    standin.add_component(place, "ccl", "2021.17", latest=False)
    selection = choose(place, component_versions={"ccl": "==2021.17"})
    assert versions(selection)["ccl"] == "2021.17"
    assert "oneapi-mixed-stack" in codes(selection)
    with pytest.raises(UnsatisfiableError) as caught:
        choose(place, component_versions={"ccl": ">=2022"})
    assert "2021.15" in caught.value.what


def test_a_wrong_compiler_is_unsatisfiable_and_names_what_is_there(place: Path) -> None:
    standin.build_root(place, standin.BUNDLE_2025_3)
    with pytest.raises(UnsatisfiableError) as caught:
        choose(place)
    assert caught.value.exit_code == 22
    assert "2025.3" in caught.value.what
    assert V2025_1 in caught.value.what
    assert "intel-deep-learning-essentials-2025.1" in caught.value.fix
    assert "sudo apt-get install -y intel-deep-learning-essentials-2025.1" in caught.value.commands


def test_missing_components_are_all_named_with_their_packages(place: Path) -> None:
    standin.build_root(place, {"compiler": "2025.1"})
    with pytest.raises(ToolchainError) as caught:
        choose(place, components=("compiler", "pti", "ccl"))
    assert caught.value.exit_code == 40
    assert "lacks pti, ccl" in caught.value.what
    assert "intel-pti-dev" in caught.value.fix
    assert "intel-oneapi-ccl-devel" in caught.value.fix
    assert "pti/VERSION/env/vars.sh" in caught.value.why


def test_an_installation_without_a_compiler(place: Path) -> None:
    standin.build_root(place, {"mkl": "2025.1"})
    with pytest.raises(ToolchainError) as caught:
        choose(place, components=("compiler",))
    assert "lacks compiler" in caught.value.what


def test_setvars_can_use_only_what_latest_leads_to(place: Path) -> None:
    standin.build_root(place)
    standin.add_component(place, "compiler", "2025.3")
    with pytest.raises(UnsatisfiableError) as caught:
        choose(place, mode="setvars")
    assert "latest" in caught.value.why
    assert versions(choose(place, ">=2025.3", mode="setvars"))["compiler"] == "2025.3"


def test_setvars_does_not_choose_by_bundle(place: Path) -> None:
    standin.build_root(place)
    standin.add_component(place, "umf", "1.0")
    assert versions(choose(place))["umf"] == "0.10"
    selection = choose(place, mode="setvars")
    assert versions(selection)["umf"] == "1.0"
    assert codes(selection) == ["oneapi-mixed-stack"]


def test_a_folder_whose_name_tells_its_version_is_preferred(place: Path) -> None:
    standin.build_root(place)
    standin.add_component(place, "compiler", "nightly")
    assert versions(choose(place))["compiler"] == "2025.1"
    standin.remove(place / "compiler" / "2025.1")
    assert versions(choose(place))["compiler"] == "nightly"


def test_a_purely_unified_installation_is_used_through_its_entry_script(place: Path) -> None:
    standin.build_unified(place, "2025.1")
    selection = choose(place)
    assert selection.mode == "unified"
    assert codes(selection) == ["oneapi-unified-layout"]


def test_pti_beside_a_unified_toolkit(place: Path) -> None:
    """The layout of gpu-dev 0.5: the toolkit's name is no version, and PTI is a component of its own."""
    standin.build_unified(place, "pytorch-gpu-dev-0.5", ["compiler", "mkl"], full_version="2024.1.4")
    standin.add_component(place, "pti", "0.9")
    selection = choose(place, ">=2024.1,<2024.2", ("compiler", "pti"), mode="unified")
    assert versions(selection) == {"compiler": "pytorch-gpu-dev-0.5", "pti": "0.9"}
    assert selection.findings == ()
    with pytest.raises(UnsatisfiableError):
        choose(place, V2025_1, ("compiler", "pti"), mode="unified")


def test_a_named_toolkit_is_the_one_used(place: Path) -> None:
    standin.build_root(place)
    standin.build_unified(place, "2025.1")
    standin.build_unified(place, "2025.0", full_version="2025.0.4")
    assert choose(place).mode == "components"
    chosen = choose(place / "2025.1")
    assert chosen.mode == "unified"
    assert {component.path.name for component in chosen.components} == {"2025.1"}
    with pytest.raises(UnsatisfiableError):
        choose(place / "2025.0")


def test_components_of_a_toolkit_are_not_compared_with_versions_they_do_not_tell(place: Path) -> None:
    standin.build_unified(place, "2025.1")
    assert "oneapi-mixed-stack" not in codes(choose(place, mode="unified"))


def test_a_recipe_must_name_components(place: Path) -> None:
    standin.build_root(place)
    with pytest.raises(RecipeError):
        choose(place, components=())


def test_a_broken_constraint_is_the_recipes_fault(place: Path) -> None:
    standin.build_root(place)
    with pytest.raises(RecipeError):
        choose(place, "2025.1 please")
