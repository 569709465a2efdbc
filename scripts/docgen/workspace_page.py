"""docs/reference/workspace.md, from the layout class."""

from __future__ import annotations

from pathlib import Path

from docgen import markdown as md
from xpubuild.build.request import Layout

_ABOUT = """
A workspace is one folder; without `--workspace` it is `$XDG_DATA_HOME/xpubuild/RECIPE`
(`~/.local/share/xpubuild/RECIPE`). xpubuild only takes a folder that is new, empty, or a workspace already.
Nothing of a workspace may be moved: Python environments hold absolute paths. `xpubuild clean` removes what
the journal says was made here, and nothing else.
"""
_OTHERS = (
    (".lock", "Locked (flock) while a command uses the workspace; its mere existence means nothing."),
    (".lock.owner", "Who holds the lock: process, host, command, since. For people."),
)
_CACHE = """
## Shared between workspaces

`$XDG_CACHE_HOME/xpubuild` (`~/.cache/xpubuild`) holds bare git mirrors in `git/` and captured oneAPI
environments in `oneapi/`. Both may be deleted at any time; the next install fills them again.
"""


def page() -> str:
    """Return the page."""
    root = Path("/")
    layout = Layout(root)
    rows = []
    for name, member in vars(Layout).items():
        if isinstance(member, property):
            path = getattr(layout, name).relative_to(root).as_posix()
            rows.append((md.code(path), md.prose(member.__doc__)))
    rows += [(md.code(name), text) for name, text in _OTHERS]
    head = md.head("Workspaces", "xpubuild/build/request.py")
    return head + _ABOUT + "\n" + md.table(("path", "what it is"), rows) + _CACHE
