"""Updates an existing checkout to a pin in place: build outputs and the user's branches are kept.

For workspaces in a new folder, see ``workspace.moved``.

The order makes it safe against a kill: check for local changes, fetch all objects, check for ignored files
that would be overwritten, record the move in ``.git``, and only then change a file. While the note is there,
files that hold what one of the noted commits has are traces, and the same call carries on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from xpubuild.engine.files import sync_filesystems
from xpubuild.frozen import frozen
from xpubuild.supply.git import notes
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.built import read_built
from xpubuild.supply.git.discover import SourceTree, discover
from xpubuild.supply.git.edits import Edit, MoveTraces, find_edits, in_the_way, refuse
from xpubuild.supply.git.git import Report
from xpubuild.supply.git.gitmodules import list_tree
from xpubuild.supply.git.leftovers import remove_leftovers
from xpubuild.supply.git.pin import Pin
from xpubuild.supply.git.populate import Populate
from xpubuild.supply.git.worktree import Missing, Repository, walk

_Moving = Mapping[str, set[str]] | None
#: The repositories of a checkout, and the move that is under way.
Seen = tuple[tuple[Repository | Missing, ...], _Moving]


@frozen
class Move:
    """One move of the checkout at ``place``; ``hold`` is its lock."""

    pin: Pin
    place: Path
    git_dir: Path
    store: RepositoryStore
    jobs: int
    report: Report
    hold: tuple[int, ...]

    def run(self, seen: Seen) -> tuple[str, tuple[str, ...]]:
        """Go on from what ``look`` saw; return what was done (moved or unchanged) and the URLs asked.

        Raises:
            SourceIntegrityError: the user's work is in the way; nothing was changed.
            FetchError, NoSpaceError, RecipeError, ToolchainError, InterruptedByUserError.
        """
        found, moving = seen
        if moving is None and self._is_there(found):
            return "unchanged", ()
        tree = discover(self.store, self.pin, jobs=self.jobs, report=self.report)
        self._go(tree, {item.path: item for item in found if isinstance(item, Repository)}, moving)
        return "moved", tree.fetched

    def look(self) -> Seen:
        """Return what is there, and the move that is under way.

        Raises:
            SourceIntegrityError: something is not as it was checked out, or git cannot read it.
        """
        moving = notes.read_move(self.git_dir)
        git, skip = self.store.git, self.pin.skip
        found = tuple(walk(git, self.place, self.git_dir, submodules=True, skip=skip))
        self._require_no_edits(found, moving)
        return found, moving

    def _go(self, tree: SourceTree, repositories: Mapping[str, Repository], moving: _Moving) -> None:
        populate = Populate(self.store, tree, self.place, self.report, self.hold)
        for item in repositories.values() if moving is not None else ():
            remove_leftovers(item.git_dir)
        for node in tree.nodes:
            if node.path in repositories:
                populate.deliver(node)
        leaving = _leaving(tree, repositories) if self.pin.submodules else []
        self._require_room(tree, repositories, moving)
        notes.write_move(self.git_dir, _commits(tree, repositories, moving))
        for path in leaving:
            populate.remove_submodule(path)
        populate.everything(self.jobs)
        populate.empty_trash()
        sync_filesystems([self.place, self.store.cache])
        notes.write_done(self.git_dir, self.pin.commit)

    def _require_no_edits(self, found: Sequence[Repository | Missing], moving: _Moving) -> None:
        edits = find_edits(
            self.store.git,
            found,
            expected=self._expected(found, moving),
            moving=moving,
            built=read_built(self.git_dir),
        )
        self._refuse(edits)

    def _expected(self, found: Sequence[Repository | Missing], moving: _Moving) -> dict[str, set[str]]:
        """Return path -> commits at which HEAD holds nothing of the user's."""
        expected = {path: set(commits) for path, commits in (moving or {}).items()}
        top = expected.setdefault("", set())
        top |= {self.pin.commit, notes.read_done(self.git_dir) or self.pin.commit}
        for item in found:
            if isinstance(item, Missing):
                continue
            for link, commit in item.links().items():
                expected.setdefault(item.place(link), set()).add(commit)
            if not item.path and item.head and self._is_behind(item.head):
                top.add(item.head)
        return expected

    def _is_behind(self, head: str) -> bool:
        """Whether the pin's history, as far as it is here, contains ``head``: no commit would be left."""
        ancestor = ["merge-base", "--is-ancestor", head, self.pin.commit]
        return self.store.git.query(ancestor, git_dir=self.git_dir).ok

    def _is_there(self, found: Sequence[Repository | Missing]) -> bool:
        heads = {item.path: item.head for item in found if isinstance(item, Repository)}
        wanted = {"": self.pin.commit}
        if not self.pin.submodules:
            return heads[""] == self.pin.commit
        for item in found:
            if isinstance(item, Repository):
                wanted |= {item.place(link): commit for link, commit in item.links().items()}
        return heads == {
            path: commit for path, commit in wanted.items() if path in heads or path not in self.pin.skip
        }

    def _require_room(
        self,
        tree: SourceTree,
        repositories: Mapping[str, Repository],
        moving: _Moving,
    ) -> None:
        git = self.store.git
        edits: list[Edit] = []
        for node in tree.nodes:
            item = repositories.get(node.path)
            if item is not None and item.head != node.commit:
                traces = None if moving is None else MoveTraces(git, item, moving.get(node.path, ()))
                edits += in_the_way(item, list_tree(git, item.git_dir, node.commit), traces)

        self._refuse(edits)

    def _refuse(self, edits: Sequence[Edit]) -> None:
        if edits:
            raise refuse(self.place, edits, self.pin.commit)


def _leaving(tree: SourceTree, repositories: Mapping[str, Repository]) -> list[str]:
    """Return the submodules that the pin does not have, without those that lie in another of them."""
    gone = set(repositories) - {node.path for node in tree.nodes}
    return sorted(path for path in gone if not any(path.startswith(f"{other}/") for other in gone))


def _commits(
    tree: SourceTree, repositories: Mapping[str, Repository], moving: _Moving
) -> dict[str, set[str]]:
    commits = {path: set(ids) for path, ids in (moving or {}).items()}
    for path, item in repositories.items():
        commits.setdefault(path, set()).update({item.head} if item.head else ())
    for node in tree.nodes:
        commits.setdefault(node.path, set()).add(node.commit)
    return commits
