"""``xpubuild recipes matrix``, and the wording of refusals."""

from __future__ import annotations

from typing import Any

import pytest
from support.cli import Xpubuild
from support.documents import check

MAX = ("--gpu", "max", "--driver", "lts-2350", "--oneapi", "2025.3", "--gcc", "12.2", "--python", "3.11")


def by_release(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["release"]: row for row in document["releases"]}


def test_the_document_without_a_situation(xpubuild: Xpubuild) -> None:
    document = check(xpubuild.json("recipes", "matrix"), "matrix")
    assert document["situation"] is None
    rows = by_release(document)
    assert len(rows) >= 18
    assert rows["2.13.0"]["components"]["vision"]["version"] == "0.28.0"
    assert rows["2.7.0"]["cxx11_abi"]["honoured"] is True
    assert all(row["verdict"] is None for row in rows.values())


def test_the_document_of_a_situation(xpubuild: Xpubuild) -> None:
    document = check(xpubuild.json("recipes", "matrix", *MAX, "--abi", "1"), "matrix")
    rows = by_release(document)
    assert document["situation"]["oneapi"] == ["2025.3"]
    assert document["situation"]["host_compiler"] == "GNU"
    assert rows["2.14.0"]["verdict"]["builds"] == "no"
    (reason,) = rows["2.14.0"]["verdict"]["reasons"]
    assert (reason["constraint"], reason["found"]) == ("oneapi", "2025.3 is here")
    verdict = rows["2.13.0"]["verdict"]
    assert (verdict["builds"], verdict["runs"]) == ("yes", "yes")
    assert any("flash attention" in loss["feature"] for loss in verdict["loses"])


def test_this_host(xpubuild: Xpubuild) -> None:
    document = check(xpubuild.json("recipes", "matrix", "--here", "--oneapi", "none"), "matrix")
    assert document["situation"]["python"]
    assert document["situation"]["oneapi"] == []
    assert by_release(document)["2.13.0"]["verdict"]["builds"] == "no"


def test_the_tables(xpubuild: Xpubuild) -> None:
    out = xpubuild.ok("recipes", "matrix", *MAX).out
    lines = {line.split("  ")[0]: line for line in out.partition("\nHere\n")[2].splitlines()}
    assert "no" in lines["2.14.0"].split()
    assert "needs oneAPI >=2026.0" in lines["2.14.0"]
    assert "lacks flash attention" in lines["2.13.0"]
    assert "here 12.2" in lines["2.13.0"]
    without = xpubuild.ok("recipes", "matrix").out
    assert "\nHere\n" not in without
    assert "pytorch-triton-xpu 3.3.1" in without
    assert "1 or 0" in without


def test_markdown(xpubuild: Xpubuild) -> None:
    out = xpubuild.ok("recipes", "matrix", "--markdown").out
    assert "| release | oneAPI | Python | GCC | CMake | C++ | ABI |" in out
    rows = [line for line in out.splitlines() if line.startswith("| 2.7.0 |")]
    assert len({row.count("|") for row in rows}) == 2


@pytest.mark.parametrize("option", ["--gcc", "--oneapi", "--python", "--cmake", "--triton", "--vision"])
def test_what_is_no_version_is_a_wrong_command_line(xpubuild: Xpubuild, option: str) -> None:
    result = xpubuild("recipes", "matrix", option, "newest")
    assert result.status == 2
    assert "newest" in result.err


def test_an_abi_that_is_not_honoured_names_releases_that_do(xpubuild: Xpubuild) -> None:
    result = xpubuild("plan", "2.13", "--cxx11-abi", "0", "--json")
    assert result.status == 22
    error = check(result.document(), "error")["error"]
    assert "--cxx11-abi 0 was asked for" in error["what"]
    assert "releases that fit this host: 2.7" in error["fix"]
    assert "xpubuild plan 2.7" in error["commands"]
    assert {item["constraint"] for item in error["evidence"]["constraints"]} == {"cxx11_abi"}


def test_without_a_recipe_and_without_gpu_and_oneapi(xpubuild: Xpubuild) -> None:
    for command in ("plan", "install"):
        result = xpubuild(command, HOME="/nowhere", ONEAPI_ROOT="")
        assert result.status == 22
        assert "--target cpu" in result.err
        assert "quickstart" in result.err


def test_without_a_recipe_for_the_cpu(xpubuild: Xpubuild) -> None:
    document = xpubuild.json("plan", "--target", "cpu")
    assert document["recipe"].startswith("2.")
    assert "is the newest release that this host can build for cpu" in document["summary"]["chosen"]
    assert document["summary"]["target"] == "cpu"
