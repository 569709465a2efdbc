"""A recipe is no place for secrets: they would be in every plan, log and lock that is made of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import Xpubuild

from xpubuild.errors import RecipeError
from xpubuild.recipe.load import load
from xpubuild.supply.git.pin import Pin
from xpubuild.supply.git.submodules import links_of

WHEEL = """
schema: 1
name: mine
title: a wheel of an index with a login
target: cpu
components:
  tiny: {{kind: wheel, dist: tiny, version: "1.0", requirements: t.txt, indexes: ["{url}"]}}
"""
GIT = """
schema: 1
name: mine
title: a repository with a login
target: cpu
components:
  tiny: {{kind: source, source: {{url: "{url}", commit: 0000000000000000000000000000000000000001}}}}
"""
CLONED_BY_CMAKE = """
schema: 1
name: mine
title: a repository with a login that the build clones
target: cpu
components:
  tiny:
    kind: source
    source: {{url: "https://host/b.git", ref: v1, configure_time: [{{url: "{url}", ref: v1}}]}}
"""
CHANNEL = """
schema: 1
name: mine
title: a channel with a login
target: cpu
toolchain: {{conda: {{channels: ["{url}"], packages: [python]}}}}
"""


LOGINS = [
    *((text, url, ".netrc") for text in (WHEEL, CHANNEL) for url in (
        "https://me:s3cr3t@host/simple", "https://s3cr3t@host/simple", "https://host/simple?token=s3cr3t")),
    *((text, url, "credential helper") for text in (GIT, CLONED_BY_CMAKE) for url in (
        "https://s3cr3t@host/a.git", "https://me:s3cr3t@host/a.git", "http://s3cr3t@host/a.git",
        "git://s3cr3t@host/a.git", "ssh://git:s3cr3t@host/a.git", "https://host/a.git?token=s3cr3t")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "url", "instead"), LOGINS)
def test_a_login_in_a_recipe_is_refused_and_not_shown(
    tmp_path: Path, text: str, url: str, instead: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text.format(url=url))
    with pytest.raises(RecipeError) as caught:
        load(str(path))
    assert instead in caught.value.why
    assert "s3cr3t" not in str(caught.value.to_json())


@pytest.mark.parametrize("url", ["https://s3cr3t@host/a.git", "https://me:s3cr3t@host/a.git"])
def test_a_pin_of_a_lock_shows_no_login_when_it_refuses_one(url: str) -> None:
    with pytest.raises(RecipeError) as caught:
        Pin(url=url, commit="0" * 40)
    assert "s3cr3t" not in str(caught.value.to_json())


def test_the_user_that_a_submodule_names_goes_no_further() -> None:
    """It is upstream's file: who clones it needs no login of whoever wrote it."""
    (link,) = links_of(
        {"s": "0" * 40},
        {"s": {"path": "s", "url": "https://someone@host/a.git"}},
        "https://host/top",
        "the test",
    )
    assert link.url == "https://host/a.git"


@pytest.mark.parametrize(
    "url", ["https://host/simple", "http://127.0.0.1:80/x", "file:///a b", "conda-forge"]
)
def test_a_place_without_secrets_is_taken(tmp_path: Path, url: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(CHANNEL.format(url=url))
    assert load(str(path)).recipe.toolchain.conda.channels == [url]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_login_that_stands_where_a_key_should_be_is_not_shown(
    xpubuild: Xpubuild, tmp_path: Path, options: tuple[str, ...]
) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        GIT.format(url="https://host/a.git").replace("commit:", '"https://a:pass-word@host/x":')
    )
    result = xpubuild("plan", str(recipe), *options)
    assert result.status == 20
    assert "pass-word" not in result.out + result.err
    assert "@host/x: unknown key" in result.err
