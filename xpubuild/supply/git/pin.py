"""A pin: the one tree that a component is built from."""

from __future__ import annotations

import re
import shlex
from typing import Any

from xpubuild.engine.redact import recordable
from xpubuild.errors import RecipeError
from xpubuild.frozen import frozen
from xpubuild.supply.git.urls import problem_with

_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# git check-ref-format, narrowed: what the tag or branch of a release is called, and nothing more.
_REF = re.compile(r"(?![-/.])(?!.*(?:\.\.|//|@\{|\.lock$|/\.|[./]$))[A-Za-z0-9._/+@-]{1,200}")


@frozen
class Pin:
    """A commit (40 or 64 hex digits) of the repository at ``url``, with its recursive submodules.

    ``tree`` is the id of the commit's tree, where the lock knows it. ``ref`` is a tag or branch that has
    held the commit: a hint for servers that give no single commits, never trusted. ``skip`` are paths of
    submodules, below the top and at any depth, that the build does not need and that are not fetched.

    Raises:
        RecipeError: a field is not what it should be.
    """

    url: str
    commit: str
    tree: str | None = None
    submodules: bool = True
    ref: str | None = None
    skip: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        reason = problem_with(self.url)
        if reason is not None:
            raise RecipeError(
                "a source has an invalid URL",
                why=f"'{recordable(self.url)}': {reason}",
                fix="use an https, http, ssh, git or file URL, or an absolute path",
            )
        self._require_id("commit", self.commit)
        if self.tree is not None:
            self._require_id("tree", self.tree)
            if len(self.tree) != len(self.commit):
                raise RecipeError(
                    f"the tree of the source {self.url} is of another kind than its commit",
                    why=f"{self.tree} has {len(self.tree)} digits, {self.commit} has {len(self.commit)}",
                    fix=f"take the tree from: git rev-parse {self.commit}^{{tree}}",
                )
        if self.ref is not None and not _REF.fullmatch(self.ref):
            raise RecipeError(
                f"the ref of the source {self.url} is not a tag or branch name",
                why=f"'{self.ref}' has characters that git does not allow or interprets",
                fix="use the name of a tag or branch, such as v2.8.0 or refs/heads/main",
            )
        for path in self.skip:
            if path.startswith(("/", "-")) or any(part in ("", ".", "..") for part in path.split("/")):
                raise RecipeError(
                    f"the source {self.url} skips '{path}', which is not the path of a submodule",
                    why="use a path relative to the top of the tree, such as third_party/cutlass",
                    fix="correct skip_submodules in the recipe",
                )

    def _require_id(self, field: str, value: str) -> None:
        if not _ID.fullmatch(value):
            raise RecipeError(
                f"the {field} of the source {self.url} is not a full object id",
                why=f"'{value}' is not 40 (or 64) lower-case hexadecimal digits",
                fix="tags, branches and short ids can change their meaning; use the full id of the commit",
                commands=(f"git ls-remote -- {shlex.quote(self.url)}",),
            )

    def key(self) -> dict[str, Any]:
        """Return what the resulting tree depends on; the URL is only the way to it."""
        key: dict[str, Any] = {"commit": self.commit, "tree": self.tree, "submodules": self.submodules}
        # Only where there are some: the key of every other pin stays what it was.
        return {**key, "skip": sorted(self.skip)} if self.skip else key


def is_id(text: str) -> bool:
    """Whether a text is a full object id."""
    return _ID.fullmatch(text) is not None


def is_ref(text: str) -> bool:
    """Whether a text is the name of a tag or branch, and nothing that git would read as an option."""
    return _REF.fullmatch(text) is not None
