"""What lies in a checkout beside its pin: the work of a build, or a local change, which is not overwritten.

The tree is proved bare, then a note is opened in ``.git`` and the build command started. What is there when
the step ends, and was not before, is the step's. A note that is still open is that of a build which failed or
was killed: what it left is known by the ignore rules of the pin itself, which no file of the user can extend.

A tracked file belongs to xpubuild only while a move is recorded, and only if its content is that of one of
the commits of the move, or the beginning of it (git was killed while it wrote the file). Everything else is a
local change.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from xpubuild.engine.files import read_json, write_json
from xpubuild.errors import SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.git.git import Git, object_format
from xpubuild.supply.git.submodules import GITLINK, SYMLINK, TreeEntry, list_tree
from xpubuild.supply.git.worktree import (
    COMMIT,
    IGNORED,
    UNTRACKED,
    Change,
    Missing,
    Repository,
    find_git_dir,
)

#: The kinds of builds: one that ends, and one whose tree is in use in place when it has ended.
WHEEL, EDITABLE, IN_USE = "wheel", "editable", "in use"
#: The key of the evidence of a build whose tree was proved, before and after it.
BARE = "tree_proved_bare"
_NOTE = "xpubuild-build.json"
_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".inc", ".inl", ".ipp", ".tcc", ".def", ".cuh")
_COMPILED = (".pyc", ".so")
_TEMPLATES = (".in", ".cmake.in", ".cmakein")
_SHOWN = 10


@frozen
class Built:
    """``made`` are names below the top; ``running`` is "" or the kind of a build.

    While a build runs, ``before`` was there and is not its own, and ``besides`` are places that it fills
    although the pin does not ignore them. The tree of an editable install is used in place all the time.
    ``pins`` are pin files that we have written, and what into them.
    """

    made: frozenset[str] = frozenset()
    running: str = ""
    before: frozenset[str] = frozenset()
    besides: tuple[str, ...] = ()
    pins: Mapping[str, str] = field(default_factory=dict)

    @property
    def in_place(self) -> bool:
        """Whether the tree is that of an editable install."""
        return self.running in (EDITABLE, IN_USE)

    def explains(self, place: str, change: Change) -> bool:
        """Whether a file that git does not track is the work of a build step.

        A tracked file of a repository that a build has cloned is not, unless the build has ended that changed
        it: edits are made there as anywhere else.
        """
        if place in self.made:
            return True
        if not self.running or place in self.before:
            return False
        if change.kind == IGNORED:
            return True
        building = self.running != IN_USE and change.kind in (UNTRACKED, COMMIT)
        below = any(f"{place}/".startswith(f"{other}/") for other in self.besides)
        return building and (below or bool(change.clone))

    def made_in(self, found: Sequence[Repository | Missing]) -> frozenset[str]:
        """Return what of a tree the build that runs has made, changed files of what it cloned among it."""
        return frozenset(
            place
            for place, change in extras(found)
            # In a tree in use what the pin ignores is explained without a note.
            if (change.kind != IGNORED or self.running == WHEEL)
            and (self.explains(place, change) or (change.clone and place not in self.before))
        )

    def write(self, git_dir: Path) -> None:
        """Note it in a checkout's ``.git``, on the disk."""
        names = {"made": sorted(self.made), "before": sorted(self.before)}
        write_json(git_dir / _NOTE, {**vars(self), **names})


def read_built(git_dir: Path) -> Built:
    """Return what is noted in a checkout's ``.git``; a note that cannot be read explains nothing."""
    found = read_json(git_dir / _NOTE)
    try:
        made, before = (frozenset(map(str, found[name])) for name in ("made", "before"))
        pins = {str(file): str(word) for file, word in found.get("pins", {}).items()}
        return Built(made, str(found["running"]), before, tuple(map(str, found["besides"])), pins)
    except (TypeError, KeyError, AttributeError):
        return Built()


