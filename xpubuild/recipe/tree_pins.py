"""Compares the commits, tags and submodules of a source tree with those of its recipe."""

from __future__ import annotations

import re
from pathlib import Path

from xpubuild.recipe.tree_expected import Expected, PinFile
from xpubuild.recipe.tree_report import TreeReport
from xpubuild.recipe.tree_text import has_word, pinned_by, read_text, same_release
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.pin import is_id
from xpubuild.supply.git.worktree import find_git_dir

#: The commit of the XPU kernels that PyTorch clones while it configures.
XPU_PIN = "third_party/xpu.txt"
TRITON_PIN = ".ci/docker/ci_commit_pins/triton-xpu.txt"
#: Where triton's version is, the one for XPU first: it is ahead of the other in some releases.
TRITON_VERSIONS = (".ci/docker/triton_xpu_version.txt", ".ci/docker/triton_version.txt")
_SUBMODULE = re.compile(r"^\s*path\s*=\s*(.+?)\s*$", re.MULTILINE)


def compare_pin(wanted: Expected, pin: PinFile, tree: Path, report: TreeReport) -> None:
    """Hold the commit or tag that a pin file names against the recipe's."""
    file = report.read(tree, pin.file)
    text, stated = file.text, pin.commit or pin.ref
    if text is None or not text.strip():
        told = f"{pin.file}: " + ("the tree has no such file" if text is None else "it is empty")
        if file.problem is None and stated is None:
            report.not_checked.append(told)
        elif file.problem is None:
            report.problems.append(f"{told}, but the recipe pins {pin.url} to {stated}")
        return
    if stated is not None:
        report.compared.append(pin.file)
    said = pinned_by(text)
    if pin.commit is None and pin.ref is None:
        told = (
            f"it says {said}, the recipe leaves it open"
            if said
            else f"it does not state a commit of {pin.url}"
        )
        report.not_checked.append(f"{pin.file}: {told}")
    for key, value in (("commit", pin.commit), ("ref", pin.ref)):
        if value is not None and not has_word(text, value):
            report.problems.append(
                f"{pin.file} says {said or 'something else'}, the recipe's {key} of {pin.url} is {value}"
                f" (components.{wanted.component}.{pin.key})"
            )
            return
    found = pin.commit or pin.ref or said
    if found is not None:
        kind = "commit" if is_id(found) else "ref"
        report.found.setdefault("pins", []).append({"file": pin.file, "url": pin.url, kind: found})


def compare_triton(wanted: Expected, tree: Path, report: TreeReport) -> None:
    """Hold the commit and the version of triton that the tree names against the recipe's."""
    pin = report.read(tree, TRITON_PIN)
    said = pin.word()
    if said is None:
        if pin.problem is None:
            report.not_checked.append(f"{TRITON_PIN}: the tree has none")
    elif wanted.triton_commit is None:
        report.not_checked.append(f"{TRITON_PIN}: it says {said}, but the recipe has no commit of triton")
    else:
        report.compared.append(TRITON_PIN)
        if said != wanted.triton_commit:
            report.problems.append(
                f"{TRITON_PIN} says {said}, the recipe's commit of triton is {wanted.triton_commit}"
            )
    _triton_version(wanted, tree, report)


def _triton_version(wanted: Expected, tree: Path, report: TreeReport) -> None:
    for name in TRITON_VERSIONS:
        file = report.read(tree, name)
        version = file.word()
        if file.problem is not None:
            return
        if version is None:
            continue
        if wanted.triton_version is None:
            report.not_checked.append(f"{name}: it says {version}, but the recipe has no version of triton")
            return
        report.compared.append(name)
        if not same_release(version, wanted.triton_version):
            report.problems.append(
                f"{name} says {version}, but components.triton.version is {wanted.triton_version}"
            )
        return
    report.not_checked.append(f"{TRITON_VERSIONS[1]}: the tree has none")


def look_for_submodule(wanted: Expected, path: str, tree: Path, report: TreeReport) -> None:
    """Look for a skipped submodule in the ``.gitmodules`` of the tree and, below it, of its submodules."""
    where = f"components.{wanted.component}.source.skip_submodules lists {path}"
    place, rest = "", path
    while True:
        file = f"{place}.gitmodules"
        found = read_text(tree, file)
        if found.text is None:
            if found.problem is not None:
                report.problems.append(f"{file} cannot be read: {found.problem}")
            else:
                report.not_checked.append(f"skip_submodules {path}: the tree has no {file}")
            return
        known = _SUBMODULE.findall(found.text)
        if rest in known:
            report.compared.append(f"skip_submodules {path}")
            return
        above = next((item for item in known if rest.startswith(f"{item}/")), None)
        if above is None:
            report.problems.append(f"{where}, but {file} has no such submodule")
            return
        place, rest = f"{place}{above}/", rest[len(above) + 1 :]


def compare_head(wanted: Expected, tree: Path, report: TreeReport) -> None:
    """Hold the commit that is checked out against the recipe's; a tree without git has none.

    Raises:
        ToolchainError: git is missing or too old.
    """
    git_dir = find_git_dir(tree)
    if git_dir is None:
        report.not_checked.append("commit: the tree is not a git checkout")
        return
    answer = Git.open().query(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"], git_dir=git_dir)
    if not answer.ok:
        report.not_checked.append("commit: the checkout has none")
        return
    report.found["commit"] = answer.text
    if wanted.commit is None:
        report.not_checked.append(f"commit: it is {answer.text}, the recipe leaves it open")
        return
    report.compared.append("commit")
    if answer.text != wanted.commit:
        report.problems.append(
            f"the tree is at commit {answer.text}, but components.{wanted.component}.source.commit is "
            f"{wanted.commit}"
        )
