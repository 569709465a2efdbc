"""Commands that checks suggest: packages of each distribution, another GCC, the same recipe."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.doctor_env import offline
from support.doctor_frame import a_context

from xpubuild.doctor import fixes, gcc
from xpubuild.machine.drivers import DriverFacts
from xpubuild.machine.system import OsFacts

UBUNTU, DEBIAN = (
    OsFacts("ubuntu", ("debian",), "22.04", "Ubuntu 22.04"),
    OsFacts("debian", (), "12", "Debian 12"),
)
ROCKY, LEAP = (
    OsFacts("rocky", ("rhel",), "9.4", "Rocky 9.4"),
    OsFacts("opensuse-leap", ("suse",), "15.6", "Leap"),
)
FEDORA, VOID = OsFacts("fedora", (), "41", "Fedora 41"), OsFacts("void", (), "", "Void")


def driver(package: str, family: str = "unknown") -> DriverFacts:
    return DriverFacts(family, package, "1", "dpkg")


@pytest.fixture(autouse=True)
def user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the user be one who needs sudo."""
    monkeypatch.setattr(fixes.os, "geteuid", lambda: 1000)


@pytest.mark.parametrize(
    ("system", "drivers", "first"),
    [
        (DEBIAN, ("level-zero",), True), (DEBIAN, ("intel-level-zero-gpu",), True), (DEBIAN, (), False),
        (DEBIAN, ("intel-level-zero-gpu", "libze1"), False), (DEBIAN, ("libze-intel-gpu1",), False),
        (ROCKY, ("level-zero",), False), (VOID, ("level-zero",), False),
    ],
)  # fmt: skip
def test_names_of_the_first_lts(system: OsFacts, drivers: tuple[str, ...], first: bool) -> None:
    assert fixes.first_names(a_context(os=system, drivers=tuple(map(driver, drivers)))) is first


def test_names_of_the_first_lts_of_rpms() -> None:
    for family, first in (("lts-2350", True), ("lts2-2523", False)):
        assert fixes.first_names(a_context(os=ROCKY, drivers=(driver("intel-level-zero", family),))) is first


@pytest.mark.parametrize(
    ("system", "packages", "commands"),
    [
        (UBUNTU, {"debian": ("a", "b")}, ("sudo apt-get update", "sudo apt-get install -y a b")),
        (ROCKY, {"rhel": ("a", "b")}, ("sudo dnf install -y a b",)),
        (LEAP, {"suse": ("a", "b")}, ("sudo zypper install -y a b",)),
        (UBUNTU, {"rhel": ("a",), "suse": ("a",)}, ("# install with your package manager: a (RHEL, SUSE)",)),
        (VOID, {"debian": ("a",), "rhel": ("b",)},
         ("# install with your package manager: a (Debian); b (RHEL)",)),
        (VOID, {"debian": ("a",), "rhel": ("a",), "suse": ("a",)},
         ("# install with your package manager: a",)),
        (ROCKY, {}, ()),
    ],
)  # fmt: skip
def test_commands_that_install(
    system: OsFacts, packages: dict[str, tuple[str, ...]], commands: tuple[str, ...], tmp_path: Path
) -> None:
    assert fixes.install_command(a_context(os=system), **packages) == commands
    as_root = tuple(command.removeprefix("sudo ") for command in commands)
    assert fixes.install_command(a_context(tmp_path, os=system), **packages) == as_root


def test_root_needs_no_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fixes.as_root(a_context(), "x", "y") == ("sudo x", "sudo y")
    monkeypatch.setattr(fixes.os, "geteuid", lambda: 0)
    assert fixes.as_root(a_context(), "x", "y") == ("x", "y")


@pytest.mark.parametrize(
    ("system", "name"), [(UBUNTU, "debian"), (ROCKY, "rhel"), (LEAP, "suse"), (VOID, "")]
)
def test_families_of_distributions(system: OsFacts, name: str) -> None:
    assert fixes.distribution(a_context(os=system)) == name


