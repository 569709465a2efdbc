"""pip's settings in the words of uv, what leaves the work to pip, and how uv is found."""

from __future__ import annotations

import importlib.metadata
import os
import shlex
import sys
from pathlib import Path

import pytest

from xpubuild.errors import ToolchainError
from xpubuild.supply.index.pipconf import pip_settings
from xpubuild.supply.uv.settings import Said, find_uv, reason_for_pip, translated

ALONE = {"PIP_CONFIG_FILE": os.devnull, "HOME": "/nowhere"}


def said(**variables: str) -> Said:
    environment = {**ALONE, **variables}
    return translated(pip_settings(environment), environment)


def options(words: Said, name: str) -> list[str]:
    return [words.options[at + 1] for at, word in enumerate(words.options) if word == name]


def test_indexes_and_their_logins_are_said_in_the_environment_alone() -> None:
    words = said(
        PIP_INDEX_URL="https://me:word@one.example/simple",
        PIP_EXTRA_INDEX_URL="https://two.example/simple https://token@three.example/simple",
    )
    assert words.environment["UV_DEFAULT_INDEX"] == "https://me:word@one.example/simple"
    assert words.environment["UV_INDEX"] == "https://two.example/simple https://token@three.example/simple"
    assert "example" not in " ".join(words.options)
    assert "word" not in repr(words)
    # Every index is asked for every package, as pip does; uv's own way ends at the first with the name.
    assert options(words, "--index-strategy") == ["unsafe-best-match"]


def test_what_pip_passes_over_is_left_out(tmp_path: Path) -> None:
    """Plain http without trusted-host, which uv would take, and folders that are not there: it would fail."""
    wheels = tmp_path / "my wheels"
    wheels.mkdir()
    words = said(
        PIP_INDEX_URL="http://plain.example/simple",
        PIP_EXTRA_INDEX_URL=f"http://inside.example/simple {(tmp_path / 'gone').as_uri()}",
        PIP_TRUSTED_HOST="inside.example",
        PIP_FIND_LINKS=f"{wheels.as_uri()} {tmp_path}/gone http://plain.example/links",
    )
    assert words.environment["UV_DEFAULT_INDEX"] == "http://inside.example/simple"
    assert "UV_INDEX" not in words.environment
    assert options(words, "--find-links") == [wheels.as_uri()]
    assert options(words, "--allow-insecure-host") == ["inside.example"]


def test_a_page_of_links_with_a_login_is_for_pip() -> None:
    with pytest.raises(ToolchainError, match="login"):
        said(PIP_FIND_LINKS="https://me:word@one.example/links")


def test_the_way_to_the_network_is_pips(tmp_path: Path) -> None:
    authority = tmp_path / "ca é.pem"
    authority.write_text("")
    words = said(
        PIP_PROXY="proxy.example:3128",
        PIP_CERT=str(authority),
        PIP_CLIENT_CERT=str(authority),
        PIP_RETRIES="7",
        PIP_TIMEOUT="20.4",
        HTTPS_PROXY="http://other.example:1",
        NO_PROXY="example",
        SSL_CERT_DIR="/etc/other",
    )
    env = words.environment
    assert (env["http_proxy"], env["https_proxy"]) == ("http://proxy.example:3128",) * 2
    assert not {"HTTPS_PROXY", "NO_PROXY", "no_proxy", "SSL_CERT_DIR"} & env.keys()
    assert (env["SSL_CERT_FILE"], env["SSL_CLIENT_CERT"]) == (str(authority),) * 2
    assert (env["UV_HTTP_TIMEOUT"], env["UV_HTTP_RETRIES"]) == ("20", "7")
    folder = said(PIP_CERT=str(tmp_path), https_proxy="http://p.example:1", no_proxy="inside").environment
    assert (folder["SSL_CERT_DIR"], folder["https_proxy"], folder["no_proxy"]) == (
        str(tmp_path), "http://p.example:1", "inside",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("setting", "value", "pip"),
    [
        ("index-url", "https://one.example", False),
        ("cache-dir", "/var/pip", False),
        ("no-cache-dir", "false", False),
        ("no-cache-dir", "true", True),
        ("keyring-provider", "disabled", False),
        ("keyring-provider", "import", True),
        ("require-virtualenv", "true", False),
        ("constraint", "all.txt", True),
        ("no-binary", ":all:", True),
        ("use-feature", "truststore", True),
        ("something-new", "1", True),
    ],
)
def test_a_setting_that_uv_cannot_be_told_leaves_the_work_to_pip(
    setting: str, value: str, *, pip: bool
) -> None:
    why = reason_for_pip({setting: value})
    assert bool(why) == pip
    assert not why or setting in why


def test_the_uv_of_this_interpreter_is_used_and_its_absence_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    found = find_uv()
    assert Path(found.path).is_file()
    assert found.version == importlib.metadata.version("uv")
    monkeypatch.setitem(sys.modules, "uv", None)
    found = find_uv()
    assert (found.path, found.why) == ("", "uv is not installed beside xpubuild")
    assert shlex.split(found.remedy) == [sys.executable, "-m", "pip", "install", "uv"]
