"""Channels: names, folders and URLs; credentials are refused and not shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from xpubuild.errors import RecipeError
from xpubuild.supply.conda.lockfile import resolve, without_credentials


@pytest.mark.parametrize(
    ("url", "shown", "secret"),
    [
        ("https://u:pa55word@h.invalid/c", "https://h.invalid/c", "pa55word"),
        ("https://h.invalid/t/tk-1-2-3/c", "https://h.invalid/c", "tk-1-2-3"),
        ("https://h.invalid/pre/t/tk-1-2-3", "https://h.invalid/pre", "tk-1-2-3"),
        ("https://onlytoken@h.invalid/c?sig=abcdefgh", "https://h.invalid/c", "onlytoken"),
    ],
)
def test_credentials_are_refused_and_never_shown(url: str, shown: str, secret: str) -> None:
    assert without_credentials(url) == shown
    with pytest.raises(RecipeError, match=r"has a login or a token") as caught:
        resolve([url])
    assert ".netrc" in caught.value.fix
    assert secret not in str(caught.value.to_json())


def test_a_folder_named_t_is_no_token() -> None:
    assert without_credentials("file:///home/t/abc/channel") == "file:///home/t/abc/channel"


def test_folders_become_urls(tmp_path: Path) -> None:
    folder = tmp_path / "chän nel"
    assert resolve([str(folder), "conda-forge"]) == (folder.as_uri(), "conda-forge")
    assert "%20" in folder.as_uri()


@pytest.mark.parametrize(
    "bad", ["", "-c", "a b", "s3://bucket/x", "https://", "git+ssh://u:secret1@h/x", "http://[x"]
)
def test_what_is_no_channel_is_refused(bad: str) -> None:
    with pytest.raises(RecipeError) as caught:
        resolve([bad])
    assert "secret1" not in str(caught.value.to_json())
