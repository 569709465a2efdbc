"""The folders and files of a workspace."""

from __future__ import annotations

import contextlib
from pathlib import Path

from xpubuild.engine.files import odd_file, odd_kind
from xpubuild.frozen import frozen


@frozen
class Layout:
    """Where things are in a workspace (docs/reference/workspace.md)."""

    root: Path

    @property
    def env(self) -> Path:
        """The Python environment that packages are installed into."""
        return self.root / "env"

    @property
    def python(self) -> Path:
        """The interpreter of that environment."""
        return self.env / "bin" / "python"

    @property
    def src(self) -> Path:
        """The checkouts, one folder per component."""
        return self.root / "src"

    @property
    def build(self) -> Path:
        """Build trees and scratch files."""
        return self.root / "build"

    @property
    def wheels(self) -> Path:
        """The finished, audited wheels."""
        return self.root / "wheels"

    @property
    def portable(self) -> Path:
        """The wheels for other machines, made of those in ``wheels`` with ``install --portable``."""
        return self.wheels / "portable"

    @property
    def logs(self) -> Path:
        """One log per step, the previous one as ``.log.1``."""
        return self.root / "logs"

    @property
    def journal(self) -> Path:
        """The journal database."""
        return self.root / "journal.db"

    @property
    def receipt(self) -> Path:
        """The receipt of the last install."""
        return self.root / "receipt.json"

    @property
    def resolved(self) -> Path:
        """Commits of branches and tags that were looked up for this workspace, and are kept for it."""
        return self.root / "resolved.json"

    @property
    def plan(self) -> Path:
        """The plan of the last install, as ``plan --format json`` prints it."""
        return self.build / "plan.json"

    @property
    def verify_report(self) -> Path:
        """The document of the last verify."""
        return self.build / "verify.json"

    @property
    def verify_operators(self) -> Path:
        """The states of operators of ``verify --suite operators``, and its table."""
        return self.build / "verify-operators"

    def pip_report(self, step: str, requirements: str) -> Path:
        """Return where pip says what it installed of a requirements file in a step; that folder exists."""
        return self.build / "requirements" / f"{step}+{requirements}.installed.json"

    def pip_reports(self, step: str) -> list[Path]:
        """Return the reports of a step that are there."""
        found = (self.build / "requirements").glob(f"{step}+*.installed.json")
        return sorted(path for path in found if path.is_file())

    def site_packages(self, python_version: str) -> Path:
        """Return the site-packages of the environment for a version such as 3.11.7."""
        major, minor = python_version.split(".")[:2]
        return self.env / "lib" / f"python{major}.{minor}" / "site-packages"


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
