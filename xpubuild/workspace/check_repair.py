"""``check --repair``: removes what is damaged, and has the last install run again, which recreates it.

Files are removed and never written over: a cache or another workspace may have a hard link to one.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from xpubuild.artifacts.installed_repair import KEEP, remove_dist
from xpubuild.artifacts.site_packages import site_packages_of
from xpubuild.engine.files import remove_tree
from xpubuild.engine.journal import Journal
from xpubuild.engine.lock import workspace_lock
from xpubuild.engine.process import Cancel
from xpubuild.engine.redact import MASK
from xpubuild.errors import UsageError
from xpubuild.machine.envmark import write_mark
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.worktree import find_git_dir
from xpubuild.workspace.accounted import Damage, Found, recorded
from xpubuild.workspace.layout import Layout
from xpubuild.workspace.moved import require_in_place
from xpubuild.workspace.shared import open_again
from xpubuild.workspace.status import last_plan

#: What an install makes again after it was removed here.
BY_INSTALL = frozenset({"environment", "package", "wheel", "receipt"})
#: Options of install that only change what is shown, or hand out results once more; these with a value.
_FLAGS = frozenset({"--json", "--dry-run", "--module-default", "-v", "--verbose", "-q", "--quiet"})
_WITH_VALUE = frozenset({"--log-format", "--wheel-dir", "--libtorch", "--module-dir", "--bundle"})


def repair(root: Path, found: Found, cancel: Cancel) -> tuple[Damage, ...]:
    """Remove what is damaged, so that an install recreates it; return what that is.

    Sources are recreated here. What nobody installed stays: it may be the user's.

    Raises:
        UsageError: the workspace was moved or copied.
    """
    with (
        workspace_lock(root, command="xpubuild check --repair", cancel=cancel),
        Journal(Layout(root).journal) as journal,
    ):
        require_in_place(root, journal)
        return tuple(item for item in found.damaged if _repaired(Layout(root), journal, item))


def _repaired(layout: Layout, journal: Journal, item: Damage) -> bool:
    path = Path(item.path)
    if item.kind == "environment" or (item.kind == "package" and item.name in KEEP):
        if item.kind == "package":
            # Nothing can be installed without it: the environment is made again, packages and all.
            write_mark(layout.env, {"state": "damaged"})
        _run_again(journal, ["env"])
    elif item.kind == "package":
        if item.name not in recorded(layout, journal).names:
            return False  # the user's: nothing would install it again
        # Its step sees that its files are gone, and installs them.
        remove_dist(site_packages_of(layout.env), item.name)
    elif item.kind == "wheel":
        remove_tree(path)
        _run_again(journal, _with_users(layout, journal, item.step))
    elif item.kind == "receipt":
        remove_tree(path)
    elif item.kind == "permissions":
        open_again(layout.root, path)
    elif item.kind == "source":
        return _restored(path)
    elif item.kind == "repository":
        aside = path.with_suffix(".damaged")
        remove_tree(aside)
        path.rename(aside)
    else:
        return False
    return True


def _with_users(layout: Layout, journal: Journal, step: str) -> list[str]:
    """Return a step that makes a wheel, those that make another of it, and those that install them."""
    plan, found = last_plan(layout), [step]
    for name in found:
        record = journal.record(name)
        if record is not None and record.published:
            found += [
                user for user, planned in plan.items() if name in planned["needs"] and user not in found
            ]
    return found


def _run_again(journal: Journal, steps: Sequence[str]) -> None:
    for step in steps:
        if journal.record(step) is not None:
            journal.failed(step, "found damaged by xpubuild check")


def _restored(file: Path) -> bool:
    """Write a damaged file of a checkout again from its commit; return whether that was possible.

    It is removed first: what may be linked to it elsewhere keeps its content.
    """
    work_tree = next((folder for folder in file.parents if (folder / ".git").exists()), None)
    git_dir = find_git_dir(work_tree) if work_tree is not None else None
    if work_tree is None or git_dir is None or (file.is_dir() and not file.is_symlink()):
        return False
    file.unlink(missing_ok=True)
    words = ["checkout", "--force", "HEAD", "--", f":(literal){file.relative_to(work_tree).as_posix()}"]
    return Git.open().query(words, git_dir=git_dir, work_tree=work_tree).ok


def install_words(root: Path) -> list[str]:
    """Return the arguments of ``install`` that made the workspace, to run it again.

    Raises:
        UsageError: the journal does not have the command, or a secret was left out of it.
    """
    with Journal(Layout(root).journal, read_only=True) as journal:
        runs = journal.runs()
    words = next((_arguments(run["argv"]) for run in reversed(runs) if "install" in run["argv"][:3]), None)
    if words is None or any(MASK in word for word in words):
        shown = shlex.join(words) if words else (runs[-1]["recipe"] if runs else "RECIPE")
        raise UsageError(
            f"the damaged parts of {root} were removed, and the last install cannot be run again from here",
            why="its command line has a secret, which is not written down" if words else "it is not known",
            fix="run the install again: it makes what was removed, and nothing else",
            commands=(f"xpubuild install {shown} --workspace {shlex.quote(str(root))}",),
        )
    return [*words, "--workspace", str(root), "--quiet"]


def _arguments(argv: Sequence[str]) -> list[str]:
    words = iter(argv[argv.index("install") + 1 :])
    kept: list[str] = []
    for word in words:
        if word in _WITH_VALUE:
            next(words, None)
        elif word not in _FLAGS and word.partition("=")[0] not in _WITH_VALUE:
            kept.append(word)
    return kept
