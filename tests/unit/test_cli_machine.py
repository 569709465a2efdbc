"""What the machine refuses is an error with its exit code, and never called a bug of xpubuild."""

from __future__ import annotations

import os
import pty
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli import XPUBUILD, Xpubuild, child

from xpubuild.engine.system_errors import of_machine
from xpubuild.errors import XpuBuildError
from xpubuild.untrusted import UntrustedError, json_value, read_bytes

RESULTS = [
    ("plan", "quickstart"),
    ("plan", "quickstart", "--json"),
    ("plan", "quickstart", "--format", "sh"),
    ("recipes", "matrix"),
    ("explain", "--list"),
    ("--help",),
]


@pytest.mark.parametrize("command", RESULTS, ids=" ".join)
def test_a_result_that_has_no_room_is_no_space_and_no_bug(command: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*XPUBUILD, *command], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 52, done.stderr
    assert "No space left on device" in done.stderr
    assert "internal error" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("command", RESULTS, ids=" ".join)
def test_a_terminal_that_is_gone_changes_nothing(command: tuple[str, ...]) -> None:
    """As after a build over night whose ssh connection was cut: what was done is done."""
    master, terminal = pty.openpty()
    running = subprocess.Popen(
        [*XPUBUILD, *command], stdin=subprocess.DEVNULL, stdout=terminal, stderr=subprocess.PIPE, text=True
    )
    os.close(terminal)
    os.close(master)
    _, told = running.communicate(timeout=120)
    assert running.returncode == 0, told
    assert told == ""


def test_a_wrong_value_of_a_variable_names_the_variable() -> None:
    done = child("status", "--json", XPUBUILD_LOG_FORMAT="loud")
    assert done.status == 2
    assert done.document()["error"]["why"] == "the value is that of the variable XPUBUILD_LOG_FORMAT"
    assert "XPUBUILD_LOG_FORMAT" in done.err


def test_a_trace_of_git_that_the_caller_asked_for_is_not_written_by_plan(tmp_path: Path) -> None:
    assert child("plan", "quickstart", GIT_TRACE=str(tmp_path / "trace")).status == 0
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_the_users_git_configuration_is_said(tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").write_text("[user]\n\tname\x01 = x\n")
    done = child("plan", "quickstart", "--json", HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path / "none"))
    assert done.status == 40
    error = done.document()["error"]
    assert error["what"] == "git cannot read its configuration"
    assert ".gitconfig" in error["why"]
    assert error["commands"] == ["git config --list --show-origin"]


@pytest.mark.parametrize("words", [("recipes", "list"), ("status", "--workspace", "nowhere")], ids=" ".join)
def test_a_python_that_asks_for_commands_at_its_end_ends(words: tuple[str, ...], tmp_path: Path) -> None:
    """PYTHONINSPECT in a shell's profile: every end of xpubuild was called a bug, with exit code 1."""
    wanted = child(*words)
    done = child(*words, PYTHONINSPECT="1")
    assert (done.status, done.out, done.err) == (wanted.status, wanted.out, wanted.err)


