"""What scripts of oneAPI get, what is taken from them, and scripts that fail, hang or end the shell."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from integration.oneapi_environments import entry, scripts, take

from xpubuild import resources
from xpubuild.errors import ToolchainError


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "one api é"


def refused(place: Path, files: list[Path] | None = None, **more: float) -> ToolchainError:
    with pytest.raises(ToolchainError) as caught:
        take(place, files, **more)  # type: ignore[arg-type]
    return caught.value


def test_components_in_order(place: Path) -> None:
    standin.build_root(place)
    captured = take(place)
    real = place.resolve()
    assert captured.after["CMPLR_ROOT"] == str(real / "compiler" / "2025.1")
    assert captured.diff.paths["PATH"].prepend == (
        str(real / "mpi/2021.15/bin"),
        str(real / "compiler/2025.1/bin"),
    )
    assert captured.diff.paths["LD_LIBRARY_PATH"].prepend == tuple(
        str(real / name / "lib") for name in ("ccl/2021.15", "mpi/2021.15", "umf/0.10", "compiler/2025.1")
    )
    assert captured.warnings == ()


def test_nothing_of_the_callers_shell_reaches_the_scripts(place: Path, tmp_path: Path) -> None:
    """Search paths, the marker of an earlier run, handed-over arguments, start-up files, strict modes."""
    standin.build_root(
        place, before={"compiler": "export STANDIN_SEEN=\"$(env | cut -d= -f1 | sort | tr '\\n' ' ')\""}
    )
    startup = standin.write(tmp_path / "startup.sh", "export FROM_STARTUP=1\n")
    caller = {
        "PATH": "/somewhere/bin:/usr/bin:/bin",
        "LD_LIBRARY_PATH": "/old/oneapi/lib",
        "SETVARS_COMPLETED": "1",
        "SETVARS_ARGS": "--help",
        "BASH_ENV": str(startup),
        "ENV": str(startup),
        "SHELLOPTS": "braceexpand:errexit:hashall:nounset",
        "https_proxy": "http://user:hunter22@proxy.invalid:3128",
        "TERM": "dumb",
    }
    for files in (scripts(place), entry(place)):
        captured = take(place, files, caller=caller)
        seen = set(captured.after["STANDIN_SEEN"].split()) - {"SETVARS_CALL", "ONEAPI_ROOT"}
        assert seen <= {"HOME", "USER", "TERM", "PATH", "https_proxy", "PWD", "SHLVL", "_", "OLDPWD"} or (
            files == entry(place)
        )
        assert "/somewhere/bin" not in captured.after["PATH"]
        assert "/old/oneapi/lib" not in captured.after["LD_LIBRARY_PATH"]
        assert "https_proxy" not in captured.diff.names
        assert captured.warnings == ()
        assert not any(name.startswith("SETVARS") for name in captured.diff.names)


def test_each_script_meets_the_same_shell(place: Path) -> None:
    """umf's script reads TCM_ROOT without a default; the one before it has left strict modes on."""
    before = (
        "set -aeuo pipefail; OCL_ICD_FILENAMES= LIBRARY_PATH= LD_LIBRARY_PATH= MANPATH= NLSPATH= ; set -- ''"
    )
    standin.build_root(place, before={"compiler": before, "umf": "STANDIN_PRIVATE=1; export UMF_COUNT=$#"})
    after = take(place).after
    assert (after["TCM_SEEN"], after["UMF_COUNT"]) == ("", "0")
    assert "STANDIN_PRIVATE" not in after
    assert not [name for name in after if name.startswith("_xpubuild")]


def test_noise_is_kept_apart_from_the_environment_and_carries_no_secret(place: Path) -> None:
    fake = "printf '#complete\\0FAKE=1\\0'; echo; echo proxy is $https_proxy"
    standin.build_root(place, before={"compiler": f"{standin.NOISE}; {fake}"})
    captured = take(place, caller={"https_proxy": "http://user:hunter22@proxy.invalid:3128"})
    assert ":: and on standard error" in captured.output
    assert any("proxy.invalid" in line for line in captured.output)
    assert "hunter22" not in str(captured.output)
    assert "FAKE" not in captured.after
    assert "stand-in noise" not in str(captured.after.values())


def test_values_of_all_kinds(place: Path) -> None:
    lines = (standin.NEWLINES, standin.BYTES, standin.FUNCTION, "declare -x STANDIN_DECLARED=yes")
    standin.build_root(place, before={"compiler": "\n".join(lines)})
    found = take(place).diff
    assert found.set["STANDIN_TEXT"] == "first line\nsecond=line\n"
    assert os.fsencode(found.set["STANDIN_BYTES"]) == b"caf\xe9"
    assert found.set["STANDIN_DECLARED"] == "yes"
    assert not any("standin_function" in name for name in found.names)


def test_a_script_may_ruin_path_and_gets_no_answer(place: Path) -> None:
    standin.build_root(place, before={"compiler": 'read -r answer; export STANDIN_ANSWER="<$answer>"'})
    standin.add_component(place, "ccl", "2021.15", after="export PATH=/nowhere")
    after = take(place).after
    assert (after["PATH"], after["STANDIN_ANSWER"]) == ("/nowhere", "<>")


def test_the_unified_layout(place: Path) -> None:
    toolkit = standin.build_unified(place, "2025.1").resolve()
    assert take(place, [toolkit / "oneapi-vars.sh"]).after["CMPLR_ROOT"] == str(toolkit)
    error = refused(place, [toolkit / "etc" / "compiler" / "vars.sh"])
    assert error.evidence["status"] == 255
    assert any("oneapi-vars.sh" in line for line in error.evidence["output"])


@pytest.mark.parametrize(
    ("name", "status", "word"),
    [
        ("setvars.sh", 3, "already run"), ("setvars.sh", 4, "missing or cannot be read"),
        ("setvars.sh", 7, "default="), ("setvars.sh", 254, "help"), ("oneapi-vars.sh", 255, "ia32"),
        ("vars.sh", 255, "did not run"),
    ],
)  # fmt: skip
def test_statuses_that_leave_nothing(tmp_path: Path, name: str, status: int, word: str) -> None:
    script = standin.write(tmp_path / name, f"return {status}\n").resolve()
    error = refused(tmp_path, [script])
    assert error.what == f"{script} exited with code {status}"
    assert word in error.why
    assert error.fix


@pytest.mark.parametrize("trouble", [standin.EXITS, standin.ERREXIT])
def test_a_script_that_ends_the_shell(place: Path, trouble: str) -> None:
    standin.build_root(place, before={"ccl": trouble})
    error = refused(place)
    assert str(scripts(place, ["ccl"])[0]) in error.what
    assert "ended the shell" in error.what
    shown = subprocess.run(error.commands[0], shell=True, capture_output=True, text=True, check=False)  # noqa: S602
    assert shown.returncode
    assert shown.stderr.splitlines()[-1].split()[1] in trouble


def test_a_script_that_hangs(place: Path) -> None:
    standin.build_root(place, before={"mpi": standin.HANGS})
    error = refused(place, deadline_s=0.7)
    assert f"{scripts(place, ['mpi'])[0]} timed out after 0.7 s" in error.what


# ---- capture.sh as a person runs it, and the shell scripts under shellcheck


SCRIPT = resources.setvars_dir() / "capture.sh"


def by_hand(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    environment = {"PATH": os.environ["PATH"], "HOME": "/root", **(env or {})}
    return subprocess.run(
        [str(SCRIPT), *arguments], capture_output=True, check=False, env=environment, input=b"typed\n"
    )


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