def add_made(top: Path, file: Path) -> None:
    """Note a file below ``top`` that we have put there ourselves, where ``top`` is a checkout."""
    git_dir = find_git_dir(top)
    if git_dir is not None:
        built = read_built(git_dir)
        replace(built, made=built.made | {file.relative_to(top).as_posix()}).write(git_dir)


def extras(found: Sequence[Repository | Missing]) -> Iterator[tuple[str, Change]]:
    """Yield every file that git does not track, with its name below the top."""
    for item in found:
        if isinstance(item, Repository):
            yield from ((item.place(change.path), change) for change in item.changes if change.extra)


class Shadows:
    """Knows the pinned files that a file beside them would be taken for."""

    def __init__(self, found: Sequence[Repository | Missing]) -> None:
        self._repositories = [item for item in found if isinstance(item, Repository)]

    @functools.cached_property
    def _pinned(self) -> dict[str, TreeEntry]:
        return {item.place(entry.path): entry for item in self._repositories for entry in item.entries}

    @functools.cached_property
    def _folders(self) -> Collection[str]:
        return {path.rpartition("/")[0] for path in self._pinned}

    @functools.cached_property
    def _headers(self) -> dict[str, list[str]]:
        named: dict[str, list[str]] = {}
        for path in self._pinned:
            # PyTorch generates LazyIr.h of aten/src/ATen/templates/LazyIr.h, in another folder.
            if path.endswith(_HEADERS) and "/templates/" not in path:
                named.setdefault(path.rpartition("/")[2], []).append(path)
        return named

    def of(self, top: Path, place: str) -> str:
        """Return the pinned file that a compiler or an interpreter would not read for this one, or ""."""
        folder, _, name = place.rpartition("/")
        stem = name.partition(".")[0]
        if name.endswith(_COMPILED):
            module = f"{place.removesuffix(name).removesuffix('__pycache__/')}{stem}.py"
        else:
            module = f"{folder}.py" if stem == "__init__" else ""
        if module in self._pinned:
            return module
        if not name.endswith(_HEADERS) or folder not in self._folders:
            return ""
        # Made from a template that lies beside it, or a copy: the compiler reads what the pin says.
        if any(place + suffix in self._pinned for suffix in _TEMPLATES):
            return ""
        others = self._headers.get(name, [])
        copied = others and _blob(top / place, self._pinned[others[0]].oid)
        return "" if any(self._pinned[path].oid == copied for path in others) else next(iter(others), "")


def _blob(file: Path, like: str) -> str:
    """Return git's name of a file's content, in the format of another."""
    if not file.is_file():
        return ""
    data = file.read_bytes()
    return hashlib.new(object_format(like), b"blob %d\0" % len(data) + data).hexdigest()


@frozen
class Edit:
    """Something that xpubuild did not put there; ``path`` is below the top, ``repository`` holds it."""

    path: str
    kind: str
    repository: str


class MoveTraces:
    """Knows what a half-done move may have left in one repository."""

    def __init__(self, git: Git, repository: Repository, commits: Iterable[str]) -> None:
        self._git, self._repository = git, repository
        place = repository.git_dir
        asked = ((one, ["cat-file", "-e", f"{one}^{{tree}}"]) for one in sorted(commits))
        here = [one for one, words in asked if git.query(words, git_dir=place).ok]
        self._trees = [(one, {entry.path: entry for entry in list_tree(git, place, one)}) for one in here]

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
        if file.is_symlink() or entry.mode == SYMLINK or not file.is_file():
            linked = file.is_symlink() and entry.mode == SYMLINK
            return linked and os.fsencode(file.readlink()) == self._ask("blob", entry.oid)
        # As a checkout writes it: .gitattributes may ask for other line ends.
        written = self._ask("--filters", f"{commit}:{entry.path}")
        return written is not None and written.startswith(file.read_bytes())

    def _ask(self, how: str, what: str) -> bytes | None:
        item = self._repository
        answer = self._git.query(["cat-file", how, what], git_dir=item.git_dir, work_tree=item.work_tree)
        return answer.stdout if answer.ok else None


