"""Repositories that a build clones while it configures: which commit the checked-out tree requires."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from xpubuild.frozen import frozen
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.pin import is_id, is_ref
from xpubuild.supply.git.urls import normalised

_PAIR = re.compile(r"GIT_REPOSITORY\s+\"?(?P<url>[^\s\")]+)\"?|GIT_TAG\s+\"?(?P<tag>[\w./+-]+)\"?(?=[\s)])")


class ConfigureItem(Protocol):
    """What a recipe says of such a repository (``recipe.model.ConfigureTime``)."""

    @property
    def url(self) -> str:
        """Where the build clones it from."""

    @property
    def path(self) -> str | None:
        """Where the build puts it, below the checkout."""

    @property
    def pin_file(self) -> str | None:
        """The file of the tree that names the commit or tag."""

    @property
    def commit(self) -> str | None:
        """The commit, where the recipe knows it."""

    @property
    def ref(self) -> str | None:
        """The tag, where the recipe knows it."""


@frozen
class ConfigurePin:
    """A repository that the build will clone, and the commit or tag at which it will check it out.

    Neither is known where the tree does not say it plainly; ``note`` says so then. ``asked_for`` is the word
    that the build gives to git: a commit, or a tag of which somebody else has to ask the commit.
    """

    url: str
    commit: str | None
    ref: str | None
    path: str | None = None
    note: str = ""

    @property
    def asked_for(self) -> str | None:
        """The commit or tag by which the build checks it out."""
        return self.ref or self.commit


def configure_time_pins(
    git: Git, git_dir: Path, commit: str, items: Iterable[ConfigureItem]
) -> list[ConfigurePin]:
    """Return what the tree of ``commit`` in the repository ``git_dir`` asks for, one pin for each item.

    The pin file of the tree counts before the recipe: it is what the build will read. That the two agree is
    proved where the tree is checked out (``recipe.tree``).
    """
    return [_pin(git, git_dir, commit, item) for item in items]


def _pin(git: Git, git_dir: Path, commit: str, item: ConfigureItem) -> ConfigurePin:
    stated = None
    if item.pin_file is not None:
        answer = git.query(["cat-file", "blob", f"{commit}:{item.pin_file}"], git_dir=git_dir)
        stated = asked_by(answer.stdout.decode("utf-8", "replace"), item.url) if answer.ok else None
    if stated is not None and is_id(stated):
        return ConfigurePin(item.url, stated, None, item.path)
    if stated is not None and is_ref(stated):
        return ConfigurePin(item.url, item.commit, stated, item.path)
    if item.commit is not None or item.ref is not None:
        return ConfigurePin(item.url, item.commit, item.ref, item.path)
    note = f"{item.pin_file or 'the tree'} does not state which commit of {item.url} the build clones"
    return ConfigurePin(item.url, None, None, item.path, note)


def asked_by(text: str, url: str) -> str | None:
    """Return the commit or tag that a pin file asks for: its only word, or the GIT_TAG of ``url`` in CMake.

    A CMake file that names one tag alone, and the repository by a variable, means that one. None where the
    text does not say it plainly.
    """
    words = text.split()
    if len(words) == 1:
        return words[0]
    tags: set[str] = set()
    every: set[str] = set()
    ours: bool | None = None
    for match in _PAIR.finditer(text):
        if match["url"] is not None:
            ours = None if "${" in match["url"] else normalised(match["url"]) == normalised(url)
            continue
        every.add(match["tag"])
        if ours:
            tags.add(match["tag"])
    found = tags or (every if ours is None else set())
    return found.pop() if len(found) == 1 else None
