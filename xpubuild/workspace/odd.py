"""Names of a workspace that are neither file nor folder."""

from __future__ import annotations

import contextlib
from pathlib import Path

from xpubuild.engine.files import odd_file, odd_kind
from xpubuild.workspace.layout import Layout


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
