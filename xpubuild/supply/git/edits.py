"""Finds local changes of the user, which must not be overwritten, and the error for them.

A file belongs to xpubuild only while a move is recorded, and only if its content is that of one of the
commits of the move, or the beginning of it (git was killed while it wrote the file). Everything else is a
local change.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from xpubuild.errors import SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.git.built import EDITABLE, Built, Shadows
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.gitmodules import GITLINK, TreeEntry, list_tree
from xpubuild.supply.git.worktree import Change, Missing, Repository

_SHOWN = 10
_SYMLINK = "120000"


@frozen
class Edit:
    """Something that xpubuild did not put there; ``path`` is below the top, ``repository`` holds it."""

    path: str
    kind: str
    repository: str


class MoveTraces:
    """Knows what a half-done move may have left in one repository."""

    def __init__(self, git: Git, repository: Repository, commits: Iterable[str]) -> None:
        self._git = git
        self._repository = repository
        self._trees: list[tuple[str, dict[str, TreeEntry]]] = []
        for commit in sorted(commits):
            if git.query(["cat-file", "-e", f"{commit}^{{tree}}"], git_dir=repository.git_dir).ok:
                listing = list_tree(git, repository.git_dir, commit)
                self._trees.append((commit, {entry.path: entry for entry in listing}))

    def wrote(self, path: str) -> bool:
        """Whether what is at ``path`` now (or that nothing is) can be git's own doing."""
        found = [(commit, tree[path]) for commit, tree in self._trees if path in tree]
        file = self._repository.work_tree / path
        if not os.path.lexists(file):
            return bool(found)
        return any(self._is_from(file, commit, entry) for commit, entry in found)

    def _is_from(self, file: Path, commit: str, entry: TreeEntry) -> bool:
        if entry.mode == GITLINK:
            return file.is_dir() and not file.is_symlink()
        if entry.mode == _SYMLINK:
            return file.is_symlink() and os.fsencode(file.readlink()) == self._ask("blob", entry.oid)
        if file.is_symlink() or not file.is_file():
            return False
        # As a checkout writes it: .gitattributes may ask for other line ends.
        written = self._ask("--filters", f"{commit}:{entry.path}")
        return written is not None and written.startswith(file.read_bytes())

    def _ask(self, how: str, what: str) -> bytes | None:
        item = self._repository
        answer = self._git.query(["cat-file", how, what], git_dir=item.git_dir, work_tree=item.work_tree)
        return answer.stdout if answer.ok else None


def find_edits(
    git: Git,
    found: Sequence[Repository | Missing],
    *,
    expected: Mapping[str, Collection[str]],
    moving: Mapping[str, Collection[str]] | None,
    built: Built,
) -> list[Edit]:
    """Return what would be lost, or built by mistake, if the checkout were moved.

    ``expected`` is path -> commits at which HEAD may be; ``moving`` the noted move; ``built`` is
    what builds have made in the tree. The first of ``found`` is the top.
    """
    edits, shadows = [], Shadows(found)
    top = next((item.work_tree for item in found if isinstance(item, Repository)), Path())
    for item in found:
        if isinstance(item, Missing):
            edits += [Edit(item.path, "untracked", item.path)] if item.files else []
            continue
        edits += _moved_head(item, expected.get(item.path, ()))
        traces = None if moving is None else MoveTraces(git, item, moving.get(item.path, ()))
        for change in item.changes:
            place, kind = item.place(change.path), change.kind
            if not _is_edit(item, change, traces):
                continue
            if change.extra and built.explains(place, kind):
                hidden = "" if built.running == EDITABLE else shadows.of(top, place)
                if not hidden:
                    continue
                kind = f"{kind}, hides {hidden}"
            edits.append(Edit(place, kind, item.path))
    return edits


def _moved_head(item: Repository, expected: Collection[str]) -> list[Edit]:
    if item.head is None or item.head in expected:
        return []
    return [Edit(item.path or ".", f"at commit {item.head}", item.path)]


def _is_edit(item: Repository, change: Change, traces: MoveTraces | None) -> bool:
    if change.path in item.links() and change.kind == "modified" and not change.staged:
        return False  # a submodule at another commit is judged where it is looked at itself
    if traces is None or change.kind in ("hidden", "unmerged"):
        return True
    return not traces.wrote(change.path)


def in_the_way(repository: Repository, target: Sequence[TreeEntry], traces: MoveTraces | None) -> list[Edit]:
    """Return files that git does not track and a checkout of ``target`` would overwrite without a word."""
    new = {entry.path for entry in target} - {entry.path for entry in repository.entries}
    above = {"/".join(path.split("/")[:end]) for path in new for end in range(1, path.count("/") + 1)}
    found = []
    for change in repository.changes:
        parts = change.path.split("/")
        below = any("/".join(parts[:end]) in new for end in range(1, len(parts) + 1))
        if change.extra and (below or change.path in above) and not (traces and traces.wrote(change.path)):
            found.append(Edit(repository.place(change.path), change.kind, repository.path))
    return found


def refuse(into: Path, edits: Sequence[Edit], pinned: str) -> SourceIntegrityError:
    """Return the error that names the user's work and the ways out."""
    lines = [f"{edit.path} ({edit.kind})" for edit in edits[:_SHOWN]]
    if len(edits) > _SHOWN:
        lines.append(f"and {len(edits) - _SHOWN} more")
    return SourceIntegrityError(
        f"{into} has local changes that are not in the pinned commit {pinned}",
        why="found: " + ", ".join(lines),
        fix=(
            "nothing was changed. Stash the changes, or commit them and pin that commit, or move the "
            "folder away; then run the same command again"
        ),
        commands=_commands(into, edits),
        evidence={"folder": str(into), "edits": [[edit.path, edit.kind] for edit in edits], "pinned": pinned},
    )


def _commands(into: Path, edits: Sequence[Edit]) -> list[str]:
    commands = []
    for repository in dict.fromkeys(edit.repository for edit in edits):
        folder = shlex.quote(str(into / repository))
        kinds = {edit.kind for edit in edits if edit.repository == repository}
        if any(kind.startswith("at commit") for kind in kinds):
            commands.append(f"git -C {folder} switch -c my-work")
        if "hidden" in kinds:
            commands.append(f"git -C {folder} ls-files -v | grep '^[a-zS] '")
        kinds = {kind.partition(",")[0] for kind in kinds}
        if kinds & {"modified", "untracked", "unmerged", "ignored"}:
            # Only by their names: what builds have made stays.
            names = [edit.path for edit in edits if edit.repository == repository]
            inside = [os.path.relpath(name, repository) if repository else name for name in names]
            few = len(names) <= _SHOWN and not kinds - {"untracked", "ignored"}
            which = "--include-untracked"
            if few:
                which = f"--all -- {shlex.join(inside)}"
            elif "ignored" in kinds:
                which = "--all"
            commands.append(f"git -C {folder} stash push {which}")
            commands.append(f"cd {folder} && git switch -c my-work && git add -A && git commit")
    commands.append(f"mv {shlex.quote(str(into))} {shlex.quote(f'{into}.mine')}")
    return list(dict.fromkeys(commands))