def find_edits(
    git: Git, found: Sequence[Repository | Missing], *, expected: Mapping[str, Collection[str]],
    moving: Mapping[str, Collection[str]] | None, built: Built,
) -> list[Edit]:  # fmt: skip
    """Return what would be lost, or built by mistake, if the checkout were moved.

    ``expected`` is path -> commits at which HEAD may be; ``moving`` the noted move; ``built`` is
    what builds have made in the tree. The first of ``found`` is the top.
    """
    edits, shadows = [], Shadows(found)
    top = next((item.work_tree for item in found if isinstance(item, Repository)), Path())
    for item in found:
        if isinstance(item, Missing):
            edits += [Edit(item.path, UNTRACKED, item.path)] if item.files else []
            continue
        if item.head is not None and item.head not in expected.get(item.path, ()):
            edits.append(Edit(item.path or ".", f"at commit {item.head}", item.path))
        traces = None if moving is None else MoveTraces(git, item, moving.get(item.path, ()))
        for change in item.changes:
            place, kind = item.place(change.path), change.kind
            if not _is_edit(item, change, traces):
                continue
            if change.extra and built.explains(place, change):
                hidden = "" if built.in_place else shadows.of(top, place)
                if not hidden:
                    continue
                kind = f"{kind}, hides {hidden}"
            holder = item.place(change.clone.rstrip("/")) if change.clone else item.path
            edits.append(Edit(place, kind, holder))
    return edits


def _is_edit(item: Repository, change: Change, traces: MoveTraces | None) -> bool:
    if change.path in item.links() and change.kind == "modified" and not change.staged:
        return False  # a submodule at another commit is judged where it is looked at itself
    return traces is None or change.kind in ("hidden", "unmerged") or not traces.wrote(change.path)


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


def refuse(into: Path, edits: Sequence[Edit], pinned: str) -> None:
    """Do nothing without edits.

    Raises:
        SourceIntegrityError: there are some; names the user's work and the ways out.
    """
    if not edits:
        return
    lines = [f"{edit.path} ({edit.kind})" for edit in edits[:_SHOWN]]
    if len(edits) > _SHOWN:
        lines.append(f"and {len(edits) - _SHOWN} more")
    raise SourceIntegrityError(
        f"{into} has local changes that are not in the pinned commit {pinned}",
        why="found: " + ", ".join(lines),
        fix=(
            "nothing was changed. To build with the changes, pass --allow-dirty. To build the pinned commit, "
            "stash them, or move the folder away; then run the same command again"
        ),
        commands=_commands(into, edits),
        evidence={"folder": str(into), "edits": [[edit.path, edit.kind] for edit in edits], "pinned": pinned},
    )


def _commands(into: Path, edits: Sequence[Edit]) -> list[str]:
    commands = []
    for repository in dict.fromkeys(edit.repository for edit in edits):
        here = [edit for edit in edits if edit.repository == repository]
        folder, kinds = shlex.quote(str(into / repository)), {edit.kind.partition(",")[0] for edit in here}
        if COMMIT in kinds or any(kind.startswith("at commit") for kind in kinds):
            commands.append(f"git -C {folder} switch -c my-work")
        if "hidden" in kinds:
            commands.append(f"git -C {folder} ls-files -v | grep '^[a-zS] '")
        files = {"modified", "unmerged", UNTRACKED, IGNORED}
        if kinds & files:
            which = "--include-untracked"
            if IGNORED in kinds or not kinds - {UNTRACKED}:
                # Only by their names: what builds have made stays.
                paths = [edit.path for edit in here if edit.kind.partition(",")[0] in files]
                names = [os.path.relpath(path, repository or ".") for path in paths[:_SHOWN]]
                which = f"--all -- {shlex.join(names)}"
            commands.append(f"git -C {folder} stash push {which}")
    return [*dict.fromkeys(commands), f"mv {shlex.quote(str(into))} {shlex.quote(f'{into}.mine')}"]
