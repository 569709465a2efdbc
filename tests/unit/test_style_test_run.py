"""The rules of tests/conftest.py, held against small test runs of their own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from support import needs

TESTS = Path(__file__).resolve().parent.parent
PYPROJECT = TESTS.parent / "pyproject.toml"

NEEDY = """
import pytest

@pytest.mark.needs("munged", "fish")
def test_needy():
    raise AssertionError("ran")
"""
SKIPPING = """
import pytest

def test_skips():
    pytest.skip("tired")
"""
SKIPPED_MODULE = 'import pytest\n\npytest.importorskip("there_is_no_such_module")\n'
LEAKING = """
import subprocess

def test_leaks(monkeypatch):
    # Only the temporary folder is left of the environment, as with xpubuild's own children.
    import os
    env = {"TMPDIR": os.environ["TMPDIR"]}
    subprocess.run(["sh", "-c", "setsid sleep 300 >&- 2>&- &"], env=env, check=True)
"""
CALLING_OUT = """
import socket

def test_calls_out():
    with socket.socket() as sock:
        sock.settimeout(1)
        sock.connect(("192.0.2.1", 80))

def test_calls_itself():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        pass
"""
AT_HOME = """
import os
from pathlib import Path

def test_at_home():
    home = Path.home()
    assert home.name == "home" and "xpubuild-tests-" in str(home)
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        assert Path(os.environ[name]).is_relative_to(home)
    assert "XPUBUILD_WORKSPACE" not in os.environ and "CI" not in os.environ
    assert (home / ".config/pip/pip.conf").read_text() == "[global]\\n"
    assert os.environ["PIP_CONFIG_FILE"] == str(home / ".config/pip/pip.conf")
"""

INTERRUPTING = """
import signal
import subprocess

def test_interrupts():
    with subprocess.Popen(["sleep", "300"]) as child:
        try:
            child.send_signal(signal.SIGINT)
            assert child.wait(10) == -signal.SIGINT
        finally:
            child.kill()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "tests of ünits"
    shutil.copytree(
        TESTS / "support", root / "tests" / "support", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(TESTS / "conftest.py", root / "tests")
    shutil.copy(PYPROJECT, root)
    return root


def run(
    project: Path, code: str, *options: str, before: Sequence[str] = (), **variables: str
) -> tuple[int, str]:
    (project / "tests" / "test_it.py").write_text(code, "utf-8")
    argv = [*before, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    env = {name: value for name, value in os.environ.items() if name != "PIP_CONFIG_FILE"} | variables
    # Runs of one user that end at the same time would take each other's link to the newest folder away.
    env["PYTEST_DEBUG_TEMPROOT"] = str(project.parent)
    result = subprocess.run(
        argv, cwd=project, env=env, capture_output=True, text=True, check=False, timeout=120
    )
    return result.returncode, result.stdout + result.stderr


@pytest.fixture
def without_tools(tmp_path: Path) -> dict[str, str]:
    """Return a PATH on which no distribution program is found, sbin apart (munged is looked for there)."""
    folder = tmp_path / "empty"
    folder.mkdir()
    return {"PATH": str(folder)}


def test_a_test_whose_tool_is_missing_is_named_and_not_run(
    project: Path, without_tools: dict[str, str]
) -> None:
    """The controller of xdist has it from its workers."""
    code, output = run(project, NEEDY + "\ndef test_other(): pass\n", "-n", "1", **without_tools)
    assert code == 0, output
    assert "not run here" in output
    assert "fish: 1 test (tests/test_it.py); install the package fish" in output
    assert "1 passed" in output
    assert "skipped" not in output


def test_in_ci_a_missing_tool_and_a_skip_are_errors(project: Path, without_tools: dict[str, str]) -> None:
    (project / "tests" / "test_module.py").write_text(SKIPPED_MODULE, "utf-8")
    code, output = run(
        project, NEEDY + SKIPPING, "--continue-on-collection-errors", CI="true", **without_tools
    )
    assert code == 1, output
    assert re.search(r"needs (munged|fish), which is not here: install the package", output)
    for where in ("test_it.py::test_skips", "tests/test_module.py"):
        assert re.search(rf"^(?:FAILED|ERROR) \S*{re.escape(where)}", output, re.MULTILINE), output
    assert output.count("which CI does not allow") >= 2


def test_a_process_left_behind_fails_the_run(project: Path) -> None:
    code, output = run(project, LEAKING, "-n", "1")
    assert code == 1, output
    found = re.search(r"^(\d+): sleep 300$", output, re.MULTILINE)
    assert found, output
    assert not Path("/proc", found[1]).exists() or "Z" in Path("/proc", found[1], "stat").read_text()


def test_tests_reach_this_machine_only_and_have_a_home_of_their_own(project: Path, tmp_path: Path) -> None:
    home = tmp_path / "user"
    (home / ".config" / "pip").mkdir(parents=True)
    (home / ".config" / "pip" / "pip.conf").write_text("[global]\n")
    variables = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"), "XPUBUILD_WORKSPACE": "/x"}
    code, output = run(project, CALLING_OUT + AT_HOME, **variables)
    assert code == 1
    assert "a test tried to reach 192.0.2.1" in output
    assert "1 failed, 2 passed" in output
    assert sorted(path.name for path in home.rglob("*") if path.is_file()) == ["pip.conf"]


def test_a_run_that_was_started_in_the_background_heeds_ctrl_c(project: Path) -> None:
    background = ("sh", "-c", """trap '' INT; exec "$0" "$@" """)
    code, output = run(project, INTERRUPTING, "-n", "1", before=background)
    assert code == 0, output


def test_every_tool_that_tests_name_is_known() -> None:
    assert needs.named_by_tests() <= needs.TOOLS.keys()
    assert all(tool.package or tool.hint for tool in needs.TOOLS.values())


def test_groups_stay_on_one_worker(project: Path) -> None:
    # Where pytest and xdist do not fit, each worker makes the same workspace once more, in silence.
    test = """\
import pytest

@pytest.fixture(scope='module')
def made(worker_id): return worker_id

@pytest.mark.xdist_group('one')
@pytest.mark.parametrize('n', range(6))
def test_group(n, worker_id): print('group', worker_id)

@pytest.mark.parametrize('n', range(6))
def test_fixture(n, made): print('fixture', made)
"""
    code, output = run(project, test, "-n", "2", "--dist", "loadgroup", "-rP")
    assert code == 0, output
    for what in ("group", "fixture"):
        assert len(set(re.findall(rf"^{what} (gw\d)$", output, re.MULTILINE))) == 1, output
