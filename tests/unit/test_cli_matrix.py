"""``xpubuild recipes matrix``, and the wording of refusals."""

from __future__ import annotations

from typing import Any

import pytest
from support.cli import Xpubuild
from support.documents import check
from support.releases import EVERY, NEWEST

from xpubuild.ui.recipe_views import verdict

MAX = ("--gpu", "max", "--driver", "lts-2350", "--oneapi", "2025.3", "--gcc", "12.2", "--python", "3.11")
#: What plan takes with oneAPI 2025.3: upstream's pair.
TAKEN = "newest that builds here: 2.12.1 (and 2.13.0, with a oneAPI that upstream only tolerates)"


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
    document = check(xpubuild.json("recipes", "matrix", *MAX, "--cxx11-abi", "1"), "matrix")
    rows = by_release(document)
    assert document["situation"]["oneapi"] == ["2025.3"]
    assert document["situation"]["host_compiler"] == "GNU"
    assert rows["2.14.0"]["verdict"]["builds"] == "no"
    (reason,) = rows["2.14.0"]["verdict"]["reasons"]
    assert (reason["constraint"], reason["found"]) == ("oneapi", "the host has 2025.3")
    verdict = rows["2.13.0"]["verdict"]
    assert (verdict["builds"], verdict["runs"]) == ("yes", "yes")
    assert any("flash attention" in loss["feature"] for loss in verdict["loses"])


def test_this_host(xpubuild: Xpubuild) -> None:
    document = check(xpubuild.json("recipes", "matrix", "--here", "--oneapi", "none"), "matrix")
    assert document["situation"]["python"]
    assert document["situation"]["oneapi"] == []
    assert by_release(document)["2.13.0"]["verdict"]["builds"] == "no"


def test_the_answer_comes_before_everything_else(xpubuild: Xpubuild) -> None:
    out = xpubuild.ok("recipes", "matrix", *MAX).out
    first = out.splitlines()[0]
    assert first.startswith(f"{TAKEN}; it runs here too; it lacks flash attention")
    rows = xpubuild.json("recipes", "matrix", *MAX)["releases"]
    builds = [row for row in rows if row["verdict"]["builds"] == "yes"]
    assert first.endswith(f"; {len(builds)} of {len(rows)} releases build")
    assert out.splitlines()[2] == "Host"
    assert "Build requirements" not in out
    assert "`xpubuild recipes matrix` without options" in out.splitlines()[-1]
    assert "newest that builds" not in xpubuild.ok("recipes", "matrix").out


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (("--oneapi", "none"), "no release builds here: the host has no oneAPI"),
        (("--arch", "foo"), "no release builds here: 'foo' is not a device name of ocloc"),
        (
            ("--gpu", "max"),
            (
                f"no release is known to build here; {len(EVERY)} releases may,"
                f" the newest is {NEWEST}; unknown: "
            ),
        ),
        ((*MAX[2:], "--gpu", "flex"), f"{TAKEN}; it does not run here; "),
    ],
)
def test_the_verdict(xpubuild: Xpubuild, question: tuple[str, ...], answer: str) -> None:
    assert xpubuild.ok("recipes", "matrix", *question).out.startswith(answer)


def a_row(release: str, builds: str, runs: str, found: str = "") -> dict[str, Any]:
    reasons = [{"concern": "builds", "answer": builds, "constraint": "gcc", "found": found}] if found else []
    return {
        "release": release,
        "verdict": {"builds": builds, "runs": runs, "reasons": reasons, "loses": []},
    }


def test_the_verdict_begins_with_what_plan_takes() -> None:
    rows = [{**a_row("3.1", "yes", "yes"), "pinned": False, "recipe": "3.1"}, a_row("3.0", "yes", "yes")]
    assert verdict(rows) == (
        "newest that builds here: 3.0 (and 3.1 without a commit in the recipe: 'xpubuild install 3.1'"
        " looks it up); it runs here too; 2 of 2 releases build"
    )


def test_matrix_and_plan_name_the_same_release(xpubuild: Xpubuild) -> None:
    told = xpubuild.ok("recipes", "matrix", "--here", "--target", "cpu").out
    planned = xpubuild.json("plan", "--target", "cpu")
    assert told.startswith(f"newest that builds here: {planned['summary']['chosen'].split()[0]} ")


@pytest.mark.parametrize("option", [("--gcc", "newest"), ("--python", "newest")])
def test_what_is_no_version_is_a_wrong_command_line(xpubuild: Xpubuild, option: tuple[str, str]) -> None:
    result = xpubuild("recipes", "matrix", *option)
    assert result.status == 2
    assert "newest" in result.err


def test_an_abi_that_is_not_honoured_names_releases_that_do(xpubuild: Xpubuild) -> None:
    result = xpubuild("plan", "2.13", "--cxx11-abi", "0", "--json")
    assert result.status == 22
    error = check(result.document(), "error")["error"]
    assert "--cxx11-abi 0 was requested" in error["why"]
    assert "releases that nothing known rules out here: 2.7" in error["fix"]
    assert "xpubuild plan 2.7 --cxx11-abi 0" in error["commands"]
    assert {item["constraint"] for item in error["evidence"]["constraints"]} == {"cxx11_abi"}


def test_an_unknown_aot_target_is_refused_before_oneapi_is_looked_for(xpubuild: Xpubuild) -> None:
    result = xpubuild("plan", "2.8", "--target", "xpu", "--arch", "pvc,foo", "--json", ONEAPI_ROOT="")
    assert result.status == 22
    error = check(result.document(), "error")["error"]
    assert "'foo' is not a device name of ocloc" in error["why"]
    assert "pvc or bmg" in error["fix"]
