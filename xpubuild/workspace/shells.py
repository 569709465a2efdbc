"""How each shell is started so that it reads the user's own settings, then enters a workspace.

Nothing is left behind: what bash reads is a file without a name, zsh's folder is removed by what it
reads first.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shlex
from collections.abc import Mapping
from pathlib import Path

from xpubuild.engine.temporary import new_folder


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
