"""A recipe held against the source tree that it pins: versions, pins and submodules, read and never run.

What the tree says counts: a recipe that disagrees with it was written for another commit, and would build
something else than it says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet

from xpubuild.errors import RecipeError, UsageError
from xpubuild.recipe.model import Recipe
from xpubuild.recipe.setup_py import requires_python
from xpubuild.recipe.tree_text import FileText, has_word, pinned_by, read_text, same_release, same_version
from xpubuild.source.git import Git
from xpubuild.source.pin import is_id
from xpubuild.source.worktree import find_git_dir

_XPU_PIN = "third_party/xpu.txt"
_TRITON_PIN = ".ci/docker/ci_commit_pins/triton-xpu.txt"
#: Where triton's version is, the one for XPU first: it is ahead of the other in some releases.
_TRITON_VERSIONS = (".ci/docker/triton_xpu_version.txt", ".ci/docker/triton_version.txt")
_SUBMODULE = re.compile(r"^\s*path\s*=\s*(.+?)\s*$", re.MULTILINE)
_PYTHONS = tuple(f"3.{minor}" for minor in range(6, 21))


@dataclass(frozen=True)
class PinFile:
    """A file of the tree that names the commit or tag of a repository cloned while configuring."""

    file: str
    url: str
    commit: str | None = None
    ref: str | None = None


@dataclass(frozen=True)
class Expected:
    """What a recipe says about the source tree of one of its components."""

    recipe: str
    component: str
    version: str | None = None
    release: str | None = None
    requires_python: str | None = None
    python: str | None = None
    pins: tuple[PinFile, ...] = ()
    triton_commit: str | None = None
    triton_version: str | None = None
    skip: tuple[str, ...] = ()
    commit: str | None = None
    folder: str = "."

    def key(self) -> dict[str, Any]:
        """Return what a check depends on, as JSON; the commit is the business of the checkout's own proof."""
        return {
            "version": self.version,
            "release": self.release,
            "requires_python": self.requires_python,
            "python": self.python,
            "pins": [[pin.file, pin.commit, pin.ref] for pin in self.pins],
            "triton": [self.triton_commit, self.triton_version],
            "skip": sorted(self.skip),
            "folder": self.folder,
        }


@dataclass
class TreeReport:
    """What was found: ``problems`` are disagreements, ``not_checked`` what one of the two does not say.

    ``compared`` names what both of them say.
    """

    problems: list[str] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)
    compared: list[str] = field(default_factory=list)
    found: dict[str, Any] = field(default_factory=dict)


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
            why=f"built from source are: {', '.join(named) or 'none'}",
            fix="name the component before the folder: --tree COMPONENT=DIR",
        )
    source, triton = chosen.source, recipe.components.get("triton") if component == "torch" else None
    return Expected(
        recipe=recipe.name,
        component=component,
        version=source.version,
        release=recipe.release if component == "torch" else chosen.version,
        requires_python=source.requires_python,
        # What the recipe needs is said of torch; pip itself holds other wheels against the interpreter.
        python=recipe.needs.python if component == "torch" else None,
        pins=tuple(
            PinFile(item.pin_file, item.url, item.commit, item.ref)
            for item in source.configure_time
            if item.pin_file is not None
        ),
        triton_commit=(triton.commit or (triton.source.commit if triton.source else None))
        if triton
        else None,
        triton_version=triton.version if triton is not None else None,
        skip=tuple(source.skip_submodules),
        commit=source.commit,
        folder=chosen.build.source_dir,
    )


def require_tree(wanted: Expected, tree: Path) -> None:
    """Refuse a folder that is no source tree, where nothing would be checked and all would look well.

    Raises:
        UsageError: it has nothing that a wheel is built with.
    """
    folder = tree / wanted.folder
    if not (folder / "setup.py").is_file() and not (folder / "pyproject.toml").is_file():
        raise UsageError(
            f"{tree} is no source tree of {wanted.component}",
            why=f"{folder} has neither setup.py nor pyproject.toml",
            fix="name the top folder of the checkout",
        )


