"""Interpreters, their packages and pip's configuration, read without running them."""

from __future__ import annotations

from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from support.doctor_env import EnvHost, offline
from support.doctor_frame import a_context

from xpubuild.doctor.checks import python, torch
from xpubuild.doctor.kit import Look
from xpubuild.doctor.look import sites


@pytest.fixture
def host(tmp_path: Path) -> EnvHost:
    return EnvHost(tmp_path)


def test_sites_are_found_without_running_anything(host: EnvHost) -> None:
    host.dist("numpy", "2.3.0")
    other = host.folder / "more"
    (other / "yaml-1.0.dist-info").mkdir(parents=True)
    host.environ["PYTHONPATH"] = str(other)
    found = host.context().probe(sites.site)
    assert found is not None
    assert found.folders == (other, host.site)
    assert {dist.name for dist in found.dists} == {"numpy", "yaml"}
    assert found.conda is None


def test_an_image_s_python_is_read_inside_it(tmp_path: Path) -> None:
    root = tmp_path / "image"
    packages = root / "usr" / "lib" / "python3" / "dist-packages"
    (packages / "torch" / "lib").mkdir(parents=True)
    (packages / "torch-2.8.0+cpu.dist-info").mkdir()
    standin.write(root / "usr" / "bin" / "python3.12", "", mode=0o755)
    context = Look(a_context().host, {}, root, python=root / "usr" / "bin" / "python3.12")
    assert torch.torch_xpu_build(context).status == "fail"


def test_an_old_python_is_told_with_one_that_fits(host: EnvHost) -> None:
    host.python("3.8.10")
    found = python.python_version(host.context(offline("2.13")))
    assert (found.status, "3.8.10" in found.detail) == ("fail", True)
    host.python("3.12.4", implementation="PyPy")
    assert python.python_version(host.context(offline("2.13"))).status == "fail"
    host.python(error="ended with status 127")
    assert "127" in python.python_version(host.context(offline("2.13"))).detail


@pytest.mark.parametrize(
    ("text", "variables", "status", "commands"),
    [
        ("[global]\ntarget = /a\n", {"PIP_TARGET": "/a"}, "fail", ("unset PIP_TARGET", "pip config debug")),
        ("[install]\nuser = yes\n", {"PIP_USER": "no"}, "fail", ("pip config debug",)),
        ("[wheel]\nno-deps = true\n", {}, "fail", ("pip config debug",)),
        ("[download]\nconstraint = /c.txt\n", {}, "warn", ("pip config debug",)),
        ("[list]\nuser = yes\n", {"PIP_TARGET": "/a"}, "warn", ("unset PIP_TARGET",)),
    ],
)
def test_a_setting_of_a_file_counts_whatever_the_variable_says(
    host: EnvHost, text: str, variables: dict[str, str], status: str, commands: tuple[str, ...]
) -> None:
    file = host.folder / "home" / ".config" / "pip" / "pip.conf"
    standin.write(file, text)
    host.environ.update(variables)
    found = python.python_pip_constraints(host.context())
    assert found.status == status
    assert (str(file) in found.detail) == ("pip config debug" in commands)
    assert found.fix is not None
    assert found.fix.commands == commands
