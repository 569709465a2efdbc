"""install --locked and plan --locked: what the lock says, or nothing."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from integration.gitserver import Upstream, gitmodules
from support.cli import Xpubuild

RECIPE = """
schema: 1
name: locked
title: small sources of every kind
target: cpu
needs: {{disk_gib: 0.01}}
components:
  top:
    kind: source
    dist: top
    source:
      url: {top}
      commit: {commit}
      configure_time: [{{url: "{cloned}", pin_file: pin.txt, when: always}}]
"""
SETUP = "from setuptools import setup\nsetup(name='top')\n"


@dataclass(frozen=True)
class Site:
    """A recipe, its lock, and the repositories it is about."""

    folder: Path
    recipe: Path
    lock: Path
    pins: dict[str, str]


@pytest.fixture
def site(tmp_path: Path, xpubuild: Xpubuild, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "upstream"
    below, cloned, top = (Upstream.make(root / f"{name}.git") for name in ("below", "cloned", "top"))
    pins = {"below": below.commit({"a": "a"}), "cloned": cloned.commit({"b": "b"})}
    files = {
        "setup.py": SETUP,
        "pin.txt": pins["cloned"],
        ".gitmodules": gitmodules(("below", below.path.as_uri())),
    }
    pins["top"] = top.commit(files, links={"below": pins["below"]})
    recipe = tmp_path / "locked.yaml"
    text = RECIPE.format(top=top.path.as_uri(), commit=pins["top"], cloned=cloned.path.as_uri())
    recipe.write_text(text)
    answer = xpubuild("lock", str(recipe))
    assert answer.status == 0, answer.err
    return Site(tmp_path, recipe, tmp_path / "locked.lock.yaml", pins)


def install(xpubuild: Xpubuild, site: Site, *words: str, code: int = 0) -> str:
    """Install as far as the sources; return what was said on standard error."""
    workspace = str(site.folder / "ws")
    answer = xpubuild("install", *words, "--workspace", workspace, "--until", "top.repositories")
    assert answer.status == code, answer.err
    return answer.err


def edited(site: Site, old: str, new: str) -> None:
    """Change the lock and make its digest right again, as somebody with bad intent would."""
    from xpubuild.install.lock_file import dump, read_lock

    lock = read_lock(site.lock)
    text = lock.model_dump_json().replace(old, new)
    assert text != lock.model_dump_json()
    site.lock.write_text(dump(type(lock).model_validate_json(text)))


def test_what_the_lock_says_is_installed(xpubuild: Xpubuild, site: Site) -> None:
    install(xpubuild, site, str(site.recipe), "--locked")
    assert (site.folder / "ws/src/top/below/a").read_text() == "a"
    install(xpubuild, site, str(site.recipe), "--lock", str(site.lock))
    plan = json.loads(xpubuild("plan", str(site.recipe), "--locked", "--json").out)
    assert str(site.lock) in plan["summary"]["locked"]


def test_without_a_lock_there_is_an_error_and_no_build(xpubuild: Xpubuild, site: Site) -> None:
    site.lock.unlink()
    assert "xpubuild lock" in install(xpubuild, site, str(site.recipe), "--locked", code=20)
    assert "--lock FILE" in install(xpubuild, site, "--locked", code=2)
    assert not (site.folder / "ws").exists()


def test_a_recipe_that_was_changed_since(xpubuild: Xpubuild, site: Site) -> None:
    site.recipe.write_text(site.recipe.read_text().replace(site.pins["top"], "a" * 40))
    said = install(xpubuild, site, str(site.recipe), "--locked", code=21)
    assert "recipe.components.top.source.commit" in said
    assert not (site.folder / "ws").exists()


@pytest.mark.parametrize("name", ["below", "cloned"])
def test_a_commit_in_the_lock_that_is_not_the_one_of_the_tree(
    xpubuild: Xpubuild, site: Site, name: str
) -> None:
    edited(site, site.pins[name], "2" * 40)
    said = install(xpubuild, site, str(site.recipe), "--locked", code=21)
    assert name in said
    assert "2" * 40 in said


def test_a_tree_in_the_lock_that_is_not_the_one_of_its_commit(xpubuild: Xpubuild, site: Site) -> None:
    tree = re.search(rf"commit: {site.pins['top']}\n(?:.*\n)*?    tree: (\w+)", site.lock.read_text())
    assert tree is not None
    edited(site, tree[1], "3" * 40)
    assert "tree" in install(xpubuild, site, str(site.recipe), "--locked", code=31)


@pytest.mark.parametrize(
    "words",
    [("--target", "xpu"), ("--variant", "dev"), ("--editable",), ("--without", "top"), ("--with", "other")],
)
def test_an_option_that_contradicts_the_lock(xpubuild: Xpubuild, site: Site, words: tuple[str, ...]) -> None:
    said = install(xpubuild, site, str(site.recipe), "--locked", *words, code=21)
    assert words[0] in said
    assert not (site.folder / "ws").exists()


def test_the_lock_itself_is_the_argument(
    xpubuild: Xpubuild, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XPUBUILD_RECIPES", str(site.folder))
    install(xpubuild, site, str(site.lock))
    two = ("--lock", str(site.lock))
    assert "two locks" in install(xpubuild, site, str(site.lock), *two, code=2)


def test_the_machine_is_compared_as_the_policy_says(xpubuild: Xpubuild, site: Site) -> None:
    found = re.search(r"\n  glibc: '([0-9.]+)'", site.lock.read_text())
    assert found is not None
    edited(site, f'"{found[1]}"', '"99.1"')
    for policy, code in (("exact", 21), ("compatible", 21), ("ignore", 0)):
        install(xpubuild, site, str(site.recipe), "--locked", "--lock-policy", policy, code=code)


def test_a_lock_is_not_written_into_a_folder_that_is_not_there(xpubuild: Xpubuild, site: Site) -> None:
    answer = xpubuild("lock", str(site.recipe), "-o", str(site.folder / "typo" / "x.lock.yaml"))
    assert answer.status == 2
    assert not (site.folder / "typo").exists()
