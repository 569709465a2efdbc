"""Pinned checkouts: the exact tree of a pin with its submodules; local changes are never overwritten.

A new checkout is made in a temporary folder and renamed when it is complete, so an interrupted one is never
visible. An existing one is moved in place; build outputs and the user's branches are kept. The order makes
that safe against a kill: check for local changes, fetch all objects, check for ignored files that would be
overwritten, record the move in ``.git``, and only then change a file. While the note is there, files that
have what one of the noted commits has are traces, and the same call carries on.
"""

from __future__ import annotations

import os
import shlex
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from xpubuild.engine.files import explained, fsync_dir, remove_tree, sync_filesystems
from xpubuild.engine.process import Cancel
from xpubuild.errors import SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.git import worktree
from xpubuild.supply.git.bare import RepositoryStore, Retry, remove_leftovers
from xpubuild.supply.git.edits import Edit, MoveTraces, find_edits, in_the_way, read_built, refuse
from xpubuild.supply.git.failures import diagnose, error_for, require
from xpubuild.supply.git.git import Git, Report, locked, object_format
from xpubuild.supply.git.integrity import verify_checkout
from xpubuild.supply.git.pin import Pin
from xpubuild.supply.git.submodules import Node, SourceTree, discover, list_tree, visit_all

#: What keeps the files equal to the blobs also for the git that the user runs in the checkout later.
_SETTINGS = {
    "core.autocrlf": "false", "core.eol": "lf", "core.safecrlf": "false",
    "remote.origin.fetch": "+refs/heads/*:refs/remotes/origin/*",
}  # fmt: skip
_OURS = "xpubuild.url"
_TRASH = "xpubuild-trash"

_Moving = Mapping[str, set[str]] | None
#: The repositories of a checkout, and the move that is under way.
_Seen = tuple[tuple[worktree.Repository | worktree.Missing, ...], _Moving]


@frozen
class CheckoutReport:
    """What a checkout did. ``action`` is made, moved or unchanged; ``fetched`` are the URLs that went over
    the network; ``evidence`` is what ``verify_checkout`` returns.
    """

    action: str
    fetched: tuple[str, ...]
    evidence: Mapping[str, Any]


