"""Writes the modulefile of a workspace into a folder of the site; sets the default where that is asked."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xpubuild.engine.files import explained, write_atomic
from xpubuild.engine.places import WRITE, make_shared, share
from xpubuild.errors import UsageError
from xpubuild.frozen import frozen
from xpubuild.workspace.modulefile import FAMILY, MARK, file_name, leads_to, modulefile
from xpubuild.workspace.shared import share_workspace

_MOST_BYTES = 1 << 20
_DEFAULT = ".modulerc"
_CHOSEN = re.compile(rf"module-version {FAMILY}/(\S+) default")


@frozen
class Modules:
    """Where modulefiles go, their form (lmod or tcl), and the site's modules that bring oneAPI.

    ``default`` makes what is written the version that is loaded without one.
    """

    folder: Path
    form: str
    depends_on: tuple[str, ...] = ()
    default: bool = False

    def require_place(self, root: Path, receipt: Mapping[str, Any]) -> Path:
        """Refuse a place that is somebody else's, before anything is built; return it.

        Raises:
            UsageError: a file that xpubuild did not make, or that leads to another workspace, has this name.
        """
        path = self.folder / FAMILY / file_name(receipt, self.form)
        text = _text_of_ours(path)
        if path.exists() and text is None:
            raise UsageError(
                f"{path} is not a modulefile of xpubuild",
                why="it has no line with 'Made by xpubuild', so it is not overwritten",
                fix="move it away, or use another folder with --module-dir",
            )
        if text is not None and not leads_to(text, root):
            raise UsageError(
                f"the modulefile {path} leads to another workspace",
                why="whoever loads it would get this build instead",
                fix="remove it if nobody needs it, or use another folder with --module-dir, or none: ''",
                commands=(f"cat {shlex.quote(str(path))}", f"rm {shlex.quote(str(path))}"),
            )
        return path

    def write(self, root: Path, receipt: Mapping[str, Any]) -> Path:
        """Write the modulefile of a workspace, open the workspace to those who load it; return the file.

        Earlier ones that lead to this workspace go: what they were named after is not there any more.

        Raises:
            UsageError, NoSpaceError, ToolchainError: it cannot be written.
        """
        path = self.require_place(root, receipt)
        with explained(path, "writing the modulefile"):
            make_shared(path.parent, WRITE)
            text = modulefile(root, receipt, self.form, self.depends_on)
            write_atomic(path, text.encode("utf-8", "surrogateescape"))
            earlier = [item for item in path.parent.iterdir() if item != path and self._replaced(item, root)]
            for item in earlier:
                item.unlink(missing_ok=True)
            self._set_default(path, {item.name.removesuffix(".lua") for item in earlier})
            share((path, path.with_name(_DEFAULT)))
        with explained(root, "sharing the workspace that a modulefile leads to"):
            share_workspace(root)
        return path

    @staticmethod
    def _replaced(path: Path, root: Path) -> bool:
        text = None if path.name.startswith(".") else _text_of_ours(path)
        return text is not None and leads_to(text, root)

    def _set_default(self, path: Path, earlier: set[str]) -> None:
        """Make it the default if that is asked, or if what it replaces was, and somebody chose no other."""
        rc = path.with_name(_DEFAULT)
        text = _text_of_ours(rc)
        if rc.exists() and text is None:
            return
        found = _CHOSEN.search(text or "")
        if self.default or (found is not None and found[1] in earlier):
            name = path.name.removesuffix(".lua")
            lines = ("#%Module", f"# {MARK}.", f"module-version {FAMILY}/{name} default", "")
            write_atomic(rc, "\n".join(lines).encode())


def _text_of_ours(path: Path) -> str | None:
    """Return the text of a file that xpubuild made; None for any other."""
    with contextlib.suppress(OSError), path.open("rb") as stream:
        text = stream.read(_MOST_BYTES).decode("utf-8", "surrogateescape")
        return text if MARK in text[:400] else None
    return None
