"""Commands that checks suggest: packages of each distribution, another GCC, the same recipe."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.doctor_frame import a_context

from xpubuild.doctor import fixes
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
VOID = OsFacts("void", (), "", "Void")


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
