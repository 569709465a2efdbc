"""The files of a commit, read without a checkout."""

from __future__ import annotations

from pathlib import Path

from xpubuild.errors import UsageError
from xpubuild.frozen import frozen
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.worktree import find_git_dir

_MOST_BYTES = 1 << 20


@frozen
class Tree:
    """The tree of a commit of a repository; its files are read, never checked out."""

    git: Git
    git_dir: Path
    url: str
    commit: str

    @classmethod
    def fetched(cls, store: RepositoryStore, url: str, commit: str) -> Tree:
        """Fetch the commit, unless it is there.

        Raises:
            FetchError, SourceIntegrityError, NoSpaceError, ToolchainError, InterruptedByUserError.
        """
        mirror = store.mirror(url, commit)
        mirror.ensure(commit, report=lambda _line: None)
        return cls(store.git, mirror.path, url, commit)

    @classmethod
    def of_checkout(cls, git: Git, folder: Path, url: str) -> Tree:
        """Return the commit that is checked out in a folder; changes that are not committed are not in it.

        Raises:
            UsageError: it has none.
        """
        git_dir = find_git_dir(folder)
        words = ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]
        head = git.query(words, git_dir=git_dir) if git_dir else None
        if git_dir is None or head is None or not head.ok:
            raise UsageError(f"{folder} has no commit checked out", fix="pass the top folder of a checkout")
        return cls(git, git_dir, url, head.text)

    def text(self, path: str) -> str:
        """Return a file of the tree; empty where there is none, or none that a pin could be in."""
        name = f"{self.commit}:{path}"
        size = self.git.query(["cat-file", "-s", name], git_dir=self.git_dir)
        if not size.ok or int(size.text or 0) > _MOST_BYTES:
            return ""
        answer = self.git.query(["cat-file", "blob", name], git_dir=self.git_dir)
        return answer.text if answer.ok else ""
