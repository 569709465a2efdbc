"""Limits of what is read, to the byte and the digit; errors as documents; where data files and lists lie."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from xpubuild import resources, safe_yaml, untrusted
from xpubuild.distribution import active_lines, family_of
from xpubuild.errors import EXIT_CODES, BuildError, XpuBuildError, did_you_mean
from xpubuild.machine.system import os_facts, system_of
from xpubuild.safe_yaml import read_yaml, read_yaml_strict
from xpubuild.untrusted import (
    LARGEST,
    UntrustedError,
    checked_number,
    described,
    json_value,
    read_bytes,
    read_text,
)

BIG = 1 << 63


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"), (1023, "1023 bytes"), (1024, "1 kiB"), (1536, "1.5 kiB"), ((1 << 20) - 1, "1024 kiB"),
        (1 << 20, "1 MiB"), (16 << 20, "16 MiB"), (1 << 30, "1 GiB"), (5 << 29, "2.5 GiB"),
    ],
)  # fmt: skip
def test_a_limit_as_a_person_says_it(size: int, text: str) -> None:
    assert described(size) == text


def test_files_are_read_up_to_a_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert read_bytes(file, 5) == b"12345"
    assert read_text(file) == "12345"
    for most in (4, 0):
        with pytest.raises(UntrustedError, match=rf"^it is larger than {most} bytes, which no such file is$"):
            read_bytes(file, most)
    file.write_bytes(b"\xff")
    with pytest.raises(UnicodeDecodeError):
        read_text(file)
    # A pipe has no size: it is read to see.
    os.mkfifo(tmp_path / "pipe")
    for most, fits in ((3, True), (2, False)):
        writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(b"abc"))
        writer.start()
        if fits:
            assert read_bytes(tmp_path / "pipe", most) == b"abc"
        else:
            with pytest.raises(UntrustedError):
                read_bytes(tmp_path / "pipe", most)
        writer.join()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1), (str(BIG), BIG), (f"-{BIG}", -BIG), ("1.5", 1.5), ("1e18", 1e18),
        ("[null, true]", [None, True]),
        (b'{"a": "b"}', {"a": "b"}),
        (str(BIG + 1), "a number is out of range"), (str(-BIG - 1), "a number is out of range"),
        ("1e99", "a number is out of range"), ("1" * 21, "a number is out of range"),
        ("9" * 5000, "a number is out of range"), ("NaN", "NaN is not a number of JSON"),
        ("-Infinity", "-Infinity is not a number of JSON"), ("[" * 100_000, "it is nested too deeply"),
    ],
)  # fmt: skip
def test_json_as_the_standard_has_it(text: str | bytes, value: Any) -> None:
    if isinstance(value, str):
        with pytest.raises(UntrustedError) as caught:
            json_value(text)
        assert str(caught.value) == value
    else:
        assert json_value(text) == value


def test_numbers_that_can_be_counted_with() -> None:
    assert [checked_number(value) for value in (LARGEST, -LARGEST, 0.5)] == [LARGEST, -LARGEST, 0.5]
    for value in (LARGEST * 2, float("nan"), float("-inf")):
        with pytest.raises(UntrustedError):
            checked_number(value)


@pytest.mark.parametrize("read", [read_yaml, read_yaml_strict])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1" * 65, "it has too many digits"), (str(BIG + 1), "a number is out of range"),
        ("1e400", None), ("1.0e+400", "a number is out of range"), ("2026-13-01", "month must be in 1..12"),
    ],
)  # fmt: skip
def test_values_of_yaml_that_cannot_be_used(read: Any, text: str, why: str | None) -> None:
    if why is None:
        assert read(text) == text
        return
    with pytest.raises(yaml.YAMLError) as caught:
        read(f"a: {text}")
    assert f"'{text[:40]}' is not a value that can be used: {why}" in str(caught.value)
    assert "line 1, column 4" in str(caught.value)


def test_yaml_is_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safe_yaml, "MOST_BYTES", 10)
    assert read_yaml("a: 1234567") == {"a": 1234567}
    with pytest.raises(yaml.YAMLError, match=r"^it is larger than 10 bytes, which no such file is$"):
        read_yaml("a: 12345678")
    assert read_yaml("0" * 9 + "1") == 1
    for text in ("x: [[]]", "x: {a: {}}"):
        assert safe_yaml._levels(text) == 1 + 2 * len(text)
    value = read_yaml_strict("a: [1]")
    value["a"].append(2)
    assert read_yaml_strict("a: [1]") == {"a": [1]}


def test_an_error_is_a_document_and_back(tmp_path: Path) -> None:
    error = BuildError("what", why="why", fix="fix", commands=["one", "two"], log=tmp_path, evidence={"a": 1})
    error.explanation = {"findings": [{"title": "a title", "next_command": "a command"}, {}]}
    document = error.to_json()
    assert document == {
        "code": "build", "exit_code": 50, "what": "what", "why": "why", "fix": "fix",
        "commands": ["one", "two"], "log": str(tmp_path), "evidence": {"a": 1},
        "explanation": error.explanation,
    }  # fmt: skip
    again = XpuBuildError.from_json(json.loads(json.dumps(document)))
    assert (type(again), again.to_json(), again.log) == (BuildError, document, tmp_path)
    assert (str(again), again.likely_cause()) == ("what", "a title; run: a command")
    unknown = XpuBuildError.from_json({"code": "new"})
    assert (type(unknown), unknown.what, unknown.why, unknown.fix) == (XpuBuildError, "unknown error", "", "")
    assert (unknown.commands, unknown.log, unknown.evidence, unknown.explanation) == ((), None, {}, None)
    assert (unknown.likely_cause(), unknown.document, unknown.mend) == ("", None, None)
    assert len(EXIT_CODES) == len({kind.code for kind in EXIT_CODES.values()})
    assert did_you_mean("instal", ["plan", "install", "installs"]) == "; did you mean 'install'?"
    assert did_you_mean("zzz", ["plan"]) == ""


def test_data_files_are_those_of_the_wheel_where_it_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "PACKAGE", tmp_path / "xpubuild")

    def places() -> list[str]:
        found = (
            resources.recipes_dir(), resources.setvars_dir(), resources.ci_script(),
            resources.docs_page("a/b.md"), resources.ops_project_dir(), resources.suite_dir(),
        )  # fmt: skip
        return [path.relative_to(tmp_path).as_posix() for path in found]

    own = ["xpubuild/ops/project", "xpubuild/verify/suite"]
    assert places() == ["recipes", "scripts/setvars", "scripts/ci/job.sh", "docs/a/b.md", *own]
    for name in ("recipes", "setvars", "ci", "docs"):
        (tmp_path / "xpubuild" / "_data" / name).mkdir(parents=True)
    packaged = ["recipes", "setvars", "ci/job.sh", "docs/a/b.md"]
    assert places() == [*(f"xpubuild/_data/{name}" for name in packaged), *own]


def test_the_system_of_a_machine_is_that_of_os_release(tmp_path: Path) -> None:
    lists = tmp_path / "etc/apt/sources.list.d"
    lists.mkdir(parents=True)
    release = tmp_path / "etc/os-release"
    release.write_text('ID=rocky\nID_LIKE="rhel centos"\nVERSION_ID=9.5\n')
    (lists / "a.list").write_text("# no\n  # no\none # two\n")
    (lists / "b.list").mkdir()
    (lists / "c.list").write_bytes(b"\xff three")
    system = system_of(os_facts(tmp_path), tmp_path)
    assert (system.names, system.version) == (("rocky", "rhel", "centos"), "9.5")
    assert {line for line in system.repositories.split("\n") if line} == {"one # two", "\ufffd three"}
    assert active_lines(" # a\nb") == "b"
    release.unlink()
    assert family_of(system_of(os_facts(tmp_path), tmp_path).names) is None


def test_limits_of_files_are_in_their_order() -> None:
    assert untrusted.MOST_BYTES > untrusted.MOST_RECIPE_BYTES