def check_tree(wanted: Expected, tree: Path, *, head: bool = True) -> TreeReport:
    """Hold a recipe against a source tree that somebody names.

    Without ``head`` it is a checkout that was proved to be of the recipe's commit: that is not compared
    again, and the tree may be silent about all the rest.

    Raises:
        ToolchainError: git is missing or too old.
    """
    report = TreeReport()
    _version(wanted, tree, report)
    _python(wanted, tree, report)
    for pin in wanted.pins:
        _pin(wanted, pin, tree, report)
    if wanted.component == "torch":
        if all(pin.file != _XPU_PIN for pin in wanted.pins) and (tree / _XPU_PIN).is_file():
            report.not_checked.append(f"{_XPU_PIN}: the recipe has no configure_time entry for it")
        _triton(wanted, tree, report)
    for path in wanted.skip:
        _submodule(wanted, path, tree, report)
    if head:
        _head(wanted, tree, report)
        if not report.compared and not report.problems:
            report.problems.append("nothing in the tree could be held against the recipe")
    return report


@dataclass(frozen=True)
class RecipeTreeProof:
    """The proof of a checkout step that the recipe says of the tree what the tree says of itself."""

    into: str
    wanted: Expected

    def describe(self) -> str:
        """Say what is proved."""
        return f"version, Python requirement and pin files of {self.wanted.component} are those of the recipe"

    def key(self) -> dict[str, Any]:
        """Return what the proof depends on."""
        return {"proof": "recipe-tree", "into": self.into, **self.wanted.key()}

    def check(self) -> dict[str, Any]:
        """Return what the tree says, the pins of what the build will clone among it.

        Raises:
            RecipeError: the recipe says something else; every disagreement names the file and both values.
        """
        report = check_tree(self.wanted, Path(self.into), head=False)
        if report.problems:
            raise disagreement(self.wanted, Path(self.into), report)
        return {**report.found, "not_checked": report.not_checked}


def disagreement(wanted: Expected, tree: Path, report: TreeReport) -> RecipeError:
    """Return the error of a recipe that disagrees with its tree."""
    return RecipeError(
        f"recipe '{wanted.recipe}' disagrees with the source tree of {wanted.component}",
        why="; ".join(report.problems),
        fix="mend the recipe, or pin the commit that it was written for",
        commands=(f"xpubuild recipes check '{wanted.recipe}' --tree '{wanted.component}={tree}'",),
        evidence={"problems": report.problems, "not_checked": report.not_checked},
    )


def _file(tree: Path, name: str, report: TreeReport) -> FileText:
    """Read a file of the tree; one that is there and cannot be read is no file that says nothing."""
    found = read_text(tree, name)
    if found.problem is not None:
        report.problems.append(f"{name} cannot be read: {found.problem}")
    return found


def _version(wanted: Expected, tree: Path, report: TreeReport) -> None:
    file = _file(tree, "version.txt", report)
    said = file.word()
    if said is None:
        if file.problem is None:
            report.not_checked.append("version.txt: the tree has none")
        return
    report.found["version"] = said
    where = f"version.txt says {said}"
    if wanted.version is None and wanted.release is None:
        report.not_checked.append(f"version.txt: it says {said}, the recipe names no version")
        return
    report.compared.append("version.txt")
    if wanted.version is not None and not same_version(said, wanted.version):
        report.problems.append(f"{where}, components.{wanted.component}.source.version is {wanted.version}")
    elif wanted.release is not None and not same_release(said, wanted.release):
        report.problems.append(f"{where}, the recipe builds {wanted.component} {wanted.release}")


def _python(wanted: Expected, tree: Path, report: TreeReport) -> None:
    said = requires_python(tree, wanted.folder)
    file, text = said.file, said.text
    if said.problem is not None:
        report.problems.append(f"{file}: {said.problem}")
    if text is None:
        if said.problem is None:
            told = (
                f"{file}: {said.note}" if said.note else "neither pyproject.toml nor setup.py says it plainly"
            )
            report.not_checked.append(f"requires-python: {told}")
        return
    if wanted.requires_python is not None or wanted.python is not None:
        report.compared.append("requires-python")
    report.found["requires_python"] = text
    if wanted.requires_python is None:
        report.not_checked.append(
            f"requires-python: {file} says {text}, components.{wanted.component}.source.requires_python"
            " is not there"
        )
    elif SpecifierSet(text) != SpecifierSet(wanted.requires_python):
        report.problems.append(
            f"{file} asks for Python {text}, components.{wanted.component}.source.requires_python is"
            f" {wanted.requires_python}"
        )
    if wanted.python is not None:
        ours = SpecifierSet(wanted.python)
        refused = [item for item in _PYTHONS if item in ours and item not in SpecifierSet(text)]
        if refused:
            report.problems.append(
                f"{file} asks for Python {text}, needs.python {wanted.python} allows {', '.join(refused)}"
            )


