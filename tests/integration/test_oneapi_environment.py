"""From a recipe's needs to a proved environment, on stand-in installations with the real bash."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from integration.oneapi_environments import codes, get

from xpubuild.errors import ToolchainError, UnsatisfiableError, UsageError
from xpubuild.machine import envdiff
from xpubuild.machine.oneapi_environment import installed


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "one api é"


def test_components(place: Path) -> None:
    standin.build_root(place)
    environment = get(place)
    assert environment.root == place
    assert [(item.name, item.version) for item in environment.components] == list(
        standin.BUNDLE_2025_1.items()
    )
    assert environment.compiler_version == "2025.1.1"
    assert environment.warnings == ()
    applied = envdiff.apply(environment.diff, {"PATH": "/venv/bin:/usr/bin:/bin", "HOME": "/root"})
    assert applied["PATH"].split(":")[-3:] == ["/venv/bin", "/usr/bin", "/bin"]
    assert applied["CMPLR_ROOT"] == str(place.resolve() / "compiler" / "2025.1")
    assert applied["HOME"] == "/root"
    assert "ONEAPI_ROOT" not in applied


def test_what_goes_into_documents(place: Path) -> None:
    standin.build_root(place, {"compiler": "2025.1"})
    environment = get(place, components=("compiler",))
    assert [component.to_json() for component in environment.components] == [
        {"name": "compiler", "version": "2025.1", "path": str(place.resolve() / "compiler" / "2025.1")}
    ]
    assert envdiff.from_json(environment.diff.to_json()).digest() == environment.diff.digest()


def test_the_whole_setvars(place: Path) -> None:
    standin.build_root(place, {**standin.BUNDLE_2025_1, "advisor": "2025.1"})
    environment = get(place, mode="setvars")
    assert environment.mode == "setvars"
    assert environment.diff.set["ONEAPI_ROOT"] == str(place.resolve())
    assert (
        str(place.resolve() / "advisor" / "2025.1" / "lib")
        in environment.diff.paths["LD_LIBRARY_PATH"].prepend
    )


def test_setvars_that_is_missing(place: Path) -> None:
    standin.build_root(place)
    (place / "setvars.sh").unlink()
    with pytest.raises(ToolchainError) as caught:
        get(place, mode="setvars")
    assert caught.value.what == f"{place.resolve() / 'setvars.sh'} does not exist"


def test_the_unified_layout_with_pti_beside_it(place: Path) -> None:
    standin.build_unified(place, "pytorch-gpu-dev-0.5", ["compiler", "mkl"], full_version="2024.1.4")
    standin.add_component(place, "pti", "0.9")
    environment = get(place, ">=2024.1,<2024.2", ("compiler", "mkl", "pti"))
    assert environment.mode == "unified"
    assert environment.compiler_version == "2024.1.4"
    assert environment.diff.set["Pti_DIR"].startswith(str(place.resolve() / "pti" / "0.9"))
    assert codes(environment) == ["oneapi-unified-layout"]


def test_a_toolkit_made_of_links(place: Path) -> None:
    toolkit = standin.build_unified(place, "2025.1", ["compiler"])
    standin.add_compilers(place / "compiler" / "2025.1", "2025.1.1")
    for name in ("icx", "icpx"):
        (toolkit / "bin" / name).unlink()
        (toolkit / "bin" / name).symlink_to(f"../../compiler/2025.1/bin/{name}")
    assert get(place, components=("compiler",), mode="unified").compiler_version == "2025.1.1"


def test_found_in_the_usual_places(tmp_path: Path) -> None:
    place = standin.build_root(tmp_path / "intel" / "oneapi")
    environment = get(None, caller={"HOME": str(tmp_path)})
    assert environment.root == place


def test_several_installations_are_mentioned(tmp_path: Path) -> None:
    one = standin.build_root(tmp_path / "one")
    two = standin.build_root(tmp_path / "intel" / "oneapi")
    environment = get(None, caller={"HOME": str(tmp_path), "ONEAPI_ROOT": str(one)})
    assert environment.root == one
    (finding,) = environment.warnings
    assert finding.code == "oneapi-several-roots"
    assert str(two) in finding.message


def test_the_installation_that_fits_is_taken(tmp_path: Path) -> None:
    standin.build_root(tmp_path / "new", standin.BUNDLE_2025_3)
    fitting = standin.build_root(tmp_path / "intel" / "oneapi")
    environment = get(None, caller={"HOME": str(tmp_path), "ONEAPI_ROOT": str(tmp_path / "new")})
    assert environment.root == fitting


def test_none_that_fits_says_what_each_has(tmp_path: Path) -> None:
    standin.build_root(tmp_path / "empty", {"mkl": "2025.1"})
    standin.build_root(tmp_path / "intel" / "oneapi", standin.BUNDLE_2025_3)
    with pytest.raises(UnsatisfiableError) as caught:
        get(None, caller={"HOME": str(tmp_path), "ONEAPI_ROOT": str(tmp_path / "empty")})
    assert "2025.3" in caught.value.what
    assert "lacks" in caught.value.evidence["also_tried"][0]


def test_nothing_installed_stops_with_places_and_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"ID": "fedora"})
    with pytest.raises(ToolchainError) as caught:
        get(None, caller={"HOME": str(tmp_path), "ONEAPI_ROOT": str(tmp_path / "gone")})
    error = caught.value
    assert error.exit_code == 40
    for place in (str(tmp_path / "gone"), "/opt/intel/oneapi", str(tmp_path / "intel" / "oneapi")):
        assert place in error.why
    assert "intel-deep-learning-essentials-2025.1" in error.fix
    assert "--oneapi-root" in error.fix
    assert "--target cpu" in error.fix
    *before, install, matrix, doctor = error.commands
    assert any("repo" in line for line in before)
    assert install.startswith("sudo dnf install")
    assert install.endswith("intel-deep-learning-essentials-2025.1")
    assert (matrix, doctor) == (
        "xpubuild recipes matrix --here --target cpu", "xpubuild doctor --profile build",
    )  # fmt: skip


def test_a_wrong_explicit_root_is_a_usage_error(tmp_path: Path) -> None:
    standin.build_root(tmp_path / "intel" / "oneapi")
    with pytest.raises(UsageError):
        get(tmp_path / "wrong", caller={"HOME": str(tmp_path)})


def test_the_digest_follows_content(place: Path) -> None:
    standin.build_root(place)
    first = get(place).digest
    assert get(place).digest == first
    standin.add_component(place, "compiler", "2025.1", full_version="2025.1.3")
    second = get(place).digest
    assert second != first
    standin.add_component(place, "umf", "0.10", after="export UMF_NEW=1")
    assert get(place).digest not in (first, second)


def test_the_host_report(place: Path, tmp_path: Path) -> None:
    standin.build_root(place, {"compiler": "2025.1"})
    standin.build_unified(place, "2025.0", ["mkl", "compiler"])
    (report,) = installed(explicit_root=place, caller_env={})
    assert report["root"] == str(place.resolve())
    assert report["layout"] == "component+unified"
    assert [(item["name"], item["version"]) for item in report["components"]] == [
        ("compiler", "2025.1"),
        ("mkl", "2025.0"),
    ]
