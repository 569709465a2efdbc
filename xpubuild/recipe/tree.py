"""Compares a recipe with the source tree that it pins: versions, pins and submodules. Runs nothing.

The tree is authoritative: a recipe that does not match it was written for another commit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet

from xpubuild.errors import UsageError
from xpubuild.frozen import frozen
from xpubuild.recipe.setup_py import requires_python
from xpubuild.recipe.tree_expected import Expected
from xpubuild.recipe.tree_pins import XPU_PIN, compare_head, compare_pin, compare_triton, look_for_submodule
from xpubuild.recipe.tree_report import TreeReport, disagreement
from xpubuild.recipe.tree_text import same_release, same_version

_PYTHONS = tuple(f"3.{minor}" for minor in range(6, 21))


def require_tree(wanted: Expected, tree: Path) -> None:
    """Refuse a folder that is no source tree, where nothing would be checked and all would look well.

    Raises:
        UsageError: it has nothing that a wheel is built with.
    """
    folder = tree / wanted.folder
    if not (folder / "setup.py").is_file() and not (folder / "pyproject.toml").is_file():
        raise UsageError(
            f"{tree} is not a source tree of {wanted.component}",
            why=f"{folder} has neither setup.py nor pyproject.toml",
            fix="pass the top folder of the checkout",
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
        compare_pin(wanted, pin, tree, report)
    if wanted.component == "torch":
        if all(pin.file != XPU_PIN for pin in wanted.pins) and (tree / XPU_PIN).is_file():
            report.not_checked.append(f"{XPU_PIN}: the recipe has no configure_time entry for it")
        compare_triton(wanted, tree, report)
    for path in wanted.skip:
        look_for_submodule(wanted, path, tree, report)
    if head:
        compare_head(wanted, tree, report)
        if not report.compared and not report.problems:
            report.problems.append("nothing in the tree could be compared with the recipe")
    return report


@frozen
class RecipeTreeProof:
    """The proof of a checkout step that the recipe says of the tree what the tree says of itself."""

    into: str
    wanted: Expected

    def describe(self) -> str:
        """Say what is proved."""
        return f"version, Python requirement and pin files of {self.wanted.component} match the recipe"

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


def _version(wanted: Expected, tree: Path, report: TreeReport) -> None:
    file = report.read(tree, "version.txt")
    said = file.word()
    if said is None:
        if file.problem is None:
            report.not_checked.append("version.txt: the tree has none")
        return
    report.found["version"] = said
    where = f"version.txt says {said}"
    if wanted.version is None and wanted.release is None:
        report.not_checked.append(f"version.txt: it says {said}, but the recipe has no version")
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
            told = f"{file}: {said.note}" if said.note else "neither pyproject.toml nor setup.py states it"
            report.not_checked.append(f"requires-python: {told}")
        return
    if wanted.requires_python is not None or wanted.python is not None:
        report.compared.append("requires-python")
    report.found["requires_python"] = text
    if wanted.requires_python is None:
        report.not_checked.append(
            f"requires-python: {file} says {text}, but "
            f"components.{wanted.component}.source.requires_python is not set"
        )
    elif SpecifierSet(text) != SpecifierSet(wanted.requires_python):
        report.problems.append(
            f"{file} requires Python {text}, but components.{wanted.component}.source.requires_python "
            f"is {wanted.requires_python}"
        )
    if wanted.python is not None:
        ours = SpecifierSet(wanted.python)
        refused = [item for item in _PYTHONS if item in ours and item not in SpecifierSet(text)]
        if refused:
            report.problems.append(
                f"{file} requires Python {text}, but needs.python {wanted.python} allows {', '.join(refused)}"
            )