def _pin(wanted: Expected, pin: PinFile, tree: Path, report: TreeReport) -> None:
    file = _file(tree, pin.file, report)
    text, stated = file.text, pin.commit or pin.ref
    if text is None or not text.strip():
        told = f"{pin.file}: " + ("the tree has no such file" if text is None else "it is empty")
        if file.problem is None and stated is None:
            report.not_checked.append(told)
        elif file.problem is None:
            report.problems.append(f"{told}, the recipe pins {pin.url} to {stated}")
        return
    if stated is not None:
        report.compared.append(pin.file)
    said = pinned_by(text)
    if pin.commit is None and pin.ref is None:
        told = (
            f"it says {said}, the recipe leaves it open"
            if said
            else f"it names no commit of {pin.url} plainly"
        )
        report.not_checked.append(f"{pin.file}: {told}")
    for key, value in (("commit", pin.commit), ("ref", pin.ref)):
        if value is not None and not has_word(text, value):
            report.problems.append(
                f"{pin.file} says {said or 'something else'}, the recipe's {key} of {pin.url} is {value}"
                f" (components.{wanted.component}.source.configure_time)"
            )
            return
    found = pin.commit or pin.ref or said
    if found is not None:
        kind = "commit" if is_id(found) else "ref"
        report.found.setdefault("pins", []).append({"file": pin.file, "url": pin.url, kind: found})


def _triton(wanted: Expected, tree: Path, report: TreeReport) -> None:
    pin = _file(tree, _TRITON_PIN, report)
    said = pin.word()
    if said is None:
        if pin.problem is None:
            report.not_checked.append(f"{_TRITON_PIN}: the tree has none")
    elif wanted.triton_commit is None:
        report.not_checked.append(f"{_TRITON_PIN}: it says {said}, the recipe names no commit of triton")
    else:
        report.compared.append(_TRITON_PIN)
        if said != wanted.triton_commit:
            report.problems.append(
                f"{_TRITON_PIN} says {said}, the recipe's commit of triton is {wanted.triton_commit}"
            )
    _triton_version(wanted, tree, report)


def _triton_version(wanted: Expected, tree: Path, report: TreeReport) -> None:
    for name in _TRITON_VERSIONS:
        file = _file(tree, name, report)
        version = file.word()
        if file.problem is not None:
            return
        if version is None:
            continue
        if wanted.triton_version is None:
            report.not_checked.append(f"{name}: it says {version}, the recipe names no version of triton")
            return
        report.compared.append(name)
        if not same_release(version, wanted.triton_version):
            report.problems.append(
                f"{name} says {version}, components.triton.version is {wanted.triton_version}"
            )
        return
    report.not_checked.append(f"{_TRITON_VERSIONS[1]}: the tree has none")


def _submodule(wanted: Expected, path: str, tree: Path, report: TreeReport) -> None:
    """Look for a skipped submodule in the ``.gitmodules`` of the tree and, below it, of its submodules."""
    where = f"components.{wanted.component}.source.skip_submodules names {path}"
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
            report.problems.append(f"{where}, {file} has no such submodule")
            return
        place, rest = f"{place}{above}/", rest[len(above) + 1 :]


def _head(wanted: Expected, tree: Path, report: TreeReport) -> None:
    git_dir = find_git_dir(tree)
    if git_dir is None:
        report.not_checked.append("commit: the tree is no git checkout")
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
            f"the tree is at commit {answer.text}, components.{wanted.component}.source.commit is"
            f" {wanted.commit}"
        )
