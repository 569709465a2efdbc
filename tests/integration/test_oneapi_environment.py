"""From a recipe's needs to a proved environment, on stand-in installations with the real bash."""

from __future__ import annotations

from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from integration.oneapi_environments import get

from xpubuild.errors import UnsatisfiableError
from xpubuild.machine import envdiff


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


def test_the_whole_setvars(place: Path) -> None:
    standin.build_root(place, {**standin.BUNDLE_2025_1, "advisor": "2025.1"})
    environment = get(place, mode="setvars")
    assert environment.mode == "setvars"
    assert environment.diff.set["ONEAPI_ROOT"] == str(place.resolve())
    assert (
        str(place.resolve() / "advisor" / "2025.1" / "lib")
        in environment.diff.paths["LD_LIBRARY_PATH"].prepend
    )


def test_a_toolkit_made_of_links(place: Path) -> None:
    toolkit = standin.build_unified(place, "2025.1", ["compiler"])
    standin.add_compilers(place / "compiler" / "2025.1", "2025.1.1")
    for name in ("icx", "icpx"):
        (toolkit / "bin" / name).unlink()
        (toolkit / "bin" / name).symlink_to(f"../../compiler/2025.1/bin/{name}")
    assert get(place, components=("compiler",), mode="unified").compiler_version == "2025.1.1"


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


def test_the_digest_follows_content(place: Path) -> None:
    standin.build_root(place)
    first = get(place).digest
    assert get(place).digest == first
    standin.add_component(place, "compiler", "2025.1", full_version="2025.1.3")
    second = get(place).digest
    assert second != first
    standin.add_component(place, "umf", "0.10", after="export UMF_NEW=1")
    assert get(place).digest not in (first, second)
