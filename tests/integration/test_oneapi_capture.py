"""Capturing from stand-in trees with the real bash: every trouble that environment scripts are known for."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from integration import oneapi_standin as standin

from xpubuild import resources
from xpubuild.errors import ToolchainError
from xpubuild.oneapi import envdiff
from xpubuild.oneapi.capture import Capture, Request, capture, clean_environment
from xpubuild.oneapi.selection import Mode

SCRIPT = resources.setvars_dir() / "capture.sh"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "one api é"


def scripts(place: Path, names: Iterable[str] = standin.NEEDED) -> tuple[Path, ...]:
    return tuple((place / name / "latest" / "env" / "vars.sh").resolve() for name in names)


def take(
    place: Path,
    files: tuple[Path, ...] | None = None,
    *,
    mode: Mode = "components",
    caller: dict[str, str] | None = None,
    arguments: tuple[str, ...] = (),
    deadline_s: float = 60.0,
) -> Capture:
    request = Request(
        root=place.resolve(),
        mode=mode,
        scripts=scripts(place) if files is None else files,
        environment=clean_environment({"HOME": "/root", "USER": "me", **(caller or {})}),
        arguments=arguments,
    )
    return capture(request, deadline_s=deadline_s)


def entry(place: Path) -> tuple[Path, ...]:
    return ((place / "setvars.sh").resolve(),)


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
        for name, version in (("mpi", "2021.15"), ("ccl", "2021.15"), ("umf", "0.10"), ("compiler", "2025.1"))
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
    assert "run already" in caught.value.why
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


@pytest.mark.parametrize(
    ("argument", "status", "why"),
    [
        ("--config=/nowhere/config.txt", 4, "missing or cannot be read"),
        ("--config={config}", 7, "default="),
        ("--help", 254, "help"),
        ("ia32", 255, "ia32"),
    ],
)
def test_statuses_of_setvars_that_leave_nothing(
    place: Path, tmp_path: Path, argument: str, status: int, why: str
) -> None:
    standin.build_root(place)
    config = standin.write(tmp_path / "config.txt", "default=latest\n")
    with pytest.raises(ToolchainError) as caught:
        take(place, entry(place), mode="setvars", arguments=(argument.format(config=config),))
    assert caught.value.exit_code == 40
    assert caught.value.evidence["status"] == status
    assert why in caught.value.why
    assert str(place.resolve() / "setvars.sh") in caught.value.what
    assert caught.value.fix


def test_status_250_is_a_warning(place: Path) -> None:
    standin.build_root(
        place, {**standin.BUNDLE_2025_1, "advisor": "2025.1"}, before={"advisor": standin.returns(1)}
    )
    captured = take(place, entry(place), mode="setvars")
    (warning,) = captured.warnings
    assert "250" in warning.message
    assert "reported a problem" in warning.message
    assert "CMPLR_ROOT" in captured.after


def test_a_component_scripts_own_status_is_a_warning(place: Path) -> None:
    """Many end with the status of their last test."""
    standin.build_root(place)
    standin.add_component(place, "pti", "0.12", after="[ -n '' ]")
    captured = take(place)
    assert [status.status for status in captured.statuses] == [0, 1, 0, 0, 0]
    assert [warning.code for warning in captured.warnings] == ["oneapi-script-status"]


def test_the_numbers_of_setvars_mean_nothing_in_a_component_script(place: Path) -> None:
    standin.build_root(place)
    standin.add_component(place, "pti", "0.12", after=standin.returns(3))
    assert [warning.evidence["status"] for warning in take(place).warnings] == [3]


def test_a_component_script_that_refuses(place: Path) -> None:
    standin.build_root(place, before={"umf": standin.returns(255)})
    with pytest.raises(ToolchainError) as caught:
        take(place)
    assert "umf" in caught.value.what
    assert "refused" in caught.value.why


def test_an_empty_installation_returns_0_and_sets_nothing(place: Path) -> None:
    """The status is taken for what it is; ``validate`` is what refuses this (test_oneapi_environment)."""
    place.mkdir()
    standin.add_setvars(place)
    captured = take(place, entry(place), mode="setvars")
    assert captured.statuses[0].status == 0
    assert captured.diff.names == {"ONEAPI_ROOT"}


def test_scripts_that_read_unset_variables_run_without_nounset(place: Path) -> None:
    standin.build_root(place)
    assert take(place, caller={"SHELLOPTS": "nounset"}).after["TCM_SEEN"] == ""


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


def test_a_script_that_stops_at_an_unset_variable(place: Path) -> None:
    standin.build_root(place, before={"umf": standin.NOUNSET})
    with pytest.raises(ToolchainError) as caught:
        take(place)
    assert caught.value.exit_code == 40
    assert str(scripts(place, ["umf"])[0]) in caught.value.what
    assert "STANDIN_NEVER_SET" in caught.value.what
    assert "set -u" in caught.value.why


@pytest.mark.parametrize("trouble", [standin.EXITS, standin.ERREXIT, "exec true", "kill -9 $$"])
def test_a_script_that_ends_the_shell(place: Path, trouble: str) -> None:
    standin.build_root(place, before={"ccl": trouble})
    with pytest.raises(ToolchainError) as caught:
        take(place)
    assert str(scripts(place, ["ccl"])[0]) in caught.value.what
    assert "ended the shell" in caught.value.what


def test_the_command_in_the_message_shows_where_a_script_ends(place: Path) -> None:
    standin.build_root(place, before={"ccl": standin.EXITS})
    with pytest.raises(ToolchainError) as caught:
        take(place)
    shown = subprocess.run(caught.value.commands[0], shell=True, capture_output=True, text=True, check=False)  # noqa: S602
    assert shown.returncode == 5
    assert shown.stderr.splitlines()[-1].endswith("+ exit 5")


def test_a_script_that_hangs(place: Path) -> None:
    standin.build_root(place, before={"mpi": standin.HANGS})
    with pytest.raises(ToolchainError) as caught:
        take(place, deadline_s=0.7)
    assert caught.value.exit_code == 40
    assert str(scripts(place, ["mpi"])[0]) in caught.value.what
    assert "did not end within 0.7 s" in caught.value.what


def test_a_script_that_asks_does_not_wait_for_an_answer(place: Path) -> None:
    standin.build_root(place, before={"compiler": 'read -r answer; export STANDIN_ANSWER="<$answer>"'})
    assert take(place).after["STANDIN_ANSWER"] == "<>"


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


# capture.sh by hand


def by_hand(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    environment = {"PATH": os.environ["PATH"], "HOME": "/root", **(env or {})}
    return subprocess.run(
        [str(SCRIPT), *arguments], capture_output=True, check=False, env=environment, input=b"typed\n"
    )


def test_by_hand_help() -> None:
    result = by_hand("--help")
    assert result.returncode == 0
    for word in (b"usage: capture.sh", b"--fd N", b"--file FILE", b"--argument ARG", b"--keep-environment"):
        assert word in result.stdout


def test_by_hand_starts_over_with_a_clean_environment(place: Path) -> None:
    standin.build_root(place, before={"compiler": standin.ARGUMENTS})
    result = by_hand(
        str(place / "compiler" / "latest" / "env" / "vars.sh"),
        env={"CPATH": "/old", "SETVARS_COMPLETED": "1", "SHELLOPTS": "nounset:errexit", "no_proxy": "a b"},
    )
    assert result.returncode == 0, result.stderr
    records = result.stdout.split(b"\0")
    assert records[0] == b"#xpubuild-capture 1"
    assert records[-2:] == [b"#complete", b""]
    assert b"no_proxy=a b" in records
    assert b"STANDIN_ARGUMENTS=0:" in records
    assert not [record for record in records if record.startswith((b"CPATH=/old", b"SETVARS_COMPLETED"))]


def test_by_hand_to_a_descriptor(place: Path, tmp_path: Path) -> None:
    standin.build_root(place, before={"compiler": standin.NOISE})
    target = tmp_path / "list"
    with target.open("wb") as stream:
        result = subprocess.run(
            [
                str(SCRIPT),
                "--fd",
                str(stream.fileno()),
                str(place / "compiler" / "2025.1" / "env" / "vars.sh"),
            ],
            capture_output=True,
            check=False,
            pass_fds=(stream.fileno(),),
        )
    assert result.returncode == 0, result.stderr
    assert result.stdout == b""
    assert target.read_bytes().endswith(b"#complete\0")


def test_by_hand_a_relative_script(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    standin.build_root(place)
    monkeypatch.chdir(place / "compiler" / "2025.1" / "env")
    records = by_hand("vars.sh").stdout.split(b"\0")
    assert b"#source " + os.fsencode(place / "compiler" / "2025.1" / "env" / "vars.sh") in records
    assert records[-2] == b"#complete"


def test_by_hand_the_scripts_do_not_read_what_is_typed(place: Path) -> None:
    script = standin.add_component(
        place, "compiler", "2025.1", before='read -r answer; export STANDIN_ANSWER="<$answer>"'
    )
    assert b"STANDIN_ANSWER=<>" in by_hand(str(script)).stdout.split(b"\0")


def test_by_hand_even_a_kept_environment_has_no_marker_of_an_earlier_run(place: Path) -> None:
    standin.build_root(place)
    result = by_hand(
        "--keep-environment",
        str(place / "setvars.sh"),
        env={"SETVARS_COMPLETED": "1", "SETVARS_ARGS": "--help"},
    )
    records = result.stdout.split(b"\0")
    assert b"#status 0" in records
    assert records[-2] == b"#complete"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), b"no script given"),
        (("/nowhere/vars.sh",), b"cannot read /nowhere/vars.sh"),
        (("--fd", "x", "/dev/null"), b"needs a number"),
        (("--fd", "77", "{script}"), b"descriptor 77 is not open"),
        (("--frobnicate",), b"unknown option"),
        (("--file",), b"needs a value"),
    ],
)
def test_by_hand_wrong_use(place: Path, arguments: tuple[str, ...], message: bytes) -> None:
    script = standin.add_component(place, "compiler", "2025.1")
    result = by_hand(*(argument.format(script=script) for argument in arguments))
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stdout == b""


def test_by_hand_a_script_that_exits_is_named(place: Path) -> None:
    script = standin.add_component(place, "compiler", "2025.1", before=standin.EXITS)
    result = by_hand(str(script))
    assert result.returncode == 5
    assert b"ended the shell; the list is not complete" in result.stderr
    assert not result.stdout.endswith(b"#complete\0")


@pytest.mark.needs("shellcheck")
@pytest.mark.parametrize("name", ["capture.sh", "activate.sh"])
def test_shell_scripts_are_clean(name: str) -> None:
    result = subprocess.run(
        ["shellcheck", str(resources.setvars_dir() / name)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout
