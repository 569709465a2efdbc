"""Scripts of oneAPI that somebody else could have written are not sourced."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from integration.oneapi_environments import get

from xpubuild.errors import ToolchainError, UnsatisfiableError, UsageError
from xpubuild.machine import envdiff


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "one api é"


def test_a_script_that_its_group_can_write_is_refused(place: Path) -> None:
    standin.build_root(place)
    script = (place / "umf" / "0.10" / "env" / "vars.sh").resolve()
    script.chmod(0o664)
    with pytest.raises(ToolchainError) as caught:
        get(place)
    assert caught.value.exit_code == 40
    assert str(script) in caught.value.what
    assert "its group" in caught.value.what
    assert caught.value.commands == (f"chmod go-w '{script}'",)
    os.system(caught.value.commands[0])  # noqa: S605 - the fix works as printed
    assert get(place).compiler_version == "2025.1.1"


@pytest.mark.parametrize("folder", ["umf/0.10/env", "umf/0.10", "umf", "."])
def test_a_folder_above_a_script_that_everybody_can_write_is_refused(place: Path, folder: str) -> None:
    standin.build_root(place)
    (place / folder).chmod(0o757)
    with pytest.raises(ToolchainError) as caught:
        get(place)
    assert str((place / folder).resolve()) in caught.value.what
    assert "everybody" in caught.value.what


def test_a_folder_in_which_nobody_can_replace_others_entries_is_accepted(place: Path) -> None:
    standin.build_root(place)
    place.chmod(0o1777)
    assert get(place).compiler_version == "2025.1.1"


def test_what_setvars_would_source_is_looked_at_too(place: Path) -> None:
    standin.build_root(place, {**standin.BUNDLE_2025_1, "advisor": "2025.1"})
    (place / "advisor" / "2025.1" / "env" / "vars.sh").chmod(0o666)
    assert get(place).warnings == ()
    with pytest.raises(ToolchainError, match="advisor"):
        get(place, mode="setvars")


def test_what_a_toolkit_would_source_is_looked_at_too(place: Path) -> None:
    toolkit = standin.build_unified(place, "2025.1", [*standin.NEEDED, "advisor"])
    (toolkit / "etc" / "advisor" / "vars.sh").chmod(0o666)
    with pytest.raises(ToolchainError, match="advisor"):
        get(place, mode="unified")


@pytest.mark.needs("root")
def test_a_script_of_another_user_is_refused_until_that_user_is_named(place: Path) -> None:
    standin.build_root(place)
    script = (place / "umf" / "0.10" / "env" / "vars.sh").resolve()
    os.chown(script, 12345, 12345)
    with pytest.raises(ToolchainError) as caught:
        get(place)
    assert "belongs to 12345" in caught.value.what
    assert "XPUBUILD_TRUSTED_OWNERS" in caught.value.fix
    assert get(place, caller={"XPUBUILD_TRUSTED_OWNERS": "nobody, 12345"}).compiler_version == "2025.1.1"
    with pytest.raises(UsageError, match="no-such-account"):
        get(place, caller={"XPUBUILD_TRUSTED_OWNERS": "no-such-account"})


# ---- From a recipe's needs to a proved environment, on stand-in installations with the real bash


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


# ---- A captured environment that is not one whole installation is refused or told


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
