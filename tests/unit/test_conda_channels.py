"""Channels: the user's own mirrors and credentials, which are used and never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from xpubuild.errors import RecipeError, ToolchainError
from xpubuild.supply.conda.lockfile import (
    Channel,
    read_condarc,
    redactor,
    resolve,
    with_access,
    without_credentials,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def condarc(home: Path, text: str, **variables: str) -> tuple[str, ...]:
    (home / ".condarc").write_text(text)
    settings = read_condarc({"HOME": str(home), **variables})
    return tuple(item.address for item in resolve(["conda-forge", "defaults", "intel/label/x"], settings))


def test_without_settings_names_stay_names(home: Path) -> None:
    assert read_condarc({"HOME": str(home)}).channel_alias == ""
    assert condarc(home, "") == ("conda-forge", "defaults", "intel/label/x")


def test_a_sites_mirror_stands_in_for_every_channel(home: Path) -> None:
    text = "channel_alias: https://mirror.example.invalid/conda/\ndefault_channels: [main, https://d.invalid/r]\n"
    assert condarc(home, text) == (
        "https://mirror.example.invalid/conda/conda-forge",
        "https://mirror.example.invalid/conda/main",
        "https://d.invalid/r",
        "https://mirror.example.invalid/conda/intel/label/x",
    )


def test_a_channel_of_its_own_place_and_a_token_from_the_environment(home: Path) -> None:
    text = "custom_channels:\n  intel: https://host.invalid/t/$MY_TOKEN\n"
    assert condarc(home, text, MY_TOKEN="tk-1234567")[2] == "https://host.invalid/t/tk-1234567/intel/label/x"


def test_which_channels_are_asked_is_never_the_users(home: Path) -> None:
    assert condarc(home, "channels: [nvidia]\n") == ("conda-forge", "defaults", "intel/label/x")


@pytest.mark.parametrize("text", ["a: [", "- a\n", "custom_channels: [a]\n", "channel_alias: [x]\n"])
def test_a_broken_file_is_named_and_not_quoted(home: Path, text: str) -> None:
    with pytest.raises(ToolchainError, match=r"\.condarc cannot be read") as caught:
        condarc(home, f"{text}# https://u:secret-word@host\n")
    assert "secret" not in str(caught.value.to_json())


@pytest.mark.parametrize(
    ("url", "shown", "secret"),
    [
        ("https://u:pa55word@h.invalid/c", "https://h.invalid/c", "pa55word"),
        ("https://h.invalid/t/tk-1-2-3/c", "https://h.invalid/c", "tk-1-2-3"),
        ("https://h.invalid/pre/t/tk-1-2-3", "https://h.invalid/pre", "tk-1-2-3"),
        ("https://onlytoken@h.invalid/c?sig=abcdefgh", "https://h.invalid/c", "onlytoken"),
    ],
)
def test_credentials_are_used_and_never_shown(url: str, shown: str, secret: str) -> None:
    channel = Channel(url)
    assert channel.shown == without_credentials(url) == shown
    assert secret not in repr(channel)
    assert secret not in redactor([Channel(url)])(f"GET {url}/linux-64/repodata.json: 403; {secret}")
    if "?" not in url:
        package = f"{shown}/linux-64/a-1-0.conda"
        assert (
            with_access(package, [Channel("https://other.invalid"), channel]) == f"{url}/linux-64/a-1-0.conda"
        )


def test_a_folder_named_t_is_no_token() -> None:
    assert without_credentials("file:///home/t/abc/channel") == "file:///home/t/abc/channel"


def test_folders_become_urls(tmp_path: Path) -> None:
    folder = tmp_path / "chän nel"
    assert resolve([str(folder)])[0].shown == folder.as_uri()
    assert "%20" in folder.as_uri()


@pytest.mark.parametrize(
    "bad", ["", "-c", "a b", "s3://bucket/x", "https://", "git+ssh://u:secret1@h/x", "http://[x"]
)
def test_what_is_no_channel_is_refused(bad: str) -> None:
    with pytest.raises(RecipeError) as caught:
        resolve([bad])
    assert "secret1" not in str(caught.value.to_json())
