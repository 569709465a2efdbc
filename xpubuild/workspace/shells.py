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

_BASH = """\
if [ -f ~/.bashrc ]; then . ~/.bashrc; fi
eval "$({program} env --format bash --workspace {root})"
PS1={mark}"$PS1"
exec {fd}<&-
"""
_ZSHENV = """\
if [ -f {own}/.zshenv ]; then . {own}/.zshenv; fi
ZDOTDIR={folder}
"""
_ZSHRC = """\
{restore}
command rm -rf -- {folder}
if [ -f {own}/.zshrc ]; then . {own}/.zshrc; fi
eval "$({program} env --format zsh --workspace {root})"
PROMPT={mark}"$PROMPT"
"""
_FISH = """\
{program} env --format fish --workspace {root} | source
functions --copy fish_prompt xpubuild_own_prompt
function fish_prompt; printf '%s' {mark}; xpubuild_own_prompt; end
"""


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
            os.write(fd, _BASH.format(fd=fd, **words).encode("utf-8", "surrogateescape"))
            os.lseek(fd, 0, os.SEEK_SET)
            return (shell, "--rcfile", f"/proc/self/fd/{fd}", "-i"), env
        case "zsh":
            return (shell, "-i"), {**env, "ZDOTDIR": str(_zsh_folder(words, env))}
        case "fish":
            return (shell, "-i", "-C", _FISH.format(**words)), env
    return (shell,), env


def _zsh_folder(words: Mapping[str, str], env: Mapping[str, str]) -> Path:
    folder = new_folder("shell")
    given = env.get("ZDOTDIR")
    words = {
        **words,
        "folder": shlex.quote(str(folder)),
        "own": shlex.quote(given or env.get("HOME", "/")),
        "restore": f"ZDOTDIR={shlex.quote(given)}" if given else "unset ZDOTDIR",
    }
    for name, text in ((".zshenv", _ZSHENV), (".zshrc", _ZSHRC)):
        (folder / name).write_text(text.format(**words), "utf-8", "surrogateescape")
    return folder
