"""The base environment: an allow-list, and a fixed language."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xpubuild.engine.environment import base_environment
from xpubuild.engine.execution import command_environment, executable_argv
from xpubuild.engine.model import XPUBUILD, Command

FIXED = {"LC_ALL": "C.UTF-8", "PYTHONUNBUFFERED": "1", "PYTHONNOUSERSITE": "1"}


@pytest.mark.parametrize(
    "name",
    [
        "CPATH", "CFLAGS", "CXXFLAGS", "LDFLAGS", "LD_LIBRARY_PATH", "LD_PRELOAD", "LIBRARY_PATH",
        "PYTHONPATH", "PYTHONHOME", "CMAKE_PREFIX_PATH", "MAKEFLAGS", "USE_CUDA", "USE_XPU", "GIT_DIR",
        "GIT_SSH_COMMAND", "BASH_ENV", "PIP_TARGET", "PIP_USER", "PIP_PREFIX", "PIP_ROOT", "ONEAPI_ROOT",
        "CMPLR_ROOT", "VIRTUAL_ENV", "GITHUB_TOKEN",
    ],
)  # fmt: skip
def test_what_would_change_a_build_stays_out(name: str) -> None:
    assert base_environment({name: "x", "PATH": "/bin"}) == {**FIXED, "PATH": "/bin"}


@pytest.mark.parametrize(
    "name",
    [
        "HOME", "TMPDIR", "HTTPS_PROXY", "no_proxy", "SSL_CERT_FILE", "PIP_CONFIG_FILE", "XDG_CACHE_HOME",
        "ZE_AFFINITY_MASK",
    ],
)  # fmt: skip
def test_what_the_machine_needs_comes_in(name: str) -> None:
    assert base_environment({name: "x y \u00fc", "PATH": "/bin"})[name] == "x y \u00fc"


@settings(deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=8), max_size=6))
def test_the_language_is_fixed_and_there_is_always_a_path(caller: dict[str, str]) -> None:
    made = base_environment(caller)
    assert FIXED.items() <= made.items()
    assert made["PATH"]


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
