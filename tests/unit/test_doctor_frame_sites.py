"""Where pip is configured and where a Python imports from, read from files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.doctor_frame import a_context
from unit.test_host_capacity import lay

from xpubuild.artifacts.site_packages import InstalledDist
from xpubuild.doctor.checks.python import _of_files, _of_variables, _Setting
from xpubuild.doctor.kit import Look
from xpubuild.doctor.look import sites, toolkits
from xpubuild.machine.host_report import PythonReport
from xpubuild.machine.pythons import PythonFacts

INI = (
    "[global]\nno_index = Yes\n[other]\na = b\n[install]\nindex-url = u\n[wheel]\nx = 1\n[download]\ny = 2\n"
)


def settings(look: Look) -> list[_Setting]:
    return [*_of_files(look), *_of_variables(look)]


def test_files_of_pip_in_their_order(tmp_path: Path) -> None:
    places = {
        "named.ini": "1", "xdg1/pip/pip.conf": "2", "xdg2/pip/pip.conf": "3", "etc/pip.conf": "4",
        "home/.pip/pip.conf": "5", "config/pip/pip.conf": "6", "home/.config/pip/pip.conf": "7",
        "etc/xdg/pip/pip.conf": "8",
    }  # fmt: skip
    lay(tmp_path, {name: f"[global]\nnumber = {value}\n" for name, value in places.items()})
    environ = {
        "PIP_CONFIG_FILE": "/named.ini", "XDG_CONFIG_DIRS": "/xdg1:/xdg2", "HOME": "/home",
        "XDG_CONFIG_HOME": "/config", "PIP_FIND_LINKS": "/l", "PIP_EMPTY": "", "OTHER": "x",
    }  # fmt: skip
    found = settings(a_context(tmp_path, environ=environ))
    assert [item.value for item in found] == ["1", "2", "3", "4", "5", "6", "/l"]
    assert (found[0].name, found[0].origin, found[0].section) == ("number", "/named.ini", "global")
    assert (found[-1].name, found[-1].origin, found[-1].section) == ("find-links", "PIP_FIND_LINKS", "")
    del environ["XDG_CONFIG_HOME"], environ["XDG_CONFIG_DIRS"]
    found = settings(a_context(tmp_path, environ=environ))
    assert [item.value for item in found] == ["1", "8", "4", "5", "7", "/l"]
    none = settings(a_context(tmp_path, environ={"PIP_CONFIG_FILE": "/dev/null"}))
    assert none == []


def python(executable: str, **facts: object) -> PythonFacts:
    return replace(PythonFacts(executable), **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "environ", "folders", "prefixes"),
    [
        ("home = /usr/bin\n", {}, ["/env/lib/python3.12"], ["/env", "/usr"]),
        ("home = /usr/bin\ninclude-system-site-packages = TRUE\n", {"HOME": "/h"},
         ["/env/lib/python3.12", "/h/.local/lib/python3.12", "/usr/lib/python3.12", "/usr/local",
          "/usr/lib/python3"],
         ["/env", "/usr"]),
        ("home = /usr/bin\ninclude-system-site-packages = true\n", {"HOME": "/h", "PYTHONNOUSERSITE": "1"},
         ["/env/lib/python3.12", "/usr/lib/python3.12", "/usr/local", "/usr/lib/python3"], ["/env", "/usr"]),
        ("home = /opt/py/bin\ninclude-system-site-packages = false\n", {"PYTHONPATH": "/more:/none:/more"},
         ["/more", "/env/lib/python3.12"], ["/env", "/opt/py"]),
    ],
)  # fmt: skip
def test_folders_of_a_python(
    tmp_path: Path, settings: str, environ: dict[str, str], folders: list[str], prefixes: list[str]
) -> None:
    there = {
        "/env/lib/python3.12": "env/lib/python3.12/site-packages", "/more": "more",
        "/h/.local/lib/python3.12": "h/.local/lib/python3.12/site-packages",
        "/usr/lib/python3.12": "usr/lib/python3.12/site-packages",
        "/usr/local": "usr/local/lib/python3.12/dist-packages",
         "/usr/lib/python3": "usr/lib/python3/dist-packages",
    }  # fmt: skip
    for place in there.values():
        (tmp_path / place).mkdir(parents=True)
    for place in ("usr/bin", "opt/py/bin"):
        lay(tmp_path, {f"{place}/python3.12": ""})
    lay(tmp_path, {"env/pyvenv.cfg": settings})
    (tmp_path / "env/bin").mkdir()
    home = settings.partition("= ")[2].partition("\n")[0]
    (tmp_path / "env/bin/python").symlink_to(f"../..{home}/python3.12")
    context = replace(a_context(tmp_path, environ=environ), python=tmp_path / "env/bin/python")
    found = sites.site(context)
    assert found is not None
    assert found.executable == tmp_path / "env/bin/python"
    assert found.folders == tuple(tmp_path / there[name] for name in folders)
    assert found.prefixes == tuple(tmp_path / name[1:] for name in prefixes)


def test_the_interpreter_that_was_selected(tmp_path: Path) -> None:
    first, other = python("/a/python3"), python("/b/python3", base_executable="/c/python3.12")
    context = a_context(tmp_path, python=PythonReport(first, (other,)))
    assert sites.facts_of(context) == first
    assert sites.facts_of(a_context(tmp_path, python=PythonReport(None, (other,)))) == other
    assert sites.facts_of(a_context(tmp_path)) is None
    for name, facts in (("/b/python3", other), ("/c/python3.12", other), ("/d", None)):
        assert sites.facts_of(replace(context, python=Path(name))) == facts


@pytest.mark.parametrize(
    ("name", "facts", "version"),
    [
        ("python3.12", None, "3.12"), ("python3.13t", None, "3.13"),
        ("python3", python("p", version="3.11.4"), "3.11"),
        ("python3", python("p"), "3*"), ("python3", None, "3*"),
    ],
)  # fmt: skip
def test_the_version_of_folders(name: str, facts: PythonFacts | None, version: str) -> None:
    assert sites._short_version(Path("/x") / name, facts) == version


def test_requirements_of_a_distribution(tmp_path: Path) -> None:
    lines = (
        "Name: x", "requires-dist: A.b >=1 ", "Requires-Dist: c; python_version < '3'",
        "Requires-Dist: d; extra == 'e'", "Requires-Dist: not valid!",
         "Requires-Dist: f; python_version > '3'",
        "", "Requires-Dist: g",
    )  # fmt: skip
    lay(tmp_path, {"METADATA": "\n".join(lines)})
    dist = InstalledDist(name="x", version="1", info=tmp_path)
    assert [str(item) for item in sites.requirements(dist)] == ["A.b>=1", 'f; python_version > "3"']
    wanted = sites.required(dist, "a-b")
    assert wanted is not None
    assert sites.required(dist, "g") is None
    assert (sites.public("2.8.0+xpu"), sites.public("2.8")) == ("2.8.0", "2.8")


def test_components_in_the_environment(tmp_path: Path) -> None:
    root = tmp_path / "one"
    names = {"CMPLR_ROOT": "compiler", "MKLROOT": "mkl", "CCL_ROOT": "ccl", "I_MPI_ROOT": "mpi",
     "TBBROOT": "tbb",
             "DNNLROOT": "dnnl", "UMF_ROOT": "umf", "TCM_ROOT": "tcm"}  # fmt: skip
    lay(root, {**{f"{name}/1.2/env/vars.sh": "" for name in names.values()}, "2025.1/oneapi-vars.sh": ""})
    (root / "2025.1/lib").mkdir()
    for variable, name in names.items():
        folder = root / name / "1.2"
        (found,) = toolkits.sourced(a_context(environ={variable: str(folder)}))
        assert found == toolkits.Sourced(variable, name, "1.2", folder, root)
        (unified,) = toolkits.sourced(a_context(environ={variable: str(root / "2025.1")}))
        assert unified == toolkits.Sourced(variable, name, "2025.1", root / "2025.1", root)
    for variable in ("LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "CMAKE_PREFIX_PATH", "PATH"):
        (listed,) = toolkits.sourced(a_context(environ={variable: f"/x:{root}/2025.1/lib:{root}/2025.1"}))
        assert listed == toolkits.Sourced(variable, "", "2025.1", root / "2025.1", root)
    assert toolkits.sourced(a_context(environ={"CMPLR_ROOT": "x", "OTHER": f"{root}/mkl/1.2"})) == ()


def test_no_oneapi_is_an_error_of_its_own(tmp_path: Path) -> None:
    assert str(toolkits.selection(a_context(tmp_path))) == "no oneAPI installation was found"
    assert toolkits.compiler_of(a_context(tmp_path)) is None
