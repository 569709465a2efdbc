"""The table of bundles: well formed, and what it answers."""

from __future__ import annotations

from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import Version
from support.data_files import loaded

from xpubuild.machine import oneapi_bundles as bundles
from xpubuild.machine.oneapi_bundles import line_of, load_bundles

DOCUMENT = loaded(Path(bundles.__file__).with_name("oneapi_bundles.yaml"))


def test_every_source_is_explained_and_every_explanation_used() -> None:
    used = {source for row in DOCUMENT["bundles"] for source in row["sources"]}
    packages = [DOCUMENT["packages"]["bundle"], *filter(None, DOCUMENT["packages"]["components"].values())]
    used |= {source for entry in packages for source in entry["sources"]}
    assert used == set(DOCUMENT["sources"])


def test_every_row_names_the_same_components_with_versions_or_null() -> None:
    names = {frozenset(row["components"]) for row in DOCUMENT["bundles"]}
    assert len(names) == 1
    for row in DOCUMENT["bundles"]:
        for version in row["components"].values():
            assert version is None or Version(str(version))
        assert row["components"]["compiler"] is not None


def test_two_digit_minors_survived_yaml() -> None:
    """Unquoted, 0.10 would be read as the number 0.1."""
    assert load_bundles().expected_lines("2025.0", "pti") == {"0.10"}
    assert load_bundles().expected_lines("2025.1", "umf") == {"0.10"}


def test_one_compiler_line_may_have_been_shipped_with_two_versions() -> None:
    assert load_bundles().expected_lines("2025.3", "pti") == {"0.15", "0.16"}
    assert load_bundles().expected_lines("2025.3.1", "ccl") == {"2021.17"}


def test_what_is_not_known_expects_nothing() -> None:
    assert load_bundles().expected_lines("2031.0", "ccl") == frozenset()
    assert load_bundles().expected_lines("2025.1", "advisor") == frozenset()
    assert load_bundles().expected_lines("latest", "ccl") == frozenset()


def test_a_toolkit_without_a_version_in_its_name() -> None:
    assert load_bundles().toolkit_compiler("pytorch-gpu-dev-0.5") == "2024.1.4"
    assert load_bundles().expected_lines("pytorch-gpu-dev-0.5", "pti") == {"0.9"}


def test_the_package_for_a_constraint() -> None:
    table = load_bundles()
    assert table.package_for(SpecifierSet(">=2025.1,<2025.2")) == "intel-deep-learning-essentials-2025.1"
    assert table.package_for(SpecifierSet(">=2031")) == "intel-deep-learning-essentials"
    assert table.component_package("pti") == "intel-pti-dev"
    assert table.component_package("never-heard-of") is None


def test_the_line_of_a_version() -> None:
    assert line_of("2021.15.2") == "2021.15"
    assert line_of("1.0") == "1.0"
    assert line_of("latest") is None