def test_no_threads_to_be_had(tmp_path: Path) -> None:
    """Threads get a stack of the size that the limit names: no address space holds this one."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_STACK, (1 << 47, resource.getrlimit(resource.RLIMIT_STACK)[1]))

    if resource.getrlimit(resource.RLIMIT_STACK)[1] != resource.RLIM_INFINITY:
        pytest.skip("the hard limit of the stack is set")
    done = subprocess.run(
        [*XPUBUILD, "doctor"],
        preexec_fn=limit,
        capture_output=True, text=True, check=False, env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 40, done.stderr
    assert "no thread can be started" in done.stderr
    assert "ulimit -a" in done.stderr
    assert not list(tmp_path.glob("xpubuild-bug-*"))


@pytest.mark.parametrize("command", ["status", "verify", "env", "clean"])
def test_a_workspace_that_only_its_owner_may_enter(xpubuild: Xpubuild, tmp_path: Path, command: str) -> None:
    place = tmp_path / "theirs"
    place.mkdir()
    (place / "journal.db").touch()
    arguments = (command, "--workspace", str(place))
    xpubuild(*arguments)  # imports what it needs while everything may be read
    tmp_path.chmod(0o755)
    place.chmod(0o700 if os.geteuid() == 0 else 0)
    user = os.geteuid()
    try:
        if user == 0:
            os.seteuid(65534)
        result = xpubuild(*arguments)
    finally:
        os.seteuid(user)
        place.chmod(0o700)
    assert result.status == 40, result.err
    assert f"the workspace {place} cannot be entered" in result.err
    assert "belongs to" in result.err


RECIPE = "schema: 1\nname: mine\ntitle: x\ntarget: cpu\nextends: quickstart\n"
NUMBERS = [
    "{memory_gib_per_job: .inf}",
    "{memory_gib_per_job: -.inf}",
    "{memory_gib_per_job: .nan}",
    "{memory_gib_per_job: 1e300}",
    "{memory_gib_per_job: '1e999'}",
    f"{{env: {{X: {'9' * 5000}}}}}",
    f"{{env: {{X: 0x{'f' * 50000}}}}}",
    f"{{env: {{X: 1{':59' * 20000}}}}}",
    "{env: {X: 2020-13-45}}",
    "{env: {X: 1.0e+400}}",
]


@pytest.mark.parametrize("build", NUMBERS, ids=lambda text: text[:30])
@pytest.mark.parametrize("command", ["plan", "recipes check"])
def test_numbers_of_a_recipe_that_nothing_can_count_with(
    xpubuild: Xpubuild, tmp_path: Path, build: str, command: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"{RECIPE}components: {{ops: {{build: {build}}}}}\n")
    result = xpubuild(*command.split(), str(path))
    assert result.status == 20, result.err
    assert len(result.err) < 2000


@pytest.mark.parametrize(
    "text",
    ["NaN", "-Infinity", "1e999", "9" * 30, "9" * 5000, "[" * 100_000, '{"a": [1e400]}', "1" + "0" * 19],
)
def test_json_of_somebody_else_has_no_number_that_breaks_arithmetic(text: str) -> None:
    with pytest.raises(ValueError, match=r"number|nested|out of range"):
        json_value(text)


def test_a_file_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    with pytest.raises(UntrustedError, match="larger than 1 kiB"):
        read_bytes(Path("/dev/zero"), 1024)
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(UntrustedError, match="larger than"):
        read_bytes(sparse)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (OSError(28, "No space left on device", "/a b"), 52),
        (PermissionError(13, "Permission denied", "/a"), 40),
        (OSError(5, "Input/output error"), 40),
        (OSError(24, "Too many open files"), 40),
        (MemoryError(), 51),
        (RuntimeError("can't start new thread"), 40),
    ],
)
def test_every_failure_of_the_machine_says_what_to_do(error: BaseException, status: int) -> None:
    shown = of_machine(error)
    assert isinstance(shown, XpuBuildError)
    assert shown.exit_code == status
    assert shown.fix


@pytest.mark.parametrize(
    "error", [ValueError("x"), RuntimeError("x"), FileNotFoundError(2, "x", "/x"), OSError("x")]
)
def test_what_may_be_a_bug_stays_one(error: BaseException) -> None:
    assert of_machine(error) is None


def test_checks_go_on_when_nobody_watches_them() -> None:
    program = (
        "from types import SimpleNamespace as S; from xpubuild.ui.run_views import CheckPrinter\n"
        "one = S(status='pass', id='a', duration_s=0.1, detail='')\n"
        "printer = CheckPrinter(total=2); printer.emit(one); printer.emit(one); print('went on')"
    )
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", program], stderr=full, stdout=subprocess.PIPE, text=True, check=False
        )
    assert done.stdout == "went on\n"


@pytest.mark.parametrize("variable", ["HOME", "XPUBUILD_WORKSPACE"])
def test_a_place_with_bytes_that_are_no_utf8(tmp_path: Path, variable: str) -> None:
    env = {**os.environ, variable: os.fsdecode(os.fsencode(tmp_path) + b"/w\xff")}
    env.pop("XDG_DATA_HOME", None)
    found = subprocess.run(
        [*XPUBUILD, "plan", "quickstart"], env=env, capture_output=True, text=True, check=False, timeout=120
    )
    assert found.returncode == 2, found.stderr
    assert "no UTF-8" in found.stderr


def test_a_current_folder_that_was_removed(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'rmdir "{gone}"; exec "$@"'
    words = ["sh", "-c", script, "sh", *XPUBUILD, "plan", "quickstart"]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    found = subprocess.run(words, cwd=gone, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert found.returncode == 2, found.stderr
    assert "current folder" in found.stderr
