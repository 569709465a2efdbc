"""The activation of a workspace as a modulefile: for Lmod in Lua, for Environment Modules (and Lmod) in Tcl.

Every change is one that the module system takes back: ``pushenv`` restores what was there, entries of search
paths are removed again. ``pushenv`` of Environment Modules came with 5.1; an older one takes ``setenv``. The
texts are in ``templates``.
"""

from __future__ import annotations

import contextlib
import functools
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from xpubuild.engine.files import explained, write_atomic
from xpubuild.engine.places import WRITE, make_shared, share
from xpubuild.errors import UsageError
from xpubuild.frozen import frozen
from xpubuild.machine.envdiff import EnvDiff
from xpubuild.workspace.activation import difference
from xpubuild.workspace.shared import share_workspace

MARK = "Made by xpubuild"
FAMILY = "xpubuild"
#: Two PyTorches in one environment are a mistake; this is what sites call theirs.
_CONFLICT = "pytorch"
_DIGITS = 7
_WORKSPACE = re.compile(r'"Workspace: (.*)"$|\\nWorkspace: (.*?)\\n', re.MULTILINE)
_LUA, _TCL = '\\"', '\\"$[]{}'


def modulefile(root: Path, receipt: Mapping[str, Any], form: str, depends_on: Sequence[str] = ()) -> str:
    """Return the text of a modulefile, ``form`` is lmod or tcl.

    With ``depends_on`` it loads these modules of the site instead of what was captured of oneAPI.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - few commands write one

    changes = difference(root, receipt, oneapi=not depends_on)
    recipe = str(receipt.get("recipe", ""))
    about = f"PyTorch by xpubuild, recipe {recipe}"
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")), undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - no markup; what is not ours is quoted
    )  # fmt: skip
    environment.filters["q"] = functools.partial(_quoted, special=_LUA if form == "lmod" else _TCL)
    return environment.get_template(f"{form}.j2").render(
        mark=MARK, family=FAMILY, conflict=_CONFLICT, about=about, depends_on=depends_on,
        shown=(about, f"Workspace: {root}", f"Recreate it with: xpubuild install {recipe}"),
        unset=sorted(changes.unset), set=sorted(changes.set.items()), entries=list(_entries(changes)),
    )  # fmt: skip


def file_name(receipt: Mapping[str, Any], form: str) -> str:
    """Return the name of a modulefile in its folder: recipe, Python, and a digest of what was chosen."""
    python = ".".join(str(receipt["summary"]["python"]).split(" ")[0].split(".")[:2])
    name = f"{receipt['recipe']}-py{python}-{receipt['lock_digest'][:_DIGITS]}"
    return f"{name}.lua" if form == "lmod" else name


def _entries(changes: EnvDiff) -> Iterator[tuple[str, str, str]]:
    """Yield (verb, variable, entry); the last that is put in front is the first of the list."""
    for name, change in sorted(changes.paths.items()):
        yield from (("prepend", name, entry) for entry in reversed(change.prepend) if entry)
        yield from (("append", name, entry) for entry in change.append if entry)


def _quoted(text: str, special: str) -> str:
    escapes = {"\n": "\\n", "\r": "\\r", **{char: f"\\{char}" for char in special}}
    return f'"{"".join(escapes.get(char, char) for char in text)}"'


# --- in a folder of the site ------------------------------------------------------------------------------

_MOST_BYTES = 1 << 20
_DEFAULT = ".modulerc"
_CHOSEN = re.compile(rf"module-version {FAMILY}/(\S+) default")


@frozen
class Modules:
    """Where modulefiles go, their form (lmod or tcl), and the site's modules that provide oneAPI.

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
        leads_here = _leads_to(path, root)
        if path.exists() and leads_here is None:
            why = "it has no line with 'Made by xpubuild', so it is not overwritten"
            fix = "move it away, or use another folder with --module-dir"
            raise UsageError(f"{path} is not a modulefile of xpubuild", why=why, fix=fix)
        if leads_here is False:
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
            others = (item for item in path.parent.glob("[!.]*") if item != path)
            earlier = [item for item in others if _leads_to(item, root)]
            for item in earlier:
                item.unlink(missing_ok=True)
            self._set_default(path, {item.name.removesuffix(".lua") for item in earlier})
            share((path, path.with_name(_DEFAULT)))
        with explained(root, "sharing the workspace that a modulefile leads to"):
            share_workspace(root)
        return path

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


def _leads_to(path: Path, root: Path) -> bool | None:
    """Whether a modulefile, of either form, is that of a workspace; None for one that is not ours."""
    if (text := _text_of_ours(path)) is None:
        return None
    found = _WORKSPACE.search(text)
    roots = (_quoted(str(root), special)[1:-1] for special in (_LUA, _TCL))
    return found is not None and (found[1] or found[2]) in roots


def _text_of_ours(path: Path) -> str | None:
    """Return the text of a file that xpubuild made; None for any other."""
    with contextlib.suppress(OSError), path.open("rb") as stream:
        text = stream.read(_MOST_BYTES).decode("utf-8", "surrogateescape")
        return text if MARK in text[:400] else None
    return None
