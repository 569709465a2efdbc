"""Checks out one repository of a tree: creates it if missing, takes objects from the mirror, files by git."""

from __future__ import annotations

import os
import shlex
import threading
import uuid
from dataclasses import field
from pathlib import Path

from xpubuild.engine.files import explained, remove_tree
from xpubuild.errors import SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.discover import Node, SourceTree
from xpubuild.supply.git.failures import diagnose, error_for, require
from xpubuild.supply.git.git import Git, Report, object_format
from xpubuild.supply.git.gitconfig import add_settings
from xpubuild.supply.git.leftovers import remove_leftovers
from xpubuild.supply.git.parallel import visit_all
from xpubuild.supply.git.worktree import find_git_dir

#: What keeps the files equal to the blobs also for the git that the user runs in the checkout later.
_SETTINGS = (("core.autocrlf", "false"), ("core.eol", "lf"), ("core.safecrlf", "false"))
_ORIGIN = (("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),)
_OURS = "xpubuild.url"
_TRASH = "xpubuild-trash"


@frozen
class Populate:
    """Fills the checkout at ``top``; ``hold`` is its lock, which every git that writes keeps."""

    store: RepositoryStore
    tree: SourceTree
    top: Path
    report: Report
    hold: tuple[int, ...]
    _config: threading.Lock = field(default_factory=threading.Lock)

    @property
    def _git(self) -> Git:
        return self.store.git

    def everything(self, jobs: int) -> None:
        """Check out the top, then its submodules, then theirs.

        Raises:
            FetchError, NoSpaceError, SourceIntegrityError, ToolchainError, InterruptedByUserError.
        """

        def visit(node: Node) -> list[Node]:
            self.make(node)
            self.deliver(node)
            self._check_out(node)
            return self.tree.children(node.path)

        def progress(done: int, _known: int, node: Node) -> None:
            total = len(self.tree.nodes)
            if total > 1:
                self.report(f"Checking out: {100 * done // total}% ({done}/{total}), {node.path or node.url}")

        visit_all(self.tree.nodes[0], visit, jobs=jobs, cancel=self.store.cancel, on_progress=progress)

    def make(self, node: Node) -> None:
        """Make the repository of a node where it is missing, and name its origin."""
        git_dir = find_git_dir(self.top / node.path)
        if git_dir is None:
            git_dir = self._create(node)
        else:
            self._follow_url(node, git_dir)
        parent = None if node.parent is None else find_git_dir(self.top / node.parent)
        if parent is not None and self._get(git_dir, _OURS):
            with self._config:  # siblings write to one file, which git locks without waiting
                self._set(parent, f"submodule.{node.name}.url", node.url)

    def deliver(self, node: Node) -> None:
        """Bring the objects of a node's commit into its repository, where they are not there yet."""
        git_dir = self._git_dir(node)
        whole = ["rev-list", "--objects", "--quiet", "--no-walk", node.commit]
        if self._git.query(whole, git_dir=git_dir).ok:
            return
        mirror = self.tree.mirror(self.store, node)
        mirror.deliver(node.commit, git_dir, ref=node.ref, report=self._for(node), hold=self.hold)

    def remove_submodule(self, path: str) -> None:
        """Remove the work tree of a submodule that the pin has not; its repository stays in ``.git``."""
        trash = self._top_git_dir() / _TRASH
        with explained(trash, "removing a submodule"):
            trash.mkdir(exist_ok=True)
            # Renamed first: a half-removed folder would look like somebody's deletions.
            (self.top / path).rename(trash / uuid.uuid4().hex)
        self.empty_trash()

    def empty_trash(self) -> None:
        """Remove what ``remove_submodule`` put aside, also what a killed run left there."""
        remove_tree(self._top_git_dir() / _TRASH)

    def _check_out(self, node: Node) -> None:
        git_dir, work_tree = self._git_dir(node), self.top / node.path
        run = self._git.run(
            ["checkout", "--force", "--detach", "--progress", node.commit],
            git_dir=git_dir,
            work_tree=work_tree,
            report=self._for(node),
            cancel=self.store.cancel,
            hold=self.hold,
        )
        if run.ok:
            return
        failure = diagnose(run)
        if failure.reason == "no-space":
            raise error_for(failure, str(work_tree), node.commit)
        raise SourceIntegrityError(
            f"{work_tree} could not be checked out at {node.commit}",
            why="; ".join(failure.lines) or run.result.describe(),
            fix="if you do not need its content, move the folder away and run the same command again",
            evidence={"folder": str(work_tree), "git": list(failure.lines)},
        )

    def _create(self, node: Node) -> Path:
        work_tree = self.top / node.path
        options = ["--quiet", "--template=", f"--object-format={object_format(node.commit)}"]
        with explained(work_tree, "making a checkout"):
            if node.parent is None:
                self._must(["init", *options, str(work_tree)])
                git_dir = work_tree / ".git"
            else:
                git_dir = self._create_below(node, work_tree, options)
            self._settle(node, git_dir, work_tree)
            if node.parent is not None:
                # Last: with this file the submodule is there, and HEAD and configuration have to be.
                dot_git = work_tree / ".git"
                link = f"gitdir: {os.path.relpath(git_dir, work_tree)}\n"
                dot_git.write_text(link, "utf-8", "surrogateescape")
        return git_dir

    def _create_below(self, node: Node, work_tree: Path, options: list[str]) -> Path:
        """Make a submodule's repository where git keeps it, with relative paths so that the tree can move."""
        parent = find_git_dir(self.top / (node.parent or "")) or self._top_git_dir()
        git_dir = parent / "modules" / node.name
        self._require_inside(work_tree)
        work_tree.mkdir(parents=True, exist_ok=True)
        git_dir.mkdir(parents=True, exist_ok=True)
        remove_leftovers(git_dir)  # of an earlier try that was killed; nobody else writes under our lock
        if not self._is_settled(git_dir):  # else it is there from an earlier pin
            self._must(["init", *options, "--bare", str(git_dir)])
            self._set(git_dir, "core.bare", "false")
        return git_dir

    def _is_settled(self, git_dir: Path) -> bool:
        return (git_dir / "HEAD").exists() and bool(self._get(git_dir, _OURS))

    def _settle(self, node: Node, git_dir: Path, work_tree: Path) -> None:
        settings = [*_SETTINGS, (_OURS, node.url), *_ORIGIN, ("remote.origin.url", node.url)]
        if node.parent is not None:
            where = os.path.relpath(work_tree, git_dir)
            settings.append(("core.worktree", where))
        if self._is_settled(git_dir):
            for key, value in settings:
                self._set(git_dir, key, value)
        else:
            add_settings(git_dir, settings)

    def _follow_url(self, node: Node, git_dir: Path) -> None:
        """Follow a changed URL, unless the user has pointed origin elsewhere."""
        ours, origin = self._get(git_dir, _OURS), self._get(git_dir, "remote.origin.url")
        if ours and ours == origin and ours != node.url:
            self._set(git_dir, "remote.origin.url", node.url)
            self._set(git_dir, _OURS, node.url)

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

    def _git_dir(self, node: Node) -> Path:
        git_dir = find_git_dir(self.top / node.path)
        if git_dir is None:
            raise SourceIntegrityError(
                f"{self.top / node.path} lost its repository while it was being checked out",
                why="its .git was removed or is broken: another program writes to this folder",
                fix="stop that program and run the same command again",
            )
        return git_dir

    def _top_git_dir(self) -> Path:
        return find_git_dir(self.top) or self.top / ".git"

    def _for(self, node: Node) -> Report:
        return self.report if node.parent is None else _silent

    def _get(self, git_dir: Path, key: str) -> str:
        return self._git.query(["config", "--get", key], git_dir=git_dir).text

    def _set(self, git_dir: Path, key: str, value: str) -> None:
        self._must(["config", key, value], git_dir)

    def _must(self, args: list[str], git_dir: Path | None = None) -> None:
        require(self._git.query(args, git_dir=git_dir), f"making the checkout {self.top}")


def _silent(line: str) -> None:
    """Drop a line: the counted progress of the whole tree says more."""
