"""Builds with this oneAPI, and runs on this driver: two answers, with what upstream promises."""

from __future__ import annotations

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from pydantic import ValidationError

from xpubuild.machine.versions import fits
from xpubuild.recipe.constraints import solve
from xpubuild.recipe.limits import Toolkit
from xpubuild.recipe.matrix import matrix_document
from xpubuild.recipe.model import Recipe
from xpubuild.recipe.releases import releases
from xpubuild.recipe.situation import Situation, Verdict
from xpubuild.resources import recipes_dir
from xpubuild.ui.recipe_views import verdict as sentence

RELEASES = {release.version: release.recipe for release in releases(recipes_dir())}
LINES = [
    f"{line}.0" for line in ("2024.1", "2025.0", "2025.1", "2025.2", "2025.3", "2026.0", "2026.1", "2026.2")
]
#: A site with Max GPUs that keeps the oldest toolkit: Aurora's.
SITE = Situation(gpu="max", driver="lts2-2523", oneapi=("2025.3.1",), python=("3.12",), gcc="13.3.0")


def at(release: str, **changes: object) -> Verdict:
    return solve(RELEASES[release], Situation(**{**vars(SITE), **changes}))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", RELEASES)
def test_each_line_of_a_release_agrees_with_what_it_needs(name: str) -> None:
    """Pairing and tolerated lines are in the range, patched ones are not, and the range has no other line."""
    recipe: Recipe = RELEASES[name]
    assert recipe.needs.oneapi is not None
    for line in LINES:
        inside = SpecifierSet(recipe.needs.oneapi).contains(Version(line))
        told = next((item for item in recipe.toolkits if SpecifierSet(item.oneapi).contains(line)), None)
        assert inside == (told is not None and told.standing != "patched"), line


@pytest.mark.parametrize(
    ("release", "line"), [("2.12.1", "2025.3.2"), ("2.13.0", "2026.0.0"), ("2.14.1", "2026.1.0")]
)
def test_upstreams_pairs(release: str, line: str) -> None:
    found = at(release, oneapi=(line,))
    assert found.toolkit is not None
    assert (found.builds, found.toolkit.kind) == ("yes", "pairing")
    assert not any(note.constraint == "oneapi" for note in found.notes())


def test_a_tolerated_line_builds_and_says_what_upstream_uses() -> None:
    found = at("2.13.0")
    assert found.toolkit is not None
    assert (found.builds, found.toolkit.kind, found.toolkit.upstream) == (
        "yes",
        "tolerated",
        "oneAPI >=2026.0,<2026.1",
    )
    (note,) = [item for item in found.notes() if item.constraint == "oneapi"]
    assert "2025.3.1 is tolerated: upstream builds it with oneAPI >=2026.0,<2026.1" in note.found
    assert note.source == "https://github.com/intel/torch-xpu-ops/pull/4302"


def test_a_line_that_upstream_dropped_is_refused_with_the_patches_of_sites() -> None:
    found = at("2.14.1")
    assert (found.builds, found.runs) == ("no", "yes"), "the driver is not what refuses it"
    (reason,) = [item for item in found.against() if item.constraint == "oneapi"]
    for change in (
        "pytorch/pytorch/pull/191470",
        "pytorch/pytorch/pull/188789",
        "intel/torch-xpu-ops/pull/4302",
    ):
        assert f"revert https://github.com/{change}" in reason.todo
    assert "not tried here" in reason.todo


def test_the_matrix_keeps_the_two_questions_apart() -> None:
    known = tuple(
        release for release in releases(recipes_dir()) if release.version in ("2.14.1", "2.13.0", "2.12.1")
    )
    rows = matrix_document(known, SITE)["releases"]
    told = sentence(rows)
    assert told.startswith("newest that builds here: 2.13.0; it runs here too")
    assert "the driver runs 2.14.1 too, which this oneAPI builds with patches alone" in told
    patched = next(row for row in rows if row["release"] == "2.14.1")["toolkits"][-1]
    assert (patched["standing"], len(patched["patches"])) == ("patched", 3)


def test_patches_are_for_a_patched_line_alone() -> None:
    with pytest.raises(ValidationError, match="belong to a toolkit with standing 'patched'"):
        Toolkit.model_validate({"oneapi": ">=2025.3", "standing": "patched", "source": "x"})


@pytest.mark.parametrize(
    ("version", "wanted", "answer"),
    [
        ("1.2", "==1.2.3", "unknown"),
        ("1.2", "!=1.2.3", "unknown"),
        ("1.2", ">=1.2.3", "unknown"),
        ("1.2", ">=1.3", "no"),
        ("1.2", "<2", "yes"),
        ("1.2.3", ">=1.2.4", "no"),
        (None, ">=1", "unknown"),
        ("1", "", "yes"),
    ],
)
def test_a_short_version_fits_only_if_all_that_it_may_stand_for_do(
    version: str | None, wanted: str, answer: str
) -> None:
    assert fits(version, wanted) == answer
