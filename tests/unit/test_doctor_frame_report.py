"""Verdict, text and documents, from results that are made up; commands for the distribution."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.doctor_frame import a_check, a_context, a_host, report_of
from support.documents import check as check_document

from xpubuild.doctor import fixes
from xpubuild.doctor.kit import Check, Fix, Look, Outcome
from xpubuild.doctor.registry import select
from xpubuild.doctor.report import doctor_document, make_report, verdict
from xpubuild.doctor.runner import run_checks
from xpubuild.machine.drivers import DriverFacts
from xpubuild.machine.system import OsFacts
from xpubuild.ui.diagnosis_views import doctor_text
from xpubuild.ui.terminal import Terminal

UNKNOWN = (
    "This host can build it; it may not be able to run PyTorch for XPU:"
    " gpu.z could not complete: ZeroDivisionError: division by zero"
)
RUN, BUILD = frozenset({"run"}), frozenset({"build"})
NONE = "No Intel GPU: checked PCI (2 display controllers), DRM (none), Level Zero (no loader)."
FIX = Fix("install the loader", ("apt-get update", "apt-get install -y libze1"))


def failing(identifier: str, profiles: frozenset[str], detail: str = "it is broken.") -> Check:
    return a_check(identifier, Outcome("fail", detail, {}, FIX), profiles=profiles)


GPU = a_check("gpu.present", profiles=RUN)
NO_GPU = failing("gpu.present", RUN, NONE[0].lower() + NONE[1:])
CMAKE = a_check("build.cmake", profiles=BUILD)
WARNING = a_check("build.z", Outcome("warn", "old"), profiles=BUILD, severity="warn")
LACKING = a_check("build.l", Outcome("warn", "no oneAPI."), profiles=BUILD)
SILENT = a_check("gpu.z", lambda _context: 1 / 0, profiles=RUN)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("checks", "line", "can"),
    [
        ([GPU, CMAKE], "This host can run PyTorch for XPU and build it", {"run": True, "build": True}),
        (
            [GPU, WARNING],
            "This host can run PyTorch for XPU and build it, with 1 warning",
            {"run": True, "build": True},
        ),
        ([NO_GPU, CMAKE], f"{NONE} This host can build PyTorch for XPU", {"run": False, "build": True}),
        ([NO_GPU, LACKING], NONE[:-1], {"run": False, "build": None}),
        (
            [GPU, LACKING],
            "This host can run PyTorch for XPU; it does not meet the requirements to build it: no oneAPI",
            {"run": True, "build": None},
        ),
        (
            [GPU, LACKING, failing("build.x", BUILD, "full")],
            "This host can run PyTorch for XPU; it cannot build it: full",
            {"run": True, "build": False},
        ),
        ([NO_GPU, failing("build.x", BUILD)], NONE[:-1], {"run": False, "build": False}),
        (
            [GPU, failing("build.cmake", BUILD, "CMake is too old.")],
            "This host can run PyTorch for XPU; it cannot build it: CMake is too old",
            {"run": True, "build": False},
        ),
        (
            [failing("gpu.node", RUN, "no permission"), CMAKE],
            "This host can build it; it cannot run PyTorch for XPU: no permission",
            {"run": False, "build": True},
        ),
        (
            [failing("gpu.node", RUN, "no permission"), failing("build.cmake", BUILD)],
            "This host cannot run PyTorch for XPU or build it: no permission",
            {"run": False, "build": False},
        ),
        (
            [SILENT, CMAKE],
            UNKNOWN,
            {"run": False, "build": True},
        ),
    ],
)  # fmt: skip
def test_the_first_line_says_what_the_host_can_do(
    checks: list[Check], line: str, can: dict[str, bool]
) -> None:
    report = report_of(*checks)
    assert verdict(report) == line
    assert report.able() == can


def test_one_profile_and_a_recipe_are_named() -> None:
    recipe: Any = SimpleNamespace(recipe=SimpleNamespace(name="2.8", target="xpu"))
    context = Look(a_host(), {}, recipe=recipe)
    report = report_of(GPU, CMAKE, context=context, profiles=("build",))
    assert verdict(report) == "This host can build 2.8"
    assert report.able() == {"run": None, "build": True}
    bad = report_of(GPU, failing("build.x", BUILD, "full"), context=context)
    assert verdict(bad) == "This host can run PyTorch for XPU; it cannot build 2.8: full"


def test_a_part_of_the_checks_says_nothing_about_the_whole() -> None:
    report = report_of(GPU, CMAKE, only=["build.cmake"])
    assert verdict(report) == "1 check passed"
    assert report.able() == {"run": None, "build": None}
    assert verdict(report_of(NO_GPU, CMAKE, only=["gpu.present"])) == NONE[:-1]


def test_an_image_is_called_one(tmp_path: Path) -> None:
    report = report_of(GPU, CMAKE, context=a_context(tmp_path))
    assert verdict(report) == "This image can run PyTorch for XPU and build it, according to its files"


# ---- text


def test_what_was_skipped_is_text_where_it_is_asked_for() -> None:
    """All else of the text: tests/data/views/doctor.txt."""
    document = doctor_document(report_of(NO_GPU, a_check("a.skip", Outcome("skip", "not here"))))
    terminal = Terminal.detect(io.StringIO(), {})
    assert "not here" not in doctor_text(document, terminal, verbose=False)
    assert "skip  a.skip: not here" in doctor_text(document, terminal, verbose=True)


# ---- documents


def test_the_document_is_what_the_schema_says() -> None:
    document = doctor_document(report_of(NO_GPU, WARNING, SILENT, CMAKE))
    check_document(document, "doctor")
    assert document["status"] == "fail"
    assert document["summary"] == {"fail": 1, "error": 1, "warn": 1, "ok": 1, "skip": 0}
    assert doctor_document(report_of(WARNING))["status"] == "warn"
    assert doctor_document(report_of(CMAKE))["status"] == "ok"


def test_secrets_are_taken_out_of_results() -> None:
    leak = Outcome(
        "fail", "hunter22 is it", {"hunter22": ["x hunter22", 3]}, Fix("hunter22", ("a hunter22",))
    )
    context, selection = a_context(), select([a_check("a.leak", leak)])
    results = run_checks(context, selection)
    report = make_report(context, selection, results, ("run",), lambda text: text.replace("hunter22", "****"))
    assert "hunter22" not in str(doctor_document(report))


# ---- commands for the distribution


UBUNTU, DEBIAN = OsFacts("ubuntu", ("debian",), "22.04"), OsFacts("debian", (), "12")
ROCKY, LEAP = OsFacts("rocky", ("rhel",), "9.4"), OsFacts("opensuse-leap", ("suse",), "15.6")
VOID = OsFacts("void", (), "")


@pytest.mark.parametrize(
    ("system", "drivers", "first"),
    [
        (DEBIAN, ("level-zero",), True), (DEBIAN, ("intel-level-zero-gpu",), True), (DEBIAN, (), False),
        (DEBIAN, ("intel-level-zero-gpu", "libze1"), False), (DEBIAN, ("libze-intel-gpu1",), False),
        (ROCKY, ("level-zero",), False), (VOID, ("level-zero",), False),
    ],
)  # fmt: skip
def test_names_of_the_first_lts(system: OsFacts, drivers: tuple[str, ...], first: bool) -> None:
    found = tuple(DriverFacts("unknown", package, "1", "dpkg") for package in drivers)
    assert fixes.first_names(a_context(os=system, drivers=found)) is first


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
    system: OsFacts, packages: dict[str, tuple[str, ...]], commands: tuple[str, ...], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(fixes.os, "geteuid", lambda: 1000)
    assert fixes.install_command(a_context(os=system), **packages) == commands
    as_root = tuple(command.removeprefix("sudo ") for command in commands)
    assert fixes.install_command(a_context(tmp_path, os=system), **packages) == as_root
