"""A captured environment that is not one whole installation is refused or told."""

from __future__ import annotations

from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from integration.oneapi_environments import get

from xpubuild.errors import ToolchainError, UnsatisfiableError


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "one api é"


def test_two_installations_in_one_environment_by_a_script(tmp_path: Path, place: Path) -> None:
    other = standin.build_root(tmp_path / "other")
    standin.build_root(place)
    standin.add_component(
        place, "mpi", "2021.15", after=f'export LD_LIBRARY_PATH="{other}/ccl/latest/lib:$LD_LIBRARY_PATH"'
    )
    (other / "ccl" / "2021.15" / "lib").mkdir()
    with pytest.raises(ToolchainError) as caught:
        get(place)
    assert caught.value.exit_code == 40
    assert "two oneAPI installations are mixed" in caught.value.what
    assert str(other.resolve()) in caught.value.what
    assert "LD_LIBRARY_PATH" in caught.value.why


def test_two_installations_in_one_environment_by_a_link(tmp_path: Path, place: Path) -> None:
    other = standin.build_root(tmp_path / "other")
    standin.build_root(place)
    standin.remove(place / "ccl" / "2021.15")
    (place / "ccl" / "2021.15").symlink_to(other / "ccl" / "2021.15")
    with pytest.raises(ToolchainError, match="two oneAPI installations"):
        get(place)


def test_drift_inside_one_environment(place: Path) -> None:
    """umf's script reaches for another compiler than the chosen one."""
    standin.build_root(place)
    standin.add_component(place, "compiler", "2025.3")
    standin.write(place / "compiler" / "2025.3" / "lib" / "libsycl.so.8", "")
    standin.add_component(
        place, "umf", "0.10", after=f'export LD_LIBRARY_PATH="{place}/compiler/latest/lib:$LD_LIBRARY_PATH"'
    )
    with pytest.raises(ToolchainError) as caught:
        get(place)
    assert "mixes compiler 2025.1 and 2025.3" in caught.value.what


def test_scripts_that_set_nothing(place: Path) -> None:
    """Every script ends with 0 and the installation is half removed."""
    standin.build_root(place)
    standin.add_component(place, "compiler", "2025.1", body=":")
    for mode in ("components", "setvars"):
        with pytest.raises(ToolchainError) as caught:
            get(place, mode=mode)
        assert caught.value.exit_code == 40
        assert "did not set up the compiler" in caught.value.what
        assert "CMPLR_ROOT is not set" in caught.value.why


def test_a_compiler_root_that_is_gone(place: Path) -> None:
    standin.build_root(place, {"compiler": "2025.1"})
    standin.add_component(place, "compiler", "2025.1", after="export CMPLR_ROOT=/nowhere")
    with pytest.raises(ToolchainError) as caught:
        get(place, components=("compiler",))
    assert "/nowhere" in caught.value.why


def test_a_script_of_another_version(place: Path) -> None:
    standin.build_root(place, {"compiler": "2025.1"})
    (place / "compiler" / "elsewhere").mkdir()
    standin.add_component(place, "compiler", "2025.1", after='export CMPLR_ROOT="$here/../elsewhere"')
    with pytest.raises(ToolchainError, match="set CMPLR_ROOT to"):
        get(place, components=("compiler",))


def test_the_compiler_is_asked_for_its_patch_release(place: Path) -> None:
    standin.build_root(place)
    standin.add_component(place, "compiler", "2025.1", full_version="2025.1.0")
    with pytest.raises(UnsatisfiableError) as caught:
        get(place, ">=2025.1.1,<2025.2")
    assert caught.value.exit_code == 22
    assert "is 2025.1.0, but the recipe needs >=2025.1.1,<2025.2" in caught.value.what
    assert get(place, ">=2025.1.0,<2025.2").compiler_version == "2025.1.0"


def test_a_compiler_that_is_missing(place: Path) -> None:
    standin.build_root(place)
    (place / "compiler" / "2025.1" / "bin" / "icpx").unlink()
    with pytest.raises(ToolchainError) as caught:
        get(place)
    assert "icpx" in caught.value.what
    assert "not on PATH" in caught.value.why


def test_a_compiler_of_something_else_comes_first(tmp_path: Path, place: Path) -> None:
    standin.add_compilers(tmp_path / "strange", "2025.1.1")
    standin.build_root(place)
    standin.add_component(place, "mpi", "2021.15", after=f'export PATH="{tmp_path}/strange/bin:$PATH"')
    with pytest.raises(ToolchainError) as caught:
        get(place)
    assert str(tmp_path / "strange" / "bin" / "icx") in caught.value.why


@pytest.mark.parametrize(
    "program",
    [
        "#!/bin/sh\necho cannot open shared object file: libimf.so >&2; exit 127\n",
        "#!/bin/sh\necho clang 19\n",
    ],
)
def test_a_compiler_that_does_not_run(place: Path, program: str) -> None:
    standin.build_root(place)
    standin.write(place / "compiler" / "2025.1" / "bin" / "icx", program, mode=0o755)
    with pytest.raises(ToolchainError) as caught:
        get(place)
    assert "did not state a version" in caught.value.what
    assert "libimf.so" in caught.value.why or "clang 19" in caught.value.why
