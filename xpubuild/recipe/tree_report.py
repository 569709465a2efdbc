"""The result of comparing a recipe with a source tree, and its error."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xpubuild.errors import RecipeError
from xpubuild.recipe.tree_expected import Expected
from xpubuild.recipe.tree_text import FileText, read_text


@dataclass
class TreeReport:
    """What was found: ``problems`` are disagreements, ``not_checked`` what one of the two does not say.

    ``compared`` names what both of them say.
    """

    problems: list[str] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)
    compared: list[str] = field(default_factory=list)
    found: dict[str, Any] = field(default_factory=dict)

    def read(self, tree: Path, name: str) -> FileText:
        """Read a file of the tree; one that is there and cannot be read is no file that says nothing."""
        found = read_text(tree, name)
        if found.problem is not None:
            self.problems.append(f"{name} cannot be read: {found.problem}")
        return found


def disagreement(wanted: Expected, tree: Path, report: TreeReport) -> RecipeError:
    """Return the error of a recipe that disagrees with its tree."""
    return RecipeError(
        f"recipe '{wanted.recipe}' does not match the source tree of {wanted.component}",
        why="; ".join(report.problems),
        fix="correct the recipe, or pin the commit that it was written for",
        commands=(f"xpubuild recipes check '{wanted.recipe}' --tree '{wanted.component}={tree}'",),
        evidence={"problems": report.problems, "not_checked": report.not_checked},
    )
