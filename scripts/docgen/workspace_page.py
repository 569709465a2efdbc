"""docs/reference/workspace.md, from the layout class."""

from __future__ import annotations

from docgen import markdown as md
from xpubuild.workspace.layout import Layout, Place

_ABOUT = """
A workspace is one folder; without `--workspace` it is `$XDG_DATA_HOME/xpubuild/RECIPE`
(`~/.local/share/xpubuild/RECIPE`). It is a new or empty folder, or an existing
workspace. One that was moved or copied is refused, because Python environments contain absolute paths.
`xpubuild clean` removes only what xpubuild created, as recorded in the journal.
"""
_OTHERS = (
    (
        ".lock",
        "Locked (flock) while a command uses the workspace; the file alone does not mean that it is locked.",
    ),
    (".lock.owner", "Who holds the lock (process, host, command, since when), as information for users."),
)
_CACHE = """
## Shared between workspaces

`$XDG_CACHE_HOME/xpubuild` (`~/.cache/xpubuild`) contains bare git repositories in `git/`, captured
oneAPI environments in `oneapi/`, copies of served mirrors in `mirrors/`, the memory that compilations needed
in `memory/` and the locks with which compilers wait for memory in `ledger/`. Each may be deleted while no
command runs; the next command that needs it fills it again. Without a network, keep `mirrors/`.
"""


def page() -> str:
    """Return the page."""
    places = [member for member in vars(Layout).values() if isinstance(member, Place)]
    rows = [(md.code(place.name), md.prose(place.about)) for place in places]
    rows += [(md.code(name), text) for name, text in _OTHERS]
    head = md.head("Workspaces", "xpubuild/install/request.py")
    return head + _ABOUT + "\n" + md.table(("path", "what it is"), rows) + _CACHE
