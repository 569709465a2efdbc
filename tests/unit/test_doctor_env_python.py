"""Interpreters, their packages and pip's configuration, read without running them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from support.doctor_env import EnvHost, offline
from support.doctor_frame import a_context
from support.doctor_shows import shows

from xpubuild.artifacts.site_packages import installed_dists
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


def test_user_packages_count_outside_of_an_environment_only(host: EnvHost) -> None:
    user = host.folder / "home" / ".local" / "lib" / "python3.12" / "site-packages"
    (user / "torch-2.8.0.dist-info").mkdir(parents=True)
    found = host.context().probe(sites.site)
    assert found is not None
    assert found.get("torch") is None
    (host.prefix / "pyvenv.cfg").unlink()
    found = host.context().probe(sites.site)
    assert found is not None
    assert found.get("torch") is not None


def test_an_image_s_python_is_read_inside_it(tmp_path: Path) -> None:
    root = tmp_path / "image"
    packages = root / "usr" / "lib" / "python3" / "dist-packages"
    (packages / "torch" / "lib").mkdir(parents=True)
    (packages / "torch-2.8.0+cpu.dist-info").mkdir()
    standin.write(root / "usr" / "bin" / "python3.12", "", mode=0o755)
    context = Look(a_context().host, {}, root, python=root / "usr" / "bin" / "python3.12")
    assert torch.torch_xpu_build(context).status == "fail"


def test_extras_and_markers_are_no_requirements(host: EnvHost) -> None:
    info = host.dist(
        "a", "1", requires=["b; extra == 'x'", "c>=2; python_version >= '3'", "not a requirement !"]
    )
    found = installed_dists(info.parent)[0]
    assert [item.name for item in sites.requirements(found)] == ["c"]


def test_an_old_python_is_told_with_one_that_fits(host: EnvHost) -> None:
    host.python("3.8.10")
    found = python.python_version(host.context(offline("2.13")))
    assert (found.status, "3.8.10" in found.detail) == ("fail", True)
    host.python("3.12.4", implementation="PyPy")
    assert python.python_version(host.context(offline("2.13"))).status == "fail"
    host.python(error="ended with status 127")
    assert "127" in python.python_version(host.context(offline("2.13"))).detail


@shows("ok", "python.setuptools")
def test_setuptools_without_a_recipe_matter_beside_a_torch(host: EnvHost) -> None:
    host.dist("setuptools", "82.0.1")
    assert python.python_setuptools(host.context()).status == "ok"
    host.torch()
    assert python.python_setuptools(host.context()).status == "warn"


def test_pip_is_read_in_its_order(host: EnvHost) -> None:
    standin.write(
        host.folder / "home" / ".pip" / "pip.conf", "[global]\nindex-url = https://a.example/simple\n"
    )
    config = "[global]\nindex_url = https://b.example/simple\n[install]\nuser = no\ntarget = /srv/x\n"
    standin.write(host.folder / "home" / ".config" / "pip" / "pip.conf", config)
    standin.write(
        host.prefix / "pip.conf", "[global]\nextra-index-url = https://c.example https://d.example\n"
    )
    context = host.context()
    found = python.python_pip_constraints(context)
    assert found.status == "fail"
    assert "target" in found.detail
    assert "user" not in found.detail.replace("/home/", "")
    host.environ["PIP_CONFIG_FILE"] = os.devnull
    assert python.python_pip_constraints(host.context()).status == "ok"


def test_a_broken_pip_configuration_breaks_nothing(host: EnvHost) -> None:
    standin.write(host.folder / "home" / ".config" / "pip" / "pip.conf", "user = true\n[")
    assert python.python_pip_constraints(host.context()).status == "ok"


def commands(host: EnvHost) -> tuple[str, ...]:
    fix = python.python_pip_constraints(host.context()).fix
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
