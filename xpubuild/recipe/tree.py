"""Compares a recipe with the source tree that it pins: versions, pins and submodules. Runs no code of it.

The tree is authoritative: a recipe that does not match it was written for another commit. Files are read as
``machine.readers`` does: no pipe is opened, and no link leads out of the tree.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.version import Version

from xpubuild.errors import RecipeError, UsageError
from xpubuild.frozen import frozen
from xpubuild.machine.readers import read_text
from xpubuild.machine.versions import parse
from xpubuild.recipe.forwarding import ELSEWHERE, forwarded, unread
from xpubuild.recipe.forwarding import FILE as FORWARDING
from xpubuild.recipe.lint import environments
from xpubuild.recipe.model import Recipe
from xpubuild.recipe.switches import switches
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.pin import is_id
from xpubuild.supply.git.worktree import find_git_dir

#: The commit of the XPU kernels that PyTorch clones while it configures.
_XPU_PIN = "third_party/xpu.txt"
TRITON_PIN = ".ci/docker/ci_commit_pins/triton-xpu.txt"
#: Where triton's version is, the one for XPU first: it is ahead of the other in some releases.
TRITON_VERSIONS = (".ci/docker/triton_xpu_version.txt", ".ci/docker/triton_version.txt")
_SUBMODULE = re.compile(r"^\s*path\s*=\s*(.+?)\s*$", re.MULTILINE)
_GIT_TAG = re.compile(r"\bGIT_TAG\s+\"?([\w./-]+)\"?(?=\s|$)")


@frozen
class PinFile:
    """A file of the tree that names the commit or tag of what the build clones or downloads.

    ``key`` is the part of the component in the recipe that says the same.
    """

    file: str
    url: str
    commit: str | None = None
    ref: str | None = None
    key: str = "source.configure_time"


@frozen
class Expected:
    """What a recipe says about the source tree of one of its components."""

    recipe: str
    component: str
    version: str | None = None
    release: str | None = None
    pins: tuple[PinFile, ...] = ()
    triton_commit: str | None = None
    triton_version: str | None = None
    skip: tuple[str, ...] = ()
    commit: str | None = None
    folder: str = "."
    variables: tuple[str, ...] = ()


@dataclass
class TreeReport:
    """What was found: ``problems`` are disagreements, ``not_checked`` what one of the two does not say.

    ``compared`` names what both of them say.
    """

    problems: list[str] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)
    compared: list[str] = field(default_factory=list)
    found: dict[str, Any] = field(default_factory=dict)

    def compare(
        self,
        file: str,
        given: str | None,
        key: str,
        wanted: str | None,
        same: Callable[[str, str], bool] = str.__eq__,
    ) -> None:
        """Compare what a file of the tree says with the value at a key of the recipe."""
        if given is None:
            self.not_checked.append(f"{file}: the tree has none")
        elif wanted is None:
            self.not_checked.append(f"{file}: it says {given}, but {key} is not set")
        else:
            self.compared.append(file)
            if not same(given, wanted):
                self.problems.append(f"{file} says {given}, but {key} is {wanted}")


def expected(recipe: Recipe, component: str) -> Expected:
    """Return what a recipe says about the tree of a component.

    Raises:
        UsageError: it has no such component, or takes it prebuilt.
    """
    chosen = recipe.components.get(component)
    if chosen is None or chosen.source is None or chosen.source.embedded is not None:
        named = [name for name, item in recipe.components.items() if item.source and item.source.url]
        raise UsageError(
            f"recipe '{recipe.name}' has no source tree of '{component}'",
            why=f"components that are built from source: {', '.join(named) or 'none'}",
            fix="put the component before the folder: --tree COMPONENT=DIR",
        )
    source, triton = chosen.source, recipe.components.get("triton") if component == "torch" else None
    pins = [PinFile(item.pin_file, item.url, item.commit, item.ref)
            for item in source.configure_time if item.pin_file and not item.replaces]  # fmt: skip
    pins += [PinFile(item.pin_file, item.url or f"the archive {key}", item.commit, item.ref,
                     f"build.archives.{key}")
             for key, item in chosen.build.archives.items() if item.pin_file]  # fmt: skip
    return Expected(
        recipe=recipe.name,
        component=component,
        version=source.version,
        release=recipe.release if component == "torch" else chosen.version,
        pins=tuple(pins),
        triton_commit=next(
            (item.commit for item in (triton, triton and triton.source) if item and item.commit), None
        ),
        triton_version=triton.version if triton is not None else None,
        skip=tuple(source.skip_submodules),
        commit=source.commit,
        folder=chosen.build.source_dir,
        variables=tuple(
            sorted({key for _, name, env in environments(recipe) if name == component for key in env})
        ),
    )


@frozen
class RecipeTreeProof:
    """The proof of a checkout step that the recipe says of the tree what the tree says of itself."""

    into: str
    wanted: Expected

    def describe(self) -> str:
        """Say what is proved."""
        wanted = self.wanted.component
        return f"version, pin files and variables of {wanted} match the recipe"

    def key(self) -> dict[str, Any]:
        """Return what the proof depends on; the commit is the business of the checkout's own proof.

        Variables are not among it: they change no checkout, and this proof runs in every install.
        """
        wanted = self.wanted
        return {
            "proof": "recipe-tree",
            "into": self.into,
            "version": wanted.version,
            "release": wanted.release,
            "pins": [[pin.file, pin.commit, pin.ref] for pin in wanted.pins],
            "triton": [wanted.triton_commit, wanted.triton_version],
            "skip": sorted(wanted.skip),
            "folder": wanted.folder,
        }

    def check(self) -> dict[str, Any]:
        """Return what the tree says, the pins of what the build will clone among it.

        Raises:
            RecipeError: the recipe says something else; every disagreement names the file and both values.
        """
        report, wanted = _compared(self.wanted, Path(self.into)), self.wanted
        if report.problems:
            raise RecipeError(
                f"recipe '{wanted.recipe}' does not match the source tree of {wanted.component}",
                why="; ".join(report.problems),
                fix="correct the recipe, or pin the commit that it was written for",
                commands=(
                    f"xpubuild recipes check '{wanted.recipe}' --tree '{wanted.component}={self.into}'",
                ),
                evidence={"problems": report.problems, "not_checked": report.not_checked},
            )
        return {**report.found, "not_checked": report.not_checked}


def check_tree(wanted: Expected, tree: Path) -> TreeReport:
    """Compare a recipe with a source tree that somebody names, its commit among the rest.

    Raises:
        UsageError: it has nothing that a wheel is built with, so all would look well.
        ToolchainError: git is missing or too old.
    """
    folder = tree / wanted.folder
    if not (folder / "setup.py").is_file() and not (folder / "pyproject.toml").is_file():
        raise UsageError(
            f"{tree} is not a source tree of {wanted.component}",
            why=f"{folder} has neither setup.py nor pyproject.toml",
            fix="pass the top folder of the checkout",
        )
    report = _compared(wanted, tree)
    git_dir = find_git_dir(tree)
    head = (
        Git.open().query(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"], git_dir=git_dir)
        if git_dir
        else None
    )
    commit = head.text if head is not None and head.ok else None
    report.compare("commit", commit, f"components.{wanted.component}.source.commit", wanted.commit)
    if not report.compared and not report.problems:
        report.problems.append("nothing in the tree could be compared with the recipe")
    return report


def _compared(wanted: Expected, tree: Path) -> TreeReport:
    report, where = TreeReport(), f"components.{wanted.component}.source"
    version = _word(tree, "version.txt")
    report.compare("version.txt", version, f"{where}.version", wanted.version, same_version)
    if version is not None:
        report.found["version"] = version
        if wanted.release is not None:
            built = f"the release of {wanted.component}"
            report.compare("version.txt", version, built, wanted.release, same_release)
    for pin in wanted.pins:
        _pin(wanted, pin, tree, report)
    if wanted.component == "torch":
        if all(pin.file != _XPU_PIN for pin in wanted.pins) and (tree / _XPU_PIN).is_file():
            report.not_checked.append(f"{_XPU_PIN}: the recipe has no configure_time entry for it")
        report.compare(TRITON_PIN, _word(tree, TRITON_PIN), "the commit of triton", wanted.triton_commit)
        file = next((name for name in TRITON_VERSIONS if _word(tree, name)), TRITON_VERSIONS[-1])
        key = "components.triton.version"
        report.compare(file, _word(tree, file), key, wanted.triton_version, same_release)
    for path in wanted.skip:
        _submodule(f"{where}.skip_submodules", path, tree, report)
    _variables(wanted, tree, report)
    return report


def _variables(wanted: Expected, tree: Path, report: TreeReport) -> None:
    """Look for variables of the build that nothing reads, where upstream says itself which it does."""
    listed = forwarded(tree)
    if not listed:
        return
    report.compared.append(FORWARDING)
    lost = unread(tree, wanted.variables, listed)
    for name in sorted(lost):
        near = difflib.get_close_matches(name, {*listed, *ELSEWHERE, *switches()} - lost, n=1, cutoff=0.8)
        report.problems.append(
            f"the build sets {name}, which {FORWARDING} does not forward and no CMake file of the tree reads"
            + (f"; {near[0]} is one" if near else "")
        )
    report.found["variables"] = sorted({*wanted.variables} - lost - ELSEWHERE.keys())


def _word(tree: Path, name: str) -> str | None:
    return next(iter((read_text(tree / name, tree) or "").split()), None)


def _pin(wanted: Expected, pin: PinFile, tree: Path, report: TreeReport) -> None:
    """Compare the commit or tag that a pin file names with the recipe's."""
    text, stated = read_text(tree / pin.file, tree) or "", pin.commit or pin.ref
    given = pinned_by(text)
    for key, value in (("commit", pin.commit), ("ref", pin.ref)):
        if value is not None and not has_word(text, value):
            report.problems.append(
                f"{pin.file} says {given or ('something else' if text else 'nothing')}, the recipe's {key} of"
                f" {pin.url} is {value} (components.{wanted.component}.{pin.key})"
            )
            return
    if stated is None:
        report.not_checked.append(f"{pin.file}: it says {given or 'nothing'}, the recipe leaves it open")
    else:
        report.compared.append(pin.file)
    if found := stated or given:
        kind = "commit" if is_id(found) else "ref"
        report.found.setdefault("pins", []).append({"file": pin.file, "url": pin.url, kind: found})


