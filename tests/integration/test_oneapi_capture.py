"""What scripts of oneAPI get and what is taken from them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from integration.oneapi_captures import entry, scripts, take

from xpubuild.errors import ToolchainError
from xpubuild.machine import envdiff


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "one api é"


def test_components_in_order(place: Path) -> None:
    standin.build_root(place)
    captured = take(place)
    assert captured.after["CMPLR_ROOT"] == str(place.resolve() / "compiler" / "2025.1")
    assert captured.diff.paths["PATH"].prepend == (
        str(place.resolve() / "mpi" / "2021.15" / "bin"),
        str(place.resolve() / "compiler" / "2025.1" / "bin"),
    )
    assert captured.diff.paths["LD_LIBRARY_PATH"].prepend == tuple(
        str(place.resolve() / name / version / "lib")
        for name, version in (("ccl", "2021.15"), ("mpi", "2021.15"), ("umf", "0.10"), ("compiler", "2025.1"))
    )
    assert [status.status for status in captured.statuses] == [0, 0, 0, 0, 0]
    assert captured.warnings == ()
    assert envdiff.normalise(envdiff.apply(captured.diff, captured.before)) == envdiff.normalise(
        captured.after
    )


def test_nothing_of_the_callers_shell_reaches_the_scripts(place: Path, tmp_path: Path) -> None:
    """Search paths, the marker of an earlier run, handed-over arguments, start-up files, strict modes."""
    standin.build_root(
        place, before={"compiler": "export STANDIN_SEEN=\"$(env | cut -d= -f1 | sort | tr '\\n' ' ')\""}
    )
    startup = standin.write(tmp_path / "startup.sh", "export FROM_STARTUP=1\n")
    caller = {
        "PATH": "/somewhere/bin:/usr/bin:/bin",
        "LD_LIBRARY_PATH": "/old/oneapi/lib",
        "CPATH": "/old/include",
        "SETVARS_COMPLETED": "1",
        "SETVARS_ARGS": "--help",
        "BASH_ENV": str(startup),
        "ENV": str(startup),
        "SHELLOPTS": "braceexpand:errexit:hashall:nounset",
        "https_proxy": "http://user:hunter22@proxy.invalid:3128",
        "TERM": "dumb",
    }
    captured = take(place, caller=caller)
    seen = set(captured.after["STANDIN_SEEN"].split())
    assert seen <= {"HOME", "USER", "TERM", "PATH", "https_proxy", "PWD", "SHLVL", "_", "OLDPWD"}
    assert "/somewhere/bin" not in captured.after["PATH"]
    assert "/old/oneapi/lib" not in captured.after["LD_LIBRARY_PATH"]
    assert "https_proxy" not in captured.diff.names


def test_setvars_runs_although_the_callers_shell_has_run_it(place: Path) -> None:
    standin.build_root(place)
    captured = take(place, entry(place), mode="setvars", caller={"SETVARS_COMPLETED": "1"})
    assert captured.statuses[0].status == 0
    assert "CMPLR_ROOT" in captured.after
    assert not any(name.startswith("SETVARS") for name in captured.diff.names)


def test_setvars_that_has_run_already_is_not_retried_but_explained(place: Path) -> None:
    """Status 3: something in the installation sets the marker; another run would return 3 again."""
    standin.build_root(place)
    standin.add_setvars(place, before="SETVARS_COMPLETED=1")
    with pytest.raises(ToolchainError) as caught:
        take(place, entry(place), mode="setvars")
    assert caught.value.evidence["status"] == 3
    assert "already run" in caught.value.why
    assert "SETVARS_COMPLETED" in caught.value.fix


def test_scripts_do_not_see_the_capturing_scripts_arguments(place: Path) -> None:
    standin.build_root(place, before={"compiler": standin.ARGUMENTS, "umf": "export UMF_COUNT=$#"})
    captured = take(place)
    assert captured.after["STANDIN_ARGUMENTS"] == "0:"
    assert captured.after["UMF_COUNT"] == "0"


def test_arguments_are_for_the_first_script_alone(place: Path) -> None:
    standin.build_root(place, before={"pti": "export PTI_COUNT=$#"})
    first, second = scripts(place, ("compiler", "pti"))
    captured = take(place, (first, second), arguments=("--include-intel-llvm",))
    assert captured.diff.paths["PATH"].prepend[0].endswith("/bin/compiler")
    assert captured.after["PTI_COUNT"] == "0"


def test_one_scripts_strict_modes_do_not_reach_the_next(place: Path) -> None:
    """umf's script reads TCM_ROOT without a default; the one before it has left nounset and errexit on."""
    standin.build_root(
        place,
        before={
            "compiler": "set -euo pipefail; OCL_ICD_FILENAMES= LIBRARY_PATH= ; "
            "LD_LIBRARY_PATH= ; MANPATH= ; NLSPATH= ; set --  ''"
        },
    )
    assert take(place).statuses[-1].status == 0


