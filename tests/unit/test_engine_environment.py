"""The base environment: an allow-list, and a fixed language."""

from __future__ import annotations

from xpubuild.engine.execution import command_environment, executable_argv
from xpubuild.engine.model import XPUBUILD, Command


def test_a_command_lays_its_own_over_the_base() -> None:
    base = {"PATH": "/bin", "A": "base", "PYTHONNOUSERSITE": "1"}
    command = Command(
        argv=("ninja",), env={"A": "own"}, tuning={"MAX_JOBS": "3"}, path_prefix=("/w s/env/bin", "/opt/bin")
    )
    assert command_environment(command, base) == {
        "PATH": "/w s/env/bin:/opt/bin:/bin",
        "A": "own",
        "MAX_JOBS": "3",
        "PYTHONNOUSERSITE": "1",
    }
    assert base["A"] == "base"


def test_xpubuild_may_be_installed_for_a_user_alone() -> None:
    base = {"PATH": "/bin", "PYTHONNOUSERSITE": "1"}
    assert "PYTHONNOUSERSITE" not in command_environment(Command((XPUBUILD, "verify")), base)
    assert executable_argv((XPUBUILD, "a b"))[1:] == ("-m", "xpubuild", "a b")
    assert executable_argv(("ninja", XPUBUILD)) == ("ninja", XPUBUILD)
