"""The folders and files of a workspace."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xpubuild.engine.files import odd_file, odd_kind
from xpubuild.frozen import frozen

#: Files beside the folders of a workspace, in the order in which they go with it: its lock at last.
RUN_FILES = (
    "receipt.json", "resolved.json", "journal.db", "journal.db-wal", "journal.db-shm", ".lock.owner", ".lock",
)  # fmt: skip


class Place:
    """A path below the root of a workspace; ``about`` says what is there."""

    def __init__(self, name: str, about: str) -> None:
        self.name, self.about = name, about

    def __get__(self, layout: Layout, _kind: type | None = None) -> Path:
        return layout.root / self.name


@frozen
class Layout:
    """Where things are in a workspace (docs/reference/workspace.md)."""

    root: Path

    env = Place("env", "The Python environment that packages are installed into.")
    python = Place("env/bin/python", "The interpreter of that environment.")
    src = Place("src", "The checkouts, one folder per component.")
    build = Place("build", "Build trees and scratch files.")
    wheels = Place("wheels", "The finished, audited wheels.")
    logs = Place("logs", "One log per step, the previous one as ``.log.1``.")
    journal = Place("journal.db", "The journal database.")
    receipt = Place("receipt.json", "The receipt of the last install.")
    sbom = Place("sbom.cdx.json", "What it was built from: a software bill of materials (CycloneDX).")
    resolved = Place("resolved.json", "Commits of branches and tags that were looked up for this workspace.")
    plan = Place("build/plan.json", "The plan of the last install, as ``plan --format json`` prints it.")
    verify_report = Place("build/verify.json", "The document of the last verify.")
    checks = Place("build/checks", "The checks of components that have them in their own files.")
    verify_operators = Place(
        "build/verify-operators", "The states of operators of ``verify --suite operators``, and its table."
    )

    tests = Place("build/tests", "The last run of ``test`` and the accepted one, with pytest's output.")

    def verify_suite(self, suite: str) -> Path:
        """Return where ``install --bundle`` writes what a suite of verify reported."""
        return self.build / f"verify-{suite}.json"

    def pip_report(self, step: str, requirements: str) -> Path:
        """Return where pip says what it installed of a requirements file in a step; that folder exists."""
        return self.build / "requirements" / f"{step}+{requirements}.installed.json"

    def pip_installed(self, step: str) -> Iterator[dict[str, Any]]:
        """Yield what pip reported of each package that it installed in a step; a damaged report has none."""
        for report in sorted((self.build / "requirements").glob(f"{step}+*.installed.json")):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                items = json.loads(report.read_text("utf-8"))["install"]
                yield from [item for item in items if item["metadata"]["name"]]

    def site_packages(self, python_version: str) -> Path:
        """Return the site-packages of the environment for a version such as 3.11.7."""
        major, minor = python_version.split(".")[:2]
        return self.env / "lib" / f"python{major}.{minor}" / "site-packages"


def workspaces_in(folder: Path) -> tuple[Path, ...]:
    """Return the workspaces in the folder of default workspaces."""
    return tuple(sorted(path.parent for path in folder.glob("*/journal.db")))


def require_plain(root: Path) -> None:
    """Refuse a workspace that has a pipe, a socket, a device or, where pip writes, a link in place of a file.

    What is looked at are the folders that xpubuild itself reads, not the environment and the sources.

    Raises:
        ToolchainError: naming the first.
    """
    layout = Layout(root)
    pips = (layout.build / "requirements", layout.build / "held")
    for folder in (root, layout.build, layout.wheels, *pips):
        with contextlib.suppress(OSError):
            for path in folder.iterdir():
                kind = odd_kind(path)
                # xpubuild itself writes beside a link, and renames; pip follows it.
                if not kind and folder in pips and path.is_symlink():
                    kind = "a link"
                if kind:
                    raise odd_file(path, kind)
