"""Components and their real versions, in both layouts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from integration import oneapi_standin as standin

from xpubuild.errors import UsageError
from xpubuild.machine.oneapi_components import Component, latest_drift, list_components
from xpubuild.machine.oneapi_report import installed
from xpubuild.machine.oneapi_roots import Root, find_roots


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "one api é"


def found(place: Path) -> Root:
    return find_roots(place, {})[0]


def listed(place: Path) -> list[tuple[str, str, bool]]:
    return [(item.name, item.version, item.is_latest) for item in list_components(found(place))]


def test_versions_are_those_behind_the_links(place: Path) -> None:
    standin.build_root(place)
    standin.add_component(place, "compiler", "2025.3", latest=False)
    standin.add_component(place, "compiler", "2024.10", latest=False)
    assert listed(place) == [
        ("ccl", "2021.15", True),
        ("compiler", "2025.3", False),
        ("compiler", "2025.1", True),
        ("compiler", "2024.10", False),
        ("mkl", "2025.1", True),
        ("mpi", "2021.15", True),
        ("pti", "0.12", True),
        ("umf", "0.10", True),
    ]


def test_a_component_has_its_real_paths(place: Path) -> None:
    standin.build_root(place, {"compiler": "2025.1"})
    real = place.resolve() / "compiler" / "2025.1"
    assert list_components(found(place)) == (
        Component("compiler", "2025.1", real, real / "env" / "vars.sh", "component", is_latest=True),
    )


def test_a_copy_without_links_has_no_known_version(place: Path) -> None:
    standin.add_component(place, "compiler", "latest", latest=False)
    assert listed(place) == [("compiler", "latest", True)]


def test_the_unified_layout(place: Path) -> None:
    standin.build_unified(place, "2025.1", ["compiler", "mkl"])
    components = list_components(found(place))
    assert {(item.name, item.version, item.layout) for item in components} == {
        ("compiler", "2025.1", "unified"),
        ("mkl", "2025.1", "unified"),
    }
    assert all(item.path == place.resolve() / "2025.1" for item in components)


def test_a_toolkit_of_links_tells_the_components_own_versions(place: Path) -> None:
    standin.build_unified(place, "2025.1", ["compiler"])
    behind = standin.write(place / "ccl" / "2021.15" / "etc" / "ccl" / "vars.sh", "")
    (place / "2025.1" / "etc" / "ccl").symlink_to(behind.parent)
    assert ("ccl", "2021.15", False) in listed(place)


def test_folders_without_scripts_are_no_components(place: Path) -> None:
    standin.build_root(place, {"compiler": "2025.1"})
    (place / "licensing" / "2025.1").mkdir(parents=True)
    (place / "logs").mkdir()
    assert [name for name, _, _ in listed(place)] == ["compiler"]


def test_latest_that_is_not_the_newest_is_recorded(place: Path) -> None:
    standin.build_root(place, {"compiler": "2025.1"})
    standin.add_component(place, "compiler", "2025.3", latest=False)
    root = found(place)
    (finding,) = latest_drift(root, list_components(root), ["compiler", "mkl"])
    assert finding.code == "oneapi-latest-not-newest"
    assert "2025.1" in finding.message
    assert "2025.3" in finding.message


def test_latest_that_leads_nowhere_is_recorded(place: Path) -> None:
    standin.build_root(place, {"compiler": "2025.1"})
    standin.point_latest(place, "compiler", "2024.0")
    root = found(place)
    (finding,) = latest_drift(root, list_components(root), ["compiler"])
    assert finding.code == "oneapi-latest-dangling"


def test_no_drift_no_finding(place: Path) -> None:
    standin.build_root(place)
    root = found(place)
    assert latest_drift(root, list_components(root), standin.NEEDED) == ()


def test_the_host_report_of_an_image_shows_the_images_paths(tmp_path: Path) -> None:
    image = tmp_path / "image"
    place = standin.build_root(image / "opt" / "intel" / "oneapi", {"compiler": "2025.1"})
    (place / "compiler" / "latest").unlink()
    (place / "compiler" / "latest").symlink_to("/opt/intel/oneapi/compiler/2025.1")
    assert installed(caller_env={"HOME": "/root"}, root_dir=image) == [
        {
            "root": "/opt/intel/oneapi",
            "origin": "the system's place",
            "layout": "component",
            "components": [
                {"name": "compiler", "version": "2025.1", "path": "/opt/intel/oneapi/compiler/2025.1"}
            ],
        }
    ]


@pytest.mark.needs("root")
def test_an_installation_that_may_not_be_searched_counts_as_none(tmp_path: Path) -> None:
    place = standin.build_root(tmp_path / "opt" / "intel" / "oneapi")
    place.chmod(0o700)
    tmp_path.chmod(0o755)
    try:
        os.seteuid(65534)
        assert installed(caller_env={"HOME": str(tmp_path)}, root_dir=tmp_path) == []
        with pytest.raises(UsageError, match="is not a oneAPI installation"):
            find_roots(place, {})
    finally:
        os.seteuid(0)


def test_the_host_report_never_raises(tmp_path: Path) -> None:
    assert installed(explicit_root=tmp_path / "missing", caller_env={}) == []
    assert installed(caller_env={"ONEAPI_ROOT": "/dev/null"}, root_dir=tmp_path) == []
    file = tmp_path / "opt" / "intel" / "oneapi"
    file.parent.mkdir(parents=True)
    file.touch()
    assert installed(caller_env={}, root_dir=tmp_path) == []
