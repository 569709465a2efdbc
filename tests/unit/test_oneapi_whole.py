"""Findings, errors, keys and lists of oneAPI as a whole: no shell is run, installations are stand-ins."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from integration import oneapi_standin as standin
from packaging.specifiers import SpecifierSet

from xpubuild.engine.fingerprint import digest
from xpubuild.errors import XpuBuildError
from xpubuild.machine import envdiff
from xpubuild.machine import oneapi_advice as advice
from xpubuild.machine.envdiff import PathChange
from xpubuild.machine.oneapi_capture import clean_environment, is_entry
from xpubuild.machine.oneapi_components import latest_drift, list_components
from xpubuild.machine.oneapi_constraint import may_satisfy
from xpubuild.machine.oneapi_dump import Dump, parse_dump
from xpubuild.machine.oneapi_finding import Finding
from xpubuild.machine.oneapi_roots import find_roots
from xpubuild.machine.oneapi_selection import OneapiNeeds, select
from xpubuild.machine.oneapi_shell import csh_lines

OLD, NEW = standin.BUNDLE_2025_1, standin.BUNDLE_2025_3


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "one api"


def whole(findings: tuple[Finding, ...]) -> list[tuple[str, str, Mapping[str, Any]]]:
    return [(item.code, str(item), item.evidence) for item in findings]


def findings(
    place: Path, needs: OneapiNeeds, mode: Any = "components"
) -> list[tuple[str, str, Mapping[str, Any]]]:
    root = find_roots(place, {})[0]
    return whole(select(root, list_components(root), needs, mode).findings)


def test_a_mixed_stack_says_what_belongs_together(place: Path) -> None:
    standin.build_root(place, {**NEW, "ccl": "2021.15"})
    needs = OneapiNeeds(">=2025.3", standin.NEEDED)
    message = (
        "compiler 2025.3 is used with ccl 2021.15, expected 2021.17; 2021.15 belongs to"
        " Intel Deep Learning Essentials 2025.1.3"
    )
    ((code, told, evidence),) = findings(place, needs)
    assert (code, evidence) == (
        "oneapi-mixed-stack", {"compiler": "2025.3", "ccl": "2021.15", "expected": ["2021.17"]}
    )  # fmt: skip
    assert told.startswith(message)


def test_links_that_drifted_say_where_they_lead(place: Path) -> None:
    standin.build_root(place, {"compiler": "2025.1", "umf": "0.10"})
    standin.add_component(place, "umf", "1.0")
    standin.add_component(place, "mpi", "2021.17")
    assert findings(place, OneapiNeeds(">=2025.1", ("compiler", "umf"))) == [
        ("oneapi-latest-drift", "compiler 2025.1 is used with umf 1.0, expected 0.10; 1.0 belongs to "
         + " or ".join(advice.load_bundles().names_with("umf", "1.0")),
         {"compiler": "2025.1", "umf": "1.0", "expected": ["0.10"]}),
    ]  # fmt: skip


def test_a_toolkit_is_told(place: Path) -> None:
    standin.build_unified(place, "2025.1")
    why = "component scripts of the unified layout cannot be used alone"
    message = f"{place} is sourced through oneapi-vars.sh: {why}"
    assert findings(place, OneapiNeeds(">=2025.1", ("compiler",))) == [("oneapi-unified-layout", message, {})]
    assert findings(place, OneapiNeeds(">=2025.1", ("compiler",)), "unified") == []


def test_odd_links_are_told_with_what_is_installed(place: Path) -> None:
    standin.build_root(place, {"compiler": "2025.1", "mkl": "2025.1", "mpi": "2021.15"})
    standin.add_component(place, "compiler", "2025.3", latest=False)
    standin.point_latest(place, "mkl", "2024.0")
    root = find_roots(place, {})[0]
    names = ["compiler", "mkl", "mpi", "none"]
    link = root.real / "compiler" / "latest"
    mkl = root.real / "mkl" / "latest"
    dangling = f"the link {mkl} has no usable target; installed versions: 2025.1"
    assert whole(latest_drift(root, list_components(root), names)) == [
        ("oneapi-latest-not-newest", f"{link} points to 2025.1 although 2025.3 is installed",
         {"installed": ["2025.3", "2025.1"]}),
        ("oneapi-latest-dangling", dangling, {"installed": ["2025.1"]}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("latest", "other"),
    [("2025.3", "2025.1"), ("2025.3", None), (None, None), ("2025.1", None), ("odd", None)],
)
def test_what_lies_beside_the_compiler_is_of_its_bundle(
    place: Path, latest: str | None, other: str | None
) -> None:
    standin.build_root(place, {"compiler": "2025.1"})
    for version in filter(None, (other, latest)):
        standin.add_component(place, "mkl", version)
    root = find_roots(place, {})[0]
    needs = OneapiNeeds(">=2025.1,<2025.2", ("compiler",), beside_compiler=("mkl",))
    if latest in ("2025.1", "odd"):
        select(root, list_components(root), needs, "components")
        return
    with pytest.raises(XpuBuildError):
        select(root, list_components(root), needs, "components")


def test_optional_components_come_last_where_they_are_there(place: Path) -> None:
    standin.build_root(place, {"compiler": "2025.1", "umf": "0.10", "mpi": "2021.15"})
    root = find_roots(place, {})[0]
    needs = OneapiNeeds(">=2025.1", ("umf", "compiler"), optional=("pti", "mpi"))
    names = [item.name for item in select(root, list_components(root), needs, "components").components]
    assert names == ["umf", "compiler", "mpi"]


def test_a_component_that_no_package_of_its_own_has() -> None:
    package = advice.load_bundles().bundle_package
    told = f"install the bundle that contains never-heard-of: {package}"
    assert advice.install_component("never-heard-of") == told
    assert advice.install_component("pti") == (
        "install intel-pti-dev (or one version of it, intel-pti-dev-VERSION) from Intel's repository"
    )
    assert advice._low_first(SpecifierSet("<2025.2,>=2025.1")) == ">=2025.1,<2025.2"


@pytest.mark.parametrize(
    ("folder", "wanted", "answer"),
    [
        ("2025.1", ">=2025.1.1", True), ("2025.1", ">2025.1.9998", True), ("2025.1", "<2025.1", False),
        ("2025.1", "==2025.1.*", True), ("2025.1", "==2025.1.3", True),
        ("2025.1", "!=2025.1.0,<2025.1.1", False),
        ("2025.1", "<2025.1.3,>2025.1.1", True), ("2025.1", ">=2025.2", False),
        ("2025.1.1", ">=2025.1.2", False),
        ("2025.1.2", ">=2025.1.2", True), ("2025", ">=2025.1", False), ("latest", ">=2025", None),
    ],
)  # fmt: skip
def test_folders_and_constraints(folder: str, wanted: str, answer: bool | None) -> None:
    assert may_satisfy(folder, SpecifierSet(wanted, prereleases=True)) is answer


RECORDS = (b"#xpubuild-capture 1", b"early=1", b"#before", b"A=1", b"noequals", b"#source /s", b"B=2",
           b"#status 3",           b"#after", b"A=\xff=", b"#source /t")  # fmt: skip


@pytest.mark.parametrize(
    ("records", "expected", "unfinished"),
    [
        (RECORDS, Dump({"A": "1"}, {"A": "\udcff="}, ["/s", "/t"], [3]), "/t"),
        ((*RECORDS, b"#status 0", b"#complete"),
         Dump({"A": "1"}, {"A": "\udcff="}, ["/s", "/t"], [3, 0], True), None),
        ((RECORDS[0], b"#complete", b"#after"), Dump(), None),
        ((b"#xpubuild-capture 2", *RECORDS[1:]), Dump(), None),
        ((), Dump(), None),
    ],
)  # fmt: skip
def test_lists_of_records(records: tuple[bytes, ...], expected: Dump, unfinished: str | None) -> None:
    data = b"".join(record + b"\0" for record in records)
    assert parse_dump(data + b"#complete") == expected
    assert expected.unfinished == unfinished


def test_what_a_capture_is_given() -> None:
    upper = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY")
    kept = {name: name for name in ("HOME", "USER", "TERM", *upper, *map(str.lower, upper))}
    others = {"PATH": "/x", "LD_LIBRARY_PATH": "/y", "LANG": "C"}
    assert clean_environment({**kept, **others}) == {**kept, "PATH": os.confstr("CS_PATH")}


@pytest.mark.parametrize(
    ("name", "entry"), [("setvars.sh", True), ("oneapi-vars.sh", True), ("vars.sh", False)]
)
def test_entry_scripts(name: str, entry: bool) -> None:
    assert is_entry(Path("/o") / name) is entry


VARIABLES = (
    "PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH",
    "CMAKE_PREFIX_PATH", "CMAKE_MODULE_PATH", "PKG_CONFIG_PATH", "ACLOCAL_PATH", "MANPATH", "INFOPATH",
    "NLSPATH", "PYTHONPATH",
    "CLASSPATH", "DIAGUTIL_PATH", "FI_PROVIDER_PATH", "OCL_ICD_FILENAMES", "XDG_DATA_DIRS",
)  # fmt: skip
VOLATILE = (
    "_", "SHLVL", "PWD", "OLDPWD", "SHELLOPTS", "BASHOPTS", "BASH_ENV", "ENV", "PS1", "PS2", "PS4", "LINES",
    "COLUMNS", "SETVARS_COMPLETED", "SETVARS_CALL", "SETVARS_ARGS", "SETVARS_VARS_PATH", "SETVARS_CONFIG",
    "BASH_FUNC_x%%",
)  # fmt: skip


def test_which_variables_are_lists_and_which_do_not_count() -> None:
    before = dict.fromkeys((*VARIABLES, *VOLATILE, "X"), "/a:")
    found = envdiff.diff(before, dict.fromkeys(before, "/b:/a:/c:"))
    of_path = PathChange(prepend=("/b",), append=("/c",))
    of_manual = PathChange(prepend=("/b",), append=("/c",))
    assert found.set == {"X": "/b:/a:/c:"}
    assert found.unset == ()
    assert set(found.paths) == set(VARIABLES)
    assert found.paths["PATH"] == of_path
    interleaved = {name for name, change in found.paths.items() if change != of_path}
    assert interleaved == {"MANPATH", "INFOPATH"}
    assert found.paths["MANPATH"] == replace(of_manual, prepend=("/b", "/a", "/c", ""), append=())
    assert found.digest() == digest(found.to_json())


@pytest.mark.parametrize(
    "document",
    [
        None, [], {}, {"set": {}, "unset": [], "paths": {1: {}}}, {"set": {"A": 1}, "unset": [], "paths": {}},
        {"set": {}, "unset": [1], "paths": {}}, {"set": {}, "unset": "A", "paths": {}},
        {"set": {}, "unset": [], "paths": {"A": []}},
        {"set": {}, "unset": [], "paths": {"A": {"prepend": []}}},
        {"set": [], "unset": [], "paths": {}}, {"set": {}, "unset": []},
    ],
)  # fmt: skip
def test_documents_that_are_no_difference(document: object) -> None:
    with pytest.raises(ValueError, match=r"expected|not a string"):
        envdiff.from_json(document)


@pytest.mark.parametrize("lines", [csh_lines])
def test_csh(lines: Callable[[Mapping[str, str | None]], str]) -> None:
    given = {"B": "it's!\n", "A": None, "PATH": "/a b:/c"}
    assert lines(given) == "unsetenv A;\nsetenv B 'it'\\''s\\!\\\n';\nsetenv PATH '/a b:/c';\n"
    for name, value in (("1A", "x"), ("A", "\0")):
        with pytest.raises(ValueError, match=r"cannot be a shell variable|NUL"):
            lines({name: value})
