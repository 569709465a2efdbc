"""What upstream's repositories say of a release: its tag, and the pins in its files."""

from __future__ import annotations

import re
from collections.abc import Callable

from packaging.version import InvalidVersion, Version

from xpubuild.frozen import frozen
from xpubuild.recipe.tree_text import MOST_BYTES
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.remote import remote_tags

_TAG = re.compile(r"v(\d+(?:\.\d+)+)")


@frozen
class Tag:
    """A release tag of a repository."""

    name: str
    commit: str

    @property
    def version(self) -> Version:
        """The version that the tag names."""
        return Version(self.name.removeprefix("v"))


@frozen
class Tree:
    """The tree of a commit in the user's own bare repository; its files are read, never checked out."""

    store: RepositoryStore
    url: str
    commit: str

    @classmethod
    def fetched(cls, store: RepositoryStore, url: str, tag: str | None, commit: str) -> Tree:
        """Fetch the commit, unless it is there; ``tag`` is a hint for the server.

        Raises:
            FetchError, SourceIntegrityError, NoSpaceError, ToolchainError, InterruptedByUserError.
        """
        ref = f"refs/tags/{tag}" if tag else None
        store.mirror(url, commit).ensure(commit, ref=ref, report=lambda _line: None)
        return cls(store, url, commit)

    def text(self, path: str) -> str | None:
        """Return a file of the tree; None where there is none, or none that a pin could be in."""
        git_dir = self.store.mirror(self.url, self.commit).path
        name = f"{self.commit}:{path}"
        size = self.store.git.query(["cat-file", "-s", name], git_dir=git_dir)
        if not size.ok or int(size.text or 0) > MOST_BYTES:
            return None
        answer = self.store.git.query(["cat-file", "blob", name], git_dir=git_dir)
        return answer.text if answer.ok else None

    def word(self, *paths: str) -> tuple[str, str] | None:
        """Return the first of the files that has a word, and that word."""
        for path in paths:
            words = (self.text(path) or "").split()
            if words:
                return path, words[0]
        return None


def release_tags(store: RepositoryStore, url: str) -> list[Tag]:
    """Return the tags of releases, oldest first; release candidates are none.

    Raises:
        FetchError, RecipeError, InterruptedByUserError.
    """
    found = remote_tags(url, git=store.git, cancel=store.cancel)
    tags = [Tag(name, commit) for name, commit in found.items() if _TAG.fullmatch(name)]
    return sorted(tags, key=lambda tag: tag.version)


def newest(tags: list[Tag], wanted: Callable[[Version], bool]) -> Tag | None:
    """Return the newest tag whose version is wanted."""
    return next((tag for tag in reversed(tags) if wanted(tag.version)), None)


def version_of(text: str | None) -> Version | None:
    """Return a version, None where a text is none."""
    try:
        return Version(text) if text else None
    except InvalidVersion:
        return None