def checkout(
    pin: Pin, into: Path, *, cache: Path, jobs: int, env: Mapping[str, str], report: Report,
    cancel: Cancel | None = None, offline: bool = False, retry: Retry | None = None,
    stocks: tuple[Path, ...] = (),
) -> CheckoutReport:  # fmt: skip
    """Make ``into`` be the tree of ``pin``; the network is used for what the mirrors below ``cache`` lack.

    ``env`` is the whole environment (``base_environment()``). ``report`` gets lines to show, one at a time,
    from several threads. ``stocks`` are folders that ``xpubuild fetch`` has filled. Safe to
    call again after a kill at any moment, and from several processes at once.

    Raises:
        FetchError: something could not be fetched.
        SourceIntegrityError: the user's work is in the way, or what came is not what the pin says.
        RecipeError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    place, one = into.resolve(), threading.Lock()
    linked = Cancel(cancel)

    def say(text: str) -> None:
        with one:
            report(text)

    store = RepositoryStore(cache, Git.open(env), offline, stocks, retry or Retry(), linked)
    with locked(_beside(place, "lock"), cancel=linked, report=say, use=f"uses {place}") as fd:
        work = _Work(store, pin, place, jobs, say, (fd,))
        seen = work.look()
        action, fetched = ("made", work.make()) if seen is None else work.move(*seen)
        evidence = verify_checkout(place, pin, git=store.git)
    return CheckoutReport(action, fetched, evidence)


def _beside(place: Path, what: str) -> Path:
    return place.with_name(f".{place.name}.xpubuild-{what}")


@frozen
class _Work:
    """The work on the checkout at ``top``; ``hold`` is its lock, which every git that writes keeps."""

    store: RepositoryStore
    pin: Pin
    top: Path
    jobs: int
    report: Report
    hold: tuple[int, ...]
    config: threading.Lock = field(default_factory=threading.Lock)

    def look(self) -> _Seen | None:
        """Return what is in the checkout that is there; None where one has to be made.

        A damaged one that nobody wrote to since it was finished goes out of the way.

        Raises:
            SourceIntegrityError: something is not as it was checked out, or git cannot read it.
        """
        git_dir = worktree.find_git_dir(self.top)
        try:
            if git_dir is not None:
                moving = worktree.read_move(git_dir)
                skip = self.pin.skip
                found = tuple(worktree.walk(self.store.git, self.top, git_dir, submodules=True, skip=skip))
                self._require_no_edits(found, moving, git_dir)
                return found, moving
            why = f"{self.top} is no git repository any more"
        except SourceIntegrityError as error:
            if not worktree.is_untouched(self.top):
                raise
            why = error.what
        if worktree.is_untouched(self.top):
            aside = _beside(self.top, "damaged")
            self.report(f"{why}; it is damaged and was not edited: it is kept as {aside} and made again")
            remove_tree(aside)
            with explained(self.top, "setting a damaged checkout aside"):
                self.top.rename(aside)
        return None

    def _require_no_edits(
        self, found: Sequence[worktree.Repository | worktree.Missing], moving: _Moving, git_dir: Path
    ) -> None:
        expected = {path: set(commits) for path, commits in (moving or {}).items()}
        own = {self.pin.commit, worktree.read_done(git_dir) or self.pin.commit}
        expected[""] = expected.get("", set()) | own
        for item in found:
            if isinstance(item, worktree.Missing):
                continue
            for link, commit in item.links().items():
                expected.setdefault(item.place(link), set()).add(commit)
            if not item.path and item.head:
                # No commit would be left where the pin's history, as far as it is here, contains HEAD.
                ancestor = ["merge-base", "--is-ancestor", item.head, self.pin.commit]
                expected[""] |= {item.head} if self.store.git.query(ancestor, git_dir=git_dir).ok else set()
        built = read_built(git_dir)
        edits = find_edits(self.store.git, found, expected=expected, moving=moving, built=built)
        refuse(self.top, edits, self.pin.commit)

    def make(self) -> tuple[str, ...]:
        """Make a new checkout; return the URLs that were asked."""
        place, new = self.top, _beside(self.top, "new")
        if place.exists() and not (place.is_dir() and not any(place.iterdir())):
            raise SourceIntegrityError(
                f"{place} already exists and is not a checkout",
                why="it is not a git repository, so xpubuild does not overwrite it",
                fix="move it away, then run the same command again",
                commands=(f"mv {shlex.quote(str(place))} {shlex.quote(f'{place}.mine')}",),
                evidence={"folder": str(place)},
            )
        tree = discover(self.store, self.pin, jobs=self.jobs, report=self.report)
        remove_tree(new)
        with explained(new, "making a checkout"):
            new.mkdir(parents=True)
        replace(self, top=new)._populate(tree)
        # What the rename shows must be on the disk before it: git flushes none of the files.
        sync_filesystems([new, self.store.cache])
        worktree.write_done(new / ".git", self.pin.commit)
        with explained(place, "putting a checkout in its place"):
            new.rename(place)  # over an empty folder, too
            fsync_dir(place.parent)
        return tree.fetched

    def move(
        self, found: Sequence[worktree.Repository | worktree.Missing], moving: _Moving
    ) -> tuple[str, tuple[str, ...]]:
        """Go on from what ``look`` saw; return what was done (moved or unchanged) and the URLs asked.

        Raises:
            SourceIntegrityError: the user's work is in the way; nothing was changed.
            FetchError, NoSpaceError, RecipeError, ToolchainError, InterruptedByUserError.
        """
        repositories = {item.path: item for item in found if isinstance(item, worktree.Repository)}
        if moving is None and self._is_there(repositories):
            return "unchanged", ()
        tree = discover(self.store, self.pin, jobs=self.jobs, report=self.report)
        for item in repositories.values() if moving is not None else ():
            remove_leftovers(item.git_dir)
        for node in tree.nodes:
            if node.path in repositories:
                self._deliver(node)
        edits: list[Edit] = []
        commits = {path: set(ids) for path, ids in (moving or {}).items()}
        for path, item in repositories.items():
            commits.setdefault(path, set()).update({item.head} if item.head else ())
        for node in tree.nodes:
            commits.setdefault(node.path, set()).add(node.commit)
            old = repositories.get(node.path)
            if old is not None and old.head != node.commit:
                git, known = self.store.git, (moving or {}).get(node.path, ())
                traces = None if moving is None else MoveTraces(git, old, known)
                edits += in_the_way(old, list_tree(git, old.git_dir, node.commit), traces)
        refuse(self.top, edits, self.pin.commit)
        git_dir, trash = self._git_dir(""), self._git_dir("") / _TRASH
        worktree.write_move(git_dir, commits)
        gone = set(repositories) - {node.path for node in tree.nodes} if self.pin.submodules else set()
        for path in sorted(gone):
            # Its repository stays in .git. Renamed first: a half-removed folder would look like somebody's
            # deletions. One that lies in another goes with it.
            if not any(path.startswith(f"{other}/") for other in gone):
                with explained(trash, "removing a submodule"):
                    trash.mkdir(exist_ok=True)
                    (self.top / path).rename(trash / uuid.uuid4().hex)
                remove_tree(trash)
        self._populate(tree)
        remove_tree(trash)
        sync_filesystems([self.top, self.store.cache])
        worktree.write_done(git_dir, self.pin.commit)
        return "moved", tree.fetched

    def _is_there(self, repositories: Mapping[str, worktree.Repository]) -> bool:
        heads, wanted = {path: item.head for path, item in repositories.items()}, {"": self.pin.commit}
        if not self.pin.submodules:
            return heads[""] == self.pin.commit
        for item in repositories.values():
            wanted |= {item.place(link): commit for link, commit in item.links().items()}
        skip = self.pin.skip
        return heads == {path: wanted[path] for path in wanted if path in heads or path not in skip}

    def _populate(self, tree: SourceTree) -> None:
        """Check out the top, then its submodules, then theirs.

        Raises:
            FetchError, NoSpaceError, SourceIntegrityError, ToolchainError, InterruptedByUserError.
        """

        def visit(node: Node) -> list[Node]:
            self._make(node)
            self._deliver(node)
            self._check_out(node)
            return [below for below in tree.nodes if below.parent == node.path]

        def progress(done: int, _known: int, node: Node) -> None:
            total = len(tree.nodes)
            if total > 1:
                self.report(f"Checking out: {100 * done // total}% ({done}/{total}), {node.path or node.url}")

        visit_all(tree.nodes[0], visit, jobs=self.jobs, cancel=self.store.cancel, on_progress=progress)

    def _make(self, node: Node) -> None:
        """Make the repository of a node where it is missing, and name its origin."""
        git_dir = worktree.find_git_dir(self.top / node.path)
        if git_dir is None:
            git_dir = self._create(node)
        else:
            # Follow a changed URL, unless the user has pointed origin elsewhere.
            owned, origin = self._get(git_dir, _OURS), self._get(git_dir, "remote.origin.url")
            if owned and owned == origin and owned != node.url:
                self._configure(git_dir, {"remote.origin.url": node.url, _OURS: node.url})
        if node.parent is not None and self._get(git_dir, _OURS):
            with self.config:  # siblings write to one file, which git locks without waiting
                self._configure(self._git_dir(node.parent), {f"submodule.{node.name}.url": node.url})

    def _create(self, node: Node) -> Path:
        work_tree, git_dir = self.top / node.path, self.top / ".git"
        options = ["init", "--quiet", "--template=", f"--object-format={object_format(node.commit)}"]
        settings = {**_SETTINGS, _OURS: node.url, "remote.origin.url": node.url}
        with explained(work_tree, "making a checkout"):
            if node.parent is None:
                self._must([*options, str(work_tree)])
                self._configure(git_dir, settings)
                return git_dir
            # Where git keeps a submodule's repository, with relative paths so that the tree can move.
            git_dir = self._git_dir(node.parent) / "modules" / node.name
            settings["core.worktree"] = os.path.relpath(work_tree, git_dir)
            self._require_inside(work_tree)
            work_tree.mkdir(parents=True, exist_ok=True)
            git_dir.mkdir(parents=True, exist_ok=True)
            remove_leftovers(git_dir)  # of an earlier try that was killed; nobody else writes under our lock
            if not ((git_dir / "HEAD").exists() and self._get(git_dir, _OURS)):  # none from an earlier pin
                self._must([*options, "--bare", str(git_dir)])
            self._configure(git_dir, {"core.bare": "false", **settings})
            # Last: with this file the submodule is there, and HEAD and configuration have to be.
            link = f"gitdir: {os.path.relpath(git_dir, work_tree)}\n"
            (work_tree / ".git").write_text(link, "utf-8", "surrogateescape")
        return git_dir

    def _require_inside(self, work_tree: Path) -> None:
        """Refuse a path through a symbolic link: the files would land outside of the checkout."""
        for folder in (work_tree, *work_tree.parents):
            if folder == self.top:
                return
            if folder.is_symlink():
                raise SourceIntegrityError(
                    f"{folder} is a symbolic link where a submodule's folder must be",
                    why="its files would be written outside the checkout",
                    fix="remove the link and run the same command again",
                    commands=(f"ls -l {shlex.quote(str(folder))}",),
                )

    def _deliver(self, node: Node) -> None:
        """Copy the objects of a node's commit into its repository, where they are not there yet."""
        git_dir = self._git_dir(node.path)
        if not self.store.git.is_whole(git_dir, node.commit):
            mirror = self.store.mirror(node.url, node.commit)
            mirror.deliver(node.commit, git_dir, report=self._for(node), hold=self.hold)

    def _check_out(self, node: Node) -> None:
        work_tree = self.top / node.path
        run = self.store.git.run(
            ["checkout", "--force", "--detach", "--progress", node.commit],
            git_dir=self._git_dir(node.path), work_tree=work_tree, report=self._for(node),
            cancel=self.store.cancel, hold=self.hold,
        )  # fmt: skip
        if run.ok:
            return
        failure = diagnose(run)
        if failure.reason == "no-space":
            raise error_for(failure, str(work_tree), node.commit)
        raise SourceIntegrityError(
            f"{work_tree} could not be checked out at {node.commit}",
            why="; ".join(failure.lines) or run.describe(),
            fix="if you do not need its content, move the folder away and run the same command again",
            evidence={"folder": str(work_tree), "git": list(failure.lines)},
        )

    def _git_dir(self, path: str) -> Path:
        git_dir = worktree.find_git_dir(self.top / path)
        if git_dir is None:
            raise SourceIntegrityError(
                f"{self.top / path} lost its repository while it was being checked out",
                why="its .git was removed or is broken: another program writes to this folder",
                fix="stop that program and run the same command again",
            )
        return git_dir

    def _for(self, node: Node) -> Report:
        """Leave out the lines of submodules: the counted progress of the whole tree says more."""
        return self.report if node.parent is None else lambda _: None

    def _get(self, git_dir: Path, key: str) -> str:
        return self.store.git.query(["config", "--get", key], git_dir=git_dir).text

    def _configure(self, git_dir: Path, settings: Mapping[str, str]) -> None:
        for key, value in settings.items():
            self._must(["config", key, value], git_dir)

    def _must(self, args: list[str], git_dir: Path | None = None) -> None:
        require(self.store.git.query(args, git_dir=git_dir), f"making the checkout {self.top}")