def test_noise_is_kept_apart_from_the_environment(place: Path) -> None:
    standin.build_root(place, before={"compiler": standin.NOISE})
    captured = take(place)
    assert ":: stand-in noise on standard output" in captured.noise
    assert ":: and on standard error" in captured.noise
    assert not [value for value in captured.after.values() if "stand-in noise" in value]


def test_noise_in_the_form_of_records_is_only_noise(place: Path) -> None:
    standin.build_root(place, before={"compiler": "printf '#complete\\0FAKE=1\\0'"})
    assert "FAKE" not in take(place).after


def test_noise_does_not_carry_secrets(place: Path) -> None:
    standin.build_root(place, before={"compiler": "echo proxy is $https_proxy"})
    captured = take(place, caller={"https_proxy": "http://user:hunter22@proxy.invalid:3128"})
    assert not any("hunter22" in line for line in captured.noise)
    assert any("proxy.invalid" in line for line in captured.noise)


def test_values_with_newlines(place: Path) -> None:
    standin.build_root(place, before={"compiler": standin.NEWLINES})
    assert take(place).diff.set["STANDIN_TEXT"] == "first line\nsecond=line\n"


def test_values_that_are_not_text(place: Path) -> None:
    standin.build_root(place, before={"compiler": standin.BYTES})
    assert os.fsencode(take(place).diff.set["STANDIN_BYTES"]) == b"caf\xe9"


def test_exported_functions_are_dropped(place: Path) -> None:
    standin.build_root(place, before={"compiler": standin.FUNCTION})
    captured = take(place)
    assert any(name.startswith("BASH_FUNC_") for name in captured.after)
    assert not any("standin_function" in name for name in captured.diff.names)


def test_the_capturing_scripts_own_variables_never_leak(place: Path) -> None:
    standin.build_root(place, before={"compiler": standin.ALLEXPORT + "; STANDIN_ALL=1"})
    captured = take(place)
    assert not [name for name in captured.after if name.startswith("_xpubuild")]
    assert captured.diff.set["STANDIN_ALL"] == "1"


def test_one_scripts_allexport_does_not_reach_the_next(place: Path) -> None:
    standin.build_root(place, before={"compiler": standin.ALLEXPORT, "umf": "STANDIN_PRIVATE=1"})
    assert "STANDIN_PRIVATE" not in take(place).after


def test_a_script_may_ruin_path(place: Path) -> None:
    standin.build_root(place, {"compiler": "2025.1"})
    standin.add_component(place, "compiler", "2025.1", after="export PATH=/nowhere")
    captured = take(place, scripts(place, ["compiler"]))
    assert captured.after["PATH"] == "/nowhere"


def test_declared_variables_are_not_lost(place: Path) -> None:
    """Sourced inside a function, `declare -x` would stay local to it."""
    standin.build_root(place, before={"compiler": "declare -x STANDIN_DECLARED=yes"})
    assert take(place).after["STANDIN_DECLARED"] == "yes"


def test_the_unified_layout(place: Path) -> None:
    toolkit = standin.build_unified(place, "2025.1")
    captured = take(place, ((toolkit / "oneapi-vars.sh").resolve(),), mode="unified")
    assert captured.after["CMPLR_ROOT"] == str(toolkit.resolve())
    assert captured.statuses[0].entry


def test_a_component_script_of_the_unified_layout_refuses_to_run_alone(place: Path) -> None:
    toolkit = standin.build_unified(place, "2025.1")
    with pytest.raises(ToolchainError) as caught:
        take(place, ((toolkit / "etc" / "compiler" / "vars.sh").resolve(),))
    assert caught.value.evidence["status"] == 255
    assert any("oneapi-vars.sh" in line for line in caught.value.evidence["output"])
