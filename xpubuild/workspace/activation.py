"""How a workspace is entered: the variables that activate it, and the user's shell with them."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from typing_extensions import TypedDict

from xpubuild.engine.temporary import new_folder
from xpubuild.errors import UsageError
from xpubuild.machine import envdiff
from xpubuild.machine.envdiff import EnvDiff, PathChange
from xpubuild.untrusted import json_value, read_bytes
from xpubuild.workspace.layout import Layout

#: Set in a shell that entered a workspace: what commands without a recipe or --workspace mean.
ENTERED = "XPUBUILD_ENTERED"
#: A receipt lists every command and package; that of a large build has 2 MB.
_MOST_BYTES = 256 << 20
#: What other modules read of a receipt without a look at its type.
_SHAPE: dict[str, Any] = {
    "summary": dict,
    "activation": dict,
    "verify": (dict, type(None)),
    "wheels": list,
    "prebuilt": list,
}
_UTF8 = re.compile(r"\.utf-?8(?:@|$)", re.IGNORECASE)


class EnvDocument(TypedDict):
    """What activates a workspace."""

    schema: Literal["xpubuild.env/1"]
    """Name and version."""
    workspace: str
    env: dict[str, str | None]
    """Variables to set; null means: remove."""
    changes: EnvDiff
    """The same without the caller's values, for module systems."""


def read_receipt(root: Path) -> dict[str, Any]:
    """Return the receipt of a workspace.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    path = Layout(root).receipt
    try:
        document = json_value(read_bytes(path, _MOST_BYTES))
    except OSError as error:
        what = f"{root} is not a finished workspace"
        why = f"it has no readable receipt ({error.strerror})"
        fix = "install a recipe there first, or pass the right folder with --workspace"
        raise UsageError(what, why=why, fix=fix, commands=("xpubuild install quickstart",)) from error
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(document, dict):
        raise _damaged(path, "it is no JSON object")
    for field, kind in _SHAPE.items():
        value = document.get(field)
        if field in document and not isinstance(value, kind):
            raise _damaged(path, f"{field} has another type than xpubuild writes")
        if isinstance(value, list) and not all(isinstance(item, dict) for item in value):
            raise _damaged(path, f"an item of {field} is no JSON object")
    return document


def _damaged(path: Path, why: str) -> UsageError:
    fix = "run the same install again, which writes the receipt again"
    return UsageError(f"the receipt {path} is damaged", why=why, fix=fix)


def difference(
    root: Path, receipt: Mapping[str, Any], caller: Mapping[str, str] | None = None, *, oneapi: bool = True
) -> EnvDiff:
    """Return what entering the workspace changes; without a caller whatever was set before, as for modules.

    Without ``oneapi`` only what is the workspace's own: modules of the site have the rest.
    """
    env, captured = Layout(root).env, receipt.get("activation", {}).get("oneapi") if oneapi else None
    try:
        # What oneAPI's scripts changed when the workspace was built; nothing in a build for the CPU.
        base = envdiff.from_json(captured) if captured else EnvDiff()
    except ValueError as error:
        raise _damaged(Layout(root).receipt, str(error)) from error
    path = base.paths.get("PATH", PathChange())
    first = (str(env / "bin"), *path.prepend)
    own = {**needed_locale(env, caller or {}), "VIRTUAL_ENV": str(env), ENTERED: str(root)}
    return EnvDiff(
        set={**base.set, **own},
        unset=(*base.unset, "PYTHONHOME"),
        paths={**base.paths, "PATH": PathChange(first, path.append, path.remove)},
    )


def assignments(root: Path, caller: Mapping[str, str]) -> dict[str, str | None]:
    """Return variable -> value (None: unset) that enter the workspace from the caller's environment.

    The workspace's programs come first on PATH, once, however often it is entered.
    """
    caller = {"PATH": os.defpath, **caller}
    return envdiff.assignments(difference(root, read_receipt(root), caller), caller)


def environment(root: Path, caller: Mapping[str, str]) -> dict[str, str]:
    """Return the caller's environment as it is in the workspace."""
    values = {**caller, **assignments(root, caller)}
    return {name: value for name, value in values.items() if value is not None}


