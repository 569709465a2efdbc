"""What a person reads in an error that few tests raise: every part of it."""

from __future__ import annotations

import errno
import shlex
import signal
from pathlib import Path

import pytest

from xpubuild.engine.child import become, resolve_executable
from xpubuild.engine.system_errors import of_machine
from xpubuild.errors import ToolchainError, UsageError
from xpubuild.supply.conda.solve import missing


def test_nothing_that_installs_conda_packages() -> None:
    error = missing("installed")
    assert error.what == "conda packages cannot be installed on this machine"
    assert error.why == "py-rattler is not installed in xpubuild's environment"
    assert "extra 'conda'" in error.fix
    (command,) = error.commands
    assert shlex.split(command)[1:4] == ["-m", "pip", "install"]
    assert "py-rattler" in command


@pytest.mark.parametrize("known", [True, False])
def test_a_full_disk_names_the_file_if_it_is_known(known: bool, tmp_path: Path) -> None:
    there = tmp_path / "a folder"
    there.mkdir()
    name = str(there / "not made" / "a file") if known else None
    error = of_machine(OSError(errno.ENOSPC, "No space left on device", name))
    assert error.what == f"no space left for {name or 'a file'}"
    assert error.why == "No space left on device"
    assert error.commands == ((f"df -h '{there}'",) if name else ("df -h",))


@pytest.mark.parametrize(
    ("name", "why", "fix"),
    [
        ("no-such-tool", "it is not on the PATH", "install no-such-tool, or put its folder on PATH"),
        ("here/tool", "there is no such file", "correct the path"),
    ],
)
def test_a_program_that_is_not_there(name: str, why: str, fix: str) -> None:
    with pytest.raises(ToolchainError) as caught:
        resolve_executable(name, {"PATH": "/nowhere"})
    assert why in caught.value.why
    assert caught.value.fix == fix
    assert caught.value.evidence == {"PATH": "/nowhere"}


def test_a_command_that_cannot_be_run_leaves_the_signals_as_they_were() -> None:
    before = signal.getsignal(signal.SIGPIPE), signal.getsignal(signal.SIGXFSZ)
    with pytest.raises(UsageError) as caught:
        become(["no-such-program"], {"PATH": "/nowhere"})
    assert caught.value.what == "'no-such-program' cannot be run"
    assert caught.value.why == "No such file or directory"
    assert (signal.getsignal(signal.SIGPIPE), signal.getsignal(signal.SIGXFSZ)) == before
