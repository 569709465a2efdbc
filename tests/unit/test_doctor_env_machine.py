"""doctor: the kind of machine, the interpreter that must run, and what --profile build alone asks for."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.doctor_env import DEBIAN, EnvHost, findings
from support.doctor_frame import a_context
from support.doctor_shows import shows
from support.imports import ROOT

from xpubuild.doctor.checks.build import build_disk
from xpubuild.doctor.checks.oneapi import oneapi_installed
from xpubuild.doctor.checks.python import machine_platform, python_runs, python_version
from xpubuild.doctor.checks.toolchain import toolchain_gcc
from xpubuild.doctor.kit import Outcome, Profile
from xpubuild.machine.disk import DiskFacts
from xpubuild.recipe.load import load

BUILD: frozenset[Profile] = frozenset({"build"})


@pytest.fixture
def host(tmp_path: Path) -> EnvHost:
    return EnvHost(tmp_path)


# the machine


@pytest.mark.parametrize("machine", ["aarch64", "i686", "ppc64le", "riscv64"])
def test_another_architecture_fails_for_run_and_build(host: EnvHost, machine: str) -> None:
    host.facts["os"] = replace(DEBIAN, machine=machine)
    found = machine_platform(host.context())
    assert (found.status, machine in found.detail, found.fix is not None) == ("fail", True, True)
    assert machine_platform.profiles == {"run", "build"}


@shows("fail", "machine.platform")
def test_one_cause_is_one_failure(host: EnvHost) -> None:
    before = findings(host.context())
    host.facts["os"] = replace(DEBIAN, machine="aarch64")
    assert findings(host.context()) == {**before, "machine.platform": "fail"}


def image(root: Path, *loaders: str) -> Outcome:
    for name in loaders:
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        # As in Debian 11: absolute, which is another file, or none, on the machine that looks.
        place.symlink_to("/lib/nowhere/ld-2.31.so")
    return machine_platform(a_context(root))


@pytest.mark.parametrize(
    ("loaders", "status", "word"),
    [
        (("lib64/ld-linux-x86-64.so.2",), "ok", "x86_64"),
        (("lib64/ld-linux-x86-64.so.2", "lib/ld-linux.so.2"), "ok", "x86_64"),
        (("lib64/ld-linux-x86-64.so.2", "lib/ld-musl-x86_64.so.1"), "ok", "x86_64"),
        (("lib/ld-linux-aarch64.so.1",), "fail", "aarch64"),
        (("lib/ld-musl-x86_64.so.1",), "fail", "musl"),
        (("lib/ld-musl-aarch64.so.1",), "fail", "aarch64"),
        (("lib/ld-linux.so.2",), "fail", "i686"),
        ((), "skip", "unknown"),
    ],
)
def test_an_image_is_judged_by_its_loaders(
    tmp_path: Path, loaders: tuple[str, ...], status: str, word: str
) -> None:
    found = image(tmp_path, *loaders)
    assert (found.status, word in found.detail) == (status, True)


# the interpreter


@shows("fail", "python.runs")
def test_a_broken_interpreter_is_one_failure_with_a_recipe(host: EnvHost) -> None:
    context = host.context(load("2.8"), python=Path("/bin/false"))
    assert python_runs(context).status == "fail"
    assert python_version(context).status == "skip"


# --profile build


def test_what_a_build_needs_fails_where_a_build_is_all_that_was_asked_about(host: EnvHost) -> None:
    host.facts["compilers"] = ()
    host.facts["disk"] = DiskFacts(str(host.folder), 1 << 40, 1 << 30, 10**7, "ext4", "/", False, False)
    for check in (oneapi_installed, toolchain_gcc, build_disk):
        assert check(host.context(profiles=BUILD)).status == "fail", check.id
        assert check(host.context()).status == "warn", check.id


def test_the_profile_reaches_the_checks_and_the_exit_status(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "xpubuild", "doctor", "--only", "oneapi.installed"]
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "ONEAPI_ROOT": str(tmp_path / "none")}
    ended = [
        subprocess.run([*argv, *more], cwd=ROOT, env=environ, capture_output=True, timeout=60, check=False)
        for more in (["--profile", "build"], [])
    ]
    assert [item.returncode for item in ended] == [10, 0], ended[0].stdout
