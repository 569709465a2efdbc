"""Which of several installed versions a recipe gets, and what is reported when none fits."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from integration import oneapi_standin as standin
from packaging.specifiers import SpecifierSet

from xpubuild.errors import ToolchainError, UnsatisfiableError
from xpubuild.machine import oneapi_bundles as bundles
from xpubuild.machine.oneapi_installed import find_installations
from xpubuild.machine.oneapi_select import Mode, OneapiNeeds, Selection, select
from xpubuild.machine.system import OsFacts
from xpubuild.machine.versions import fits

V2025_1 = ">=2025.1,<2025.2"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "oneapi"


def choose(
    place: Path,
    versions: str = V2025_1,
    components: tuple[str, ...] = standin.NEEDED,
    mode: Mode = "components",
    **more: tuple[str, ...],
) -> Selection:
    return select(find_installations(place, {})[0], OneapiNeeds(versions, components, **more), mode)


def versions(selection: Selection) -> dict[str, str]:
    return {component.name: component.version for component in selection.components}


def test_of_two_bundles_the_one_that_fits_is_taken_whole_in_the_recipes_order(place: Path) -> None:
    standin.build_root(place)
    for name, version in standin.BUNDLE_2025_3.items():
        standin.add_component(place, name, version)
    assert versions(choose(place)) == standin.BUNDLE_2025_1
    assert versions(choose(place, ">=2025.3")) == standin.BUNDLE_2025_3
    selection = choose(place, components=("umf", "compiler", "pti"))
    assert [component.name for component in selection.components] == ["umf", "compiler", "pti"]
    assert (selection.warnings, selection.mode) == ((), "components")


def test_latest_wins_among_versions_that_fit(place: Path) -> None:
    standin.build_root(place)
    standin.add_component(place, "compiler", "2025.3", latest=False)
    assert versions(choose(place, ">=2025.1", ("compiler",))) == {"compiler": "2025.1"}
    standin.point_latest(place, "compiler", "2025.3")
    assert versions(choose(place, ">=2025.1", ("compiler",))) == {"compiler": "2025.3"}


def test_a_mixed_stack_is_a_warning_that_says_what_belongs_together(place: Path) -> None:
    standin.build_root(place, {**standin.BUNDLE_2025_3, "ccl": "2021.15"})
    (warning,) = choose(place, ">=2025.3").warnings
    assert "compiler 2025.3 is used with ccl 2021.15, expected 2021.17" in warning
    assert "belongs to Intel Deep Learning Essentials 2025.1.3" in warning


def test_a_wrong_compiler_is_unsatisfiable_and_names_what_is_there(place: Path) -> None:
    standin.build_root(place, standin.BUNDLE_2025_3)
    with pytest.raises(UnsatisfiableError) as caught:
        choose(place)
    assert "2025.3" in caught.value.what
    assert V2025_1 in caught.value.what
    assert "intel-deep-learning-essentials-2025.1" in caught.value.fix
    assert "sudo apt-get install -y intel-deep-learning-essentials-2025.1" in caught.value.commands


def test_missing_components_are_all_named_with_their_packages(place: Path) -> None:
    standin.build_root(place, {"mkl": "2025.1"})
    with pytest.raises(ToolchainError) as caught:
        choose(place, components=("compiler", "pti", "ccl"))
    assert "lacks compiler, pti, ccl" in caught.value.what
    assert "intel-pti-dev" in caught.value.fix
    assert "intel-oneapi-ccl-devel" in caught.value.fix
    assert "pti/VERSION/env/vars.sh" in caught.value.why


def test_setvars_can_use_only_what_latest_leads_to(place: Path) -> None:
    standin.build_root(place)
    standin.add_component(place, "umf", "1.0")
    assert versions(choose(place))["umf"] == "0.10"
    selection = choose(place, mode="setvars")
    assert versions(selection)["umf"] == "1.0"
    assert len(selection.warnings) == 1
    standin.add_component(place, "compiler", "2025.3")
    with pytest.raises(UnsatisfiableError) as caught:
        choose(place, mode="setvars")
    assert "latest" in caught.value.why


def test_a_folder_whose_name_tells_its_version_is_preferred(place: Path) -> None:
    standin.build_root(place)
    standin.add_component(place, "compiler", "nightly")
    assert versions(choose(place))["compiler"] == "2025.1"
    standin.remove(place / "compiler" / "2025.1")
    assert versions(choose(place))["compiler"] == "nightly"


def test_a_unified_installation_is_used_through_its_entry_script(place: Path) -> None:
    standin.build_unified(place, "2025.1")
    selection = choose(place)
    assert selection.mode == "unified"
    assert ["oneapi-vars.sh" in text for text in selection.warnings] == [True]
    assert choose(place, mode="unified").warnings == ()


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


@pytest.mark.parametrize(
    ("latest", "other", "taken"),
    [
        ("2025.3", "2025.1", "2025.1"),
        ("2025.3", None, None),
        (None, None, None),
        (None, "2025.1", "2025.1"),
        ("odd", None, "odd"),
        ("odd", "2025.1", "2025.1"),
    ],
)
def test_what_lies_beside_the_compiler_is_of_its_bundle(
    place: Path, latest: str | None, other: str | None, taken: str | None
) -> None:
    standin.build_root(place, {"compiler": "2025.1"})
    for version in filter(None, (other, latest)):
        standin.add_component(place, "mkl", version, latest=version == latest)
    if taken is None:
        with pytest.raises(ToolchainError, match="mkl"):
            choose(place, components=("compiler",), beside_compiler=("mkl",))
        return
    (found,) = choose(place, components=("compiler",), beside_compiler=("mkl",)).beside
    assert found.version == taken
    if latest == "2025.3":
        with pytest.raises(ToolchainError) as caught:
            choose(place, components=("compiler",), mode="setvars", beside_compiler=("mkl",))
        assert "setvars.sh takes 'latest'" in caught.value.why


def test_optional_components_come_last_where_they_are_there(place: Path) -> None:
    standin.build_root(place, {"compiler": "2025.1", "umf": "0.10", "mpi": "2021.15"})
    selection = choose(place, components=("umf", "compiler"), optional=("pti", "mpi"))
    assert [*versions(selection)] == ["umf", "compiler", "mpi"]


@given(
    st.integers(0, 4),
    st.integers(0, 6),
    st.sampled_from([">=", "<=", ">", "<", "==", "!=", "~="]),
    st.integers(0, 6),
)
def test_a_folder_is_possible_exactly_when_one_of_its_patches_is(
    minor: int, bound: int, operator: str, micro: int
) -> None:
    wanted = f"{operator}2025.{minor}.{micro}"
    patches = any(SpecifierSet(wanted).contains(f"2025.{bound}.{patch}") for patch in range(30))
    assert (fits(f"2025.{bound}", wanted) != "no") is patches


PACKAGE = "intel-deep-learning-essentials-2025.1"
APT, DNF, ZYPPER = (f"sudo {line} install -y {PACKAGE}" for line in ("apt-get", "dnf", "zypper"))


@pytest.mark.parametrize(
    ("release", "commands", "repository"),
    [
        ({"ID": "newer", "ID_LIKE": "other Debian"}, (APT,), "Intel's APT repository"),
        ({"ID": "rocky", "ID_LIKE": "rhel centos fedora"}, (DNF,), "Intel's DNF repository"),
        ({"ID": "opensuse-leap", "ID_LIKE": "suse opensuse"}, (ZYPPER,), "Intel's Zypper repository"),
        ({"ID": "nixos"}, (APT, DNF, ZYPPER), "Intel's APT, DNF or Zypper repository"),
    ],
)
def test_a_host_without_oneapi_is_shown_how_to_get_it(
    release: dict[str, str], commands: tuple[str, ...], repository: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = OsFacts(release["ID"], tuple(release.get("ID_LIKE", "").split()))
    monkeypatch.setattr(bundles, "os_facts", lambda: facts)
    monkeypatch.setattr("xpubuild.machine.system.REPOSITORY_LISTS", ())
    error = bundles.nothing_found([(Path("/opt/intel/oneapi"), "the system's place")], V2025_1)
    *install, matrix, doctor = error.commands
    assert tuple(install[-len(commands) :]) == commands
    added = [line for line in install if "repos.intel.com/oneapi" in line]
    assert len(added) == (1 if len(commands) == 1 else 0), "how to add the repository"
    assert matrix == "xpubuild recipes matrix --here --target cpu"
    assert doctor == "xpubuild doctor --profile build"
    assert repository in error.fix
    assert "--target cpu" in error.fix
    assert "/opt/intel/oneapi (the system's place)" in error.why
