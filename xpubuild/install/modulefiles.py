"""Writes the modulefile of a workspace into a folder of the site, and says which version is the default."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xpubuild.engine.files import explained, write_atomic
from xpubuild.engine.places import make_shared
from xpubuild.errors import UsageError
from xpubuild.frozen import frozen
from xpubuild.recipe.order import is_release_name, order_of
from xpubuild.workspace.modulefile import FAMILY, MARK, file_name, modulefile

_MOST_LOOKED_AT = 400
_DEFAULT = ".modulerc"
_SHARED = 0o644


@frozen
class Modules:
    """Where modulefiles go, their form (lmod or tcl), and the site's modules that bring oneAPI."""

    folder: Path
    form: str
    depends_on: tuple[str, ...] = ()

    def require_place(self, recipe: str) -> None:
        """Refuse a place that is somebody else's, before anything is built.

        Raises:
            UsageError: a file that xpubuild did not make has this name.
        """
        path = self._path(recipe)
        if path.exists() and not _is_ours(path):
            raise UsageError(
                f"{path} is not a modulefile of xpubuild",
                why="it has no line with 'Made by xpubuild', so it is not overwritten",
                fix="move it away, or use another folder with --module-dir",
            )

    def write(self, root: Path, receipt: Mapping[str, Any]) -> Path:
        """Write the modulefile of a workspace and return its path.

        Raises:
            UsageError, NoSpaceError, ToolchainError: it cannot be written.
        """
        recipe = str(receipt["recipe"])
        self.require_place(recipe)
        path = self._path(recipe)
        with explained(path, "writing the modulefile"):
            make_shared(path.parent)
            text = modulefile(root, receipt, self.form, self.depends_on)
            write_atomic(path, text.encode("utf-8", "surrogateescape"))
            path.chmod(_SHARED)
            self._choose_default()
        return path

    def _path(self, recipe: str) -> Path:
        return self.folder / FAMILY / file_name(recipe, self.form)

    def _choose_default(self) -> None:
        """Make the newest release the default, unless somebody else has chosen one."""
        rc = self.folder / FAMILY / _DEFAULT
        if rc.exists() and not _is_ours(rc):
            return
        names = [path for path in rc.parent.iterdir() if not path.name.startswith(".") and _is_ours(path)]
        versions = {path.name.removesuffix(".lua") for path in names}
        # A branch is newer than every release, but nobody's default.
        newest = max(versions, key=lambda name: (is_release_name(name), order_of(name)))
        lines = ("#%Module", f"# {MARK}.", f"module-version {FAMILY}/{newest} default", "")
        write_atomic(rc, "\n".join(lines).encode())
        rc.chmod(_SHARED)


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            return MARK.encode() in stream.read(_MOST_LOOKED_AT)
    except OSError:
        return False
