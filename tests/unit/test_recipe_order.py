"""Releases are listed as versions, not as text: 2.4 comes before 2.10 wherever a list is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import Xpubuild

from xpubuild.recipe.load import find
from xpubuild.recipe.order import in_order

SHOWN = ["2.4", "2.9", "2.10", "main", "rig9", "rig10"]


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of recipes in front of those of xpubuild."""
    folder = tmp_path / "recipes"
    folder.mkdir()
    for name in ("rig10", "rig9"):
        (folder / f"{name}.yaml").write_text(f"schema: 1\nname: {name}\ntitle: a rig\nextends: quickstart\n")
    monkeypatch.setenv("XPUBUILD_RECIPES", str(folder))
    return folder


def test_releases_come_as_versions_and_other_names_after_them() -> None:
    names = ["main", "2.10", "rig10", "2.4", "2.6.0", "2.6.0rc1", "2.10.0", "rig9", "2.9"]
    assert in_order(names) == [
        "2.4", "2.6.0rc1", "2.6.0", "2.9", "2.10", "2.10.0", "main", "rig9", "rig10",
    ]  # fmt: skip


@pytest.mark.usefixtures("few")
def test_an_unknown_recipe_names_the_known_ones_in_their_order(xpubuild: Xpubuild) -> None:
    error = xpubuild("plan", "no-such", "--json")
    assert error.status == 20
    known = error.document()["error"]["why"].removeprefix("known recipes: ").split(", ")
    assert [name for name in known if name in SHOWN] == SHOWN
    assert "base" not in known, "it is only there to be extended"


@pytest.mark.parametrize("name", ["mine.yaml", "mine.yml", "./mine.yml", "./mine"])
def test_a_file_is_named_by_its_ending_or_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text("schema: 1\nname: mine\n")
    assert find(name) == tmp_path / name
