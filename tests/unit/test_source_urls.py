"""Which URLs reach git, which mirror they belong to, and relative ones resolved as git resolves them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from xpubuild.supply.git.pin import mirror_name, normalised, problem_with, resolve_relative


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/pytorch/pytorch.git",
        "http://127.0.0.1:8080/x",
        "ssh://git@host.example:2222/x.git",
        "git://host.example/x",
        "git@github.com:pytorch/pytorch.git",
        "host.example:x",
        "file:///tmp/a%20b/x.git",
        "/tmp/a b/ü.git",
        "https://[::1]:8080/x",
        "https://git@h/x.git",
        "ssh://me@h/x.git",
    ],
)
def test_ordinary_urls_are_accepted(url: str) -> None:
    assert problem_with(url) is None


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("", "empty"),
        (" https://h/x", "spaces"),
        ("https://h/x\nhost=evil", "control"),
        ("--upload-pack=touch /tmp/x", "option"),
        ("-u", "option"),
        ("ext::sh -c touch%20/tmp/x", "remote helper"),
        ("fd::17", "remote helper"),
        ("::x", "remote helper"),
        ("ftp://h/x", "protocol is 'ftp'"),
        ("EXT://h/x", "protocol is 'EXT'"),
        ("ssh://-oProxyCommand=touch/x", "option"),
        ("ssh://-oProxyCommand=x@h/x", "option"),
        ("-oProxyCommand=x@h:x", "option"),
        ("git@-oProxyCommand=x:x", "option"),
        ("git@host:-x", "option"),
        ("https:///x", "no host"),
        ("https://h/a b", "space"),
        ("https://me:secret@h/x", "password"),
        ("https://ghp_0123456789abcdefghij@h/x", "user name"),
        ("http://me@h/x", "user name"),
        ("git://me@h/x", "user name"),
        ("https://h:port/x", "cannot be read"),
        ("file://host/x", "absolute"),
        ("../x", "neither"),
        ("x/y", "neither"),
    ],
)
def test_dangerous_urls_are_refused_with_the_reason(url: str, word: str) -> None:
    reason = problem_with(url)
    assert reason is not None
    assert word in reason


def test_urls_that_differ_in_spelling_only_share_a_mirror() -> None:
    spellings = [
        "https://GitHub.com/pytorch/pytorch",
        "https://github.com/pytorch/pytorch.git",
        "https://github.com:443/pytorch/pytorch/",
        "https://someone@github.com/pytorch/pytorch.git/",
    ]
    assert {normalised(url) for url in spellings} == {"https://github.com/pytorch/pytorch"}
    assert len({mirror_name(url, 40) for url in spellings}) == 1


def test_a_mirror_name_is_readable_safe_and_tells_repositories_apart() -> None:
    name = mirror_name("https://github.com/pytorch/pytorch.git", 40)
    assert name.startswith("github.com-pytorch-pytorch-")
    assert name.endswith(".git")
    others = {
        mirror_name("https://github.com/pytorch/vision.git", 40),
        mirror_name("ssh://git@github.com/pytorch/pytorch.git", 40),
        mirror_name("https://github.com/pytorch/pytorch.git", 64),
        mirror_name("https://github.com/Pytorch/pytorch.git", 40),
    }
    assert len(others | {name}) == 5
    for url in ("/tmp/ü/../../etc", "file:///%2e%2e/x", "/" + "a" * 500, "/"):
        made = mirror_name(url, 40)
        assert "/" not in made
        assert not made.startswith((".", "-"))
        assert len(made) < 100


_BASES = [
    "https://h.example/a/b.git",
    "https://h.example/a/b/",
    "ssh://git@h.example:22/a/b",
    "git@h.example:a/b.git",
    "git@h.example:b.git",
    "/srv/git/b",
    "file:///srv/git/b.git",
]


# git itself makes ".:c.git" of the one that is left out: a folder of that name.
_PAIRS = [
    (base, relative)
    for base in _BASES
    for relative in ("../c.git", "./c", "../../c.git", "./../c/", "../c/../d")
    if (base, relative) != ("git@h.example:b.git", "../../c.git")
]


@pytest.mark.parametrize(("base", "relative"), _PAIRS)
def test_relative_urls_are_resolved_as_git_does(base: str, relative: str, tmp_path: Path) -> None:
    blob = "0" * 39 + "1"
    steps = [
        ["init", "--quiet"],
        ["config", "remote.origin.url", base],
        ["config", "-f", ".gitmodules", "submodule.s.path", "s"],
        ["config", "-f", ".gitmodules", "submodule.s.url", relative],
        ["update-index", "--add", "--cacheinfo", f"160000,{blob},s"],
        ["submodule", "--quiet", "init"],
    ]
    for step in steps:
        subprocess.run(["git", *step], cwd=tmp_path, check=True, capture_output=True)
    said = subprocess.run(
        ["git", "config", "submodule.s.url"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert resolve_relative(base, relative) == said.stdout.strip()


def test_a_relative_url_that_goes_above_everything_is_an_error() -> None:
    with pytest.raises(ValueError, match="cannot take one component off"):
        resolve_relative("git@h:b", "../../../c")
