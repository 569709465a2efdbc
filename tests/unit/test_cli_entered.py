"""In a shell that entered a workspace: that one by default, and a recipe that is named all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from xpubuild.cli.workspace import workspace_of
from xpubuild.errors import UsageError
from xpubuild.workspace.activation import ENTERED


@pytest.fixture
def entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    workspace = tmp_path / "entered"
    workspace.mkdir()
    (workspace / "journal.db").touch()
    monkeypatch.setenv(ENTERED, str(workspace))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return workspace


def test_the_entered_one_is_meant_where_none_is_named(entered: Path) -> None:
    assert workspace_of(None) == entered


def test_a_named_recipe_is_not_the_entered_one(entered: Path) -> None:
    with pytest.raises(UsageError) as caught:
        workspace_of("2.8")
    assert "data/xpubuild/2.8" in caught.value.what