def _submodule(where: str, path: str, tree: Path, report: TreeReport) -> None:
    """Look for a skipped submodule in the ``.gitmodules`` of the tree and, below it, of its submodules."""
    place, rest = "", path
    while True:
        file = f"{place}.gitmodules"
        text = read_text(tree / file, tree)
        known = _SUBMODULE.findall(text or "")
        above = next((item for item in known if rest.startswith(f"{item}/")), None)
        if text is None:
            report.not_checked.append(f"skip_submodules {path}: the tree has no {file}")
        elif rest in known:
            report.compared.append(f"skip_submodules {path}")
        elif above is None:
            report.problems.append(f"{where} lists {path}, but {file} has no such submodule")
        else:
            place, rest = f"{place}{above}/", rest[len(above) + 1 :]
            continue
        return


def pinned_by(text: str) -> str | None:
    """Return the commit or tag that a pin file names: its only word, or the one GIT_TAG of a CMake file."""
    words = text.split()
    if len(words) == 1:
        return words[0]
    tags = set(_GIT_TAG.findall(text))
    return tags.pop() if len(tags) == 1 else None


def has_word(text: str, value: str) -> bool:
    """Whether a text has a commit or tag as a word: v3.5 is not in v3.5.3."""
    return re.search(rf"(?<![\w./-]){re.escape(value)}(?![\w/-]|\.\w)", text) is not None


def same_version(one: str, other: str) -> bool:
    """Whether two texts are one version; what is none is compared as it is written."""
    return (parse(one) or one) == (parse(other) or other)


def same_release(one: str, other: str) -> bool:
    """Whether two versions are of one release: 2.6.0a0 in a tree is what becomes 2.6.0."""
    left, right = parse(one), parse(other)
    if left is None or right is None:
        return one == other
    return Version(left.base_version) == Version(right.base_version)