def needed_locale(env: Path, caller: Mapping[str, str]) -> dict[str, str]:
    """Return the variable to set so that the Python of ``env`` starts and finds its editable installs.

    An editable install leaves a ``.pth`` file with the path of the sources. Before Python 3.12.4 ``site``
    reads it in the encoding of the locale (python/cpython issue 77102), whatever UTF-8 mode says: under
    LC_ALL=C the interpreter ends in UnicodeDecodeError before it runs anything, under Latin-1 it looks in a
    folder of another name. C itself, where LC_ALL does not insist on it, is made UTF-8 (PEP 538).
    Nothing where the caller's locale will do, or where no ``.pth`` file needs it.
    """
    name = next((name for name in ("LC_ALL", "LC_CTYPE", "LANG") if caller.get(name)), None)
    locale = caller[name] if name is not None else "C"
    if _UTF8.search(locale) or (locale in ("C", "POSIX") and name != "LC_ALL"):
        return {}
    for path in env.glob("lib/python*/site-packages/*.pth"):
        with contextlib.suppress(OSError):
            if not path.read_bytes().isascii():
                return {"LC_ALL" if name == "LC_ALL" else "LC_CTYPE": "C.UTF-8"}
    return {}


# --- a shell in a workspace -------------------------------------------------------------------------------
#
# It reads the user's own settings, then enters. Nothing is left behind: what bash reads is a file without a
# name, zsh's folder is removed by what it reads first.


def users_shell(env: Mapping[str, str]) -> str:
    """Return the user's shell: SHELL, that of the account, or sh."""
    with contextlib.suppress(KeyError):
        return env.get("SHELL") or pwd.getpwuid(os.geteuid()).pw_shell or "/bin/sh"
    return "/bin/sh"


def start(
    shell: str, root: Path, program: str, env: Mapping[str, str], *, asks: bool
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Return the program that is a shell in a workspace, and its environment.

    ``program`` are the words, quoted, that run xpubuild. ``env`` has entered the workspace already; a shell
    that does not ask (``asks``: standard input is a terminal) needs nothing else.
    """
    mark = shlex.quote(f"(xpubuild {root.name}) ")
    words = {"program": program, "root": shlex.quote(str(root)), "mark": mark}
    match Path(shell).name if asks else "":
        case "bash":
            # A file that nothing else can find, open in the program to come.
            fd = os.memfd_create("xpubuild-shell", 0)
            os.write(fd, _text("bash", words | {"fd": str(fd)}))
            os.lseek(fd, 0, os.SEEK_SET)
            return (shell, "--rcfile", f"/proc/self/fd/{fd}", "-i"), env
        case "zsh":
            return (shell, "-i"), {**env, "ZDOTDIR": str(_zsh_folder(words, env))}
        case "fish":
            return (shell, "-i", "-C", os.fsdecode(_text("fish", words))), env
    return (shell,), env


def _text(name: str, words: Mapping[str, str]) -> bytes:
    text = Path(__file__).with_name("templates").joinpath(f"enter.{name}").read_text("utf-8")
    return text.format(**words).encode("utf-8", "surrogateescape")


def _zsh_folder(words: Mapping[str, str], env: Mapping[str, str]) -> Path:
    folder = new_folder("shell")
    given = env.get("ZDOTDIR")
    words = {
        **words,
        "folder": shlex.quote(str(folder)),
        "own": shlex.quote(given or env.get("HOME", "/")),
        "restore": f"ZDOTDIR={shlex.quote(given)}" if given else "unset ZDOTDIR",
    }
    for name in ("zshenv", "zshrc"):
        (folder / f".{name}").write_bytes(_text(name, words))
    return folder
