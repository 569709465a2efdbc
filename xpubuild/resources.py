"""Finds the data files of xpubuild: in ``_data`` of the wheel, or at the top of a checkout."""

from __future__ import annotations

from pathlib import Path

#: The folder of the package itself.
PACKAGE = Path(__file__).resolve().parent
#: Folder below ``_data`` of the wheel -> that of a checkout, as pyproject.toml has them.
CHECKOUT = {
    "recipes": "recipes",
    "setvars": "scripts/setvars",
    "ci": "scripts/ci",
    "docs/how-to": "docs/how-to",
    "docs/reference": "docs/reference",
    "docs/checks": "docs/checks",
}


def _data(name: str) -> Path:
    packaged = PACKAGE / "_data" / name
    return packaged if packaged.is_dir() else PACKAGE.parent / CHECKOUT.get(name, name)


def recipes_dir() -> Path:
    """Return the folder of the recipes that ship with xpubuild."""
    return _data("recipes")


def setvars_dir() -> Path:
    """Return the folder with capture.sh and activate.{sh,fish}."""
    return _data("setvars")


def ci_script() -> Path:
    """Return the script that CI jobs run."""
    return _data("ci") / "job.sh"


def docs_page(name: str) -> Path:
    """Return a page of the documentation, such as ``reference/recipe.md``: what a message points to."""
    return _data("docs") / name


def ops_project_dir() -> Path:
    """Return the plain files of the embedded ``ops`` extension."""
    return PACKAGE / "ops" / "project"


def suite_dir() -> Path:
    """Return the folder of the verify suite, which the target interpreter runs as a script."""
    return PACKAGE / "verify" / "suite"