@pytest.mark.parametrize(
    ("recipe", "target", "targets", "options"),
    [
        ("2.8", "xpu", ["xpu", "cpu"], " --recipe 2.8"),
        ("2.8", "cpu", ["xpu", "cpu"], " --recipe 2.8 --target cpu"),
        ("a recipe", "cpu", ["cpu"], " --recipe 'a recipe'"),
    ],
)
def test_options_of_the_same_recipe(recipe: str, target: str, targets: list[str], options: str) -> None:
    loaded = offline("2.8")
    changes = {"name": recipe, "target": target, "targets": targets}
    chosen = loaded.model_copy(update={"recipe": loaded.recipe.model_copy(update=changes)})
    assert fixes.recipe_options(a_context()) == ""
    assert fixes.recipe_options(replace(a_context(), recipe=chosen)) == options


CONTAINER = "build in a container or on a host with"
OTHERS = "set CC and CXX to another GCC that the recipe allows"
TOOLSET = "export CC=/opt/rh/gcc-toolset-13/root/usr/bin/gcc CXX=/opt/rh/gcc-toolset-13/root/usr/bin/g++"
NAMED = "export CC=gcc-13 CXX=g++-13"
NEXT = "install a GCC that the recipe allows next to it and set CC and CXX to it"
DNF_LIST = "dnf list --available 'gcc*-c++'   # lists the available versions"
PPA = "install it from Ubuntu's toolchain PPA (ppa:ubuntu-toolchain-r/test) or build on a newer release"
APT = "sudo apt-get update"
IN_TOOLSET = (
    "install gcc-toolset-13 next to it and set CC and CXX to its compilers (or use a shell started by"
    " `scl enable gcc-toolset-13 bash`)"
)
NO_TOOLSET = f"N has no gcc-toolset-13: {CONTAINER} RHEL 9 or a compatible one, or {OTHERS}"


@pytest.mark.parametrize(
    ("system", "summary", "commands"),
    [
        (DEBIAN, f"Debian 12 has no package of GCC 13: {CONTAINER} Debian 13 or Ubuntu 24.04, or {OTHERS}",
         ("apt-cache search --names-only '^g\\+\\+-[0-9]+$'   # lists the available versions",
          'docker run -it -v "$PWD":/src -w /src debian:13   # in it: apt-get install gcc-13 g++-13')),
        (OsFacts("debian", (), "13"), NEXT, (APT, "sudo apt-get install -y gcc-13 g++-13", NAMED)),
        (OsFacts("ubuntu", ("debian",), "23.04"), NEXT,
         (APT, "sudo apt-get install -y gcc-13 g++-13", NAMED)),
        (LEAP, NEXT, ("sudo zypper install -y gcc13 gcc13-c++", NAMED)),
        (ROCKY, IN_TOOLSET, ("sudo dnf install -y gcc-toolset-13", TOOLSET)),
        *((OsFacts(name, ("rhel",), version, "N"), NO_TOOLSET, (DNF_LIST,))
          for name, version in (("rhel", "10.0"), ("fedora", "9"), ("amzn", "9"))),
        *((OsFacts(name, ("debian",), version, "N"),
           f"N has no package of GCC 13: {PPA}, and set CC and CXX to it",
           (APT, "sudo apt-get install -y software-properties-common",
            "sudo add-apt-repository -y ppa:ubuntu-toolchain-r/test", APT,
            "sudo apt-get install -y gcc-13 g++-13",
            NAMED)) for name, version in (("ubuntu", "22.04"), ("pop", "22.04"), ("linuxmint", "21.3"))),
    ],
)  # fmt: skip
def test_another_gcc(system: OsFacts, summary: str, commands: tuple[str, ...]) -> None:
    found = gcc.another_gcc(a_context(os=system))
    assert (found.summary, found.commands) == (summary, commands)
