"""doctor: what the environment's checks say to type does something on the system at hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from support.doctor_env import EnvHost, offline
from support.doctor_frame import a_context

from xpubuild.doctor.checks.python import python_pip_constraints
from xpubuild.doctor.checks.toolchain import toolchain_gcc
from xpubuild.doctor.kit import Fix, Look
from xpubuild.machine.system import OsFacts
from xpubuild.machine.tools import CompilerFacts

TOOLSET = str(Path("/opt/rh", "gcc-toolset-13", "root", "usr", "bin"))
NAMED = "export CC=gcc-13 CXX=g++-13"


def on(identifier: str, version: str, *like: str) -> Look:
    return a_context(os=OsFacts(id=identifier, id_like=like, version=version, name=f"{identifier} {version}"))


def another_gcc(context: Look) -> Fix:
    """Return what the check says to a GCC that the recipe does not allow."""
    old = (CompilerFacts("g++", "/usr/bin/g++", "gcc", "8.5.0"),)
    host = replace(context.host, compilers=old)
    found = toolchain_gcc(replace(context, host=host, recipe=offline("2.8")))
    assert (found.status, found.evidence["found"]) == ("fail", "8.5.0")
    assert found.fix is not None
    return found.fix


@pytest.mark.parametrize(
    "context", [on("rhel", "9.4", "fedora"), on("rocky", "8.10", "rhel"), on("ol", "9.5")]
)
def test_a_toolset_is_named_by_its_full_path(context: Look) -> None:
    fix = another_gcc(context)
    assert fix.commands[-1] == f"export CC={TOOLSET}/gcc CXX={TOOLSET}/g++"
    assert fix.commands[-2].endswith("dnf install -y gcc-toolset-13")
    assert "scl enable gcc-toolset-13 bash" in fix.summary


@pytest.mark.parametrize("context", [on("fedora", "42"), on("amzn", "2023", "fedora"), on("rhel", "10.0")])
def test_no_toolset_is_named_where_there_is_none(context: Look) -> None:
    fix = another_gcc(context)
    assert "has no gcc-toolset-13" in fix.summary
    assert not any("install" in line or TOOLSET in line for line in fix.commands)


def test_an_ubuntu_before_gcc_13_takes_it_from_the_toolchain_ppa() -> None:
    fix = another_gcc(on("ubuntu", "22.04", "debian"))
    assert "ppa:ubuntu-toolchain-r/test" in fix.summary
    added = next(i for i, line in enumerate(fix.commands) if "add-apt-repository" in line)
    assert any("install -y gcc-13 g++-13" in line for line in fix.commands[added:])
    assert fix.commands[-1] == NAMED


def test_a_debian_before_gcc_13_needs_a_newer_release() -> None:
    fix = another_gcc(on("debian", "12"))
    assert "has no package of GCC 13" in fix.summary
    assert not any(line.startswith(("apt-get", "sudo apt-get")) for line in fix.commands)
    assert NAMED not in fix.commands


@pytest.mark.parametrize("context", [on("debian", "13"), on("ubuntu", "24.04", "debian"), on("debian", "")])
def test_newer_releases_have_the_package(context: Look) -> None:
    fix = another_gcc(context)
    assert any("install -y gcc-13 g++-13" in line for line in fix.commands)
    assert fix.commands[-1] == NAMED


# pip


@pytest.fixture
def host(tmp_path: Path) -> EnvHost:
    return EnvHost(tmp_path)


def commands(host: EnvHost) -> tuple[str, ...]:
    fix = python_pip_constraints(host.context()).fix
    assert fix is not None
    return fix.commands


def test_a_setting_is_removed_from_its_file_and_section(host: EnvHost) -> None:
    system = standin.write(host.folder / "etc" / "pip" / "pip.conf", "[global]\nuser = yes\n")
    old = standin.write(host.folder / "home" / ".pip" / "pip.conf", "[install]\ntarget = /t\n")
    assert commands(host) == (
        f'"${{EDITOR:-vi}}" {system}   # remove user from [global]',
        f'"${{EDITOR:-vi}}" {old}   # remove target from [install]',
    )


def test_a_name_with_an_underscore_and_one_of_a_named_file_are_edited(host: EnvHost) -> None:
    named = standin.write(host.folder / "my.conf", "[install]\ntarget = /t\n")
    mine = standin.write(host.folder / "home/.config/pip/pip.conf", "[install]\nno_deps = 1\n")
    host.environ["PIP_CONFIG_FILE"] = str(named)
    assert [line.split()[1] for line in commands(host)] == [str(named), str(mine)]
