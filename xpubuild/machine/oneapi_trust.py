"""Environment scripts run with the user's rights: they must not be writable by anybody else."""

from __future__ import annotations

import os
import pwd
import shlex
import stat
from collections.abc import Collection, Iterable
from pathlib import Path

from xpubuild.engine.places import WRITABLE_BY_OTHERS
from xpubuild.errors import ToolchainError, UsageError
from xpubuild.machine.readers import resolved

#: Names a comma-separated list of further owners, for sites whose software has an account of its own.
OWNERS_VARIABLE = "XPUBUILD_TRUSTED_OWNERS"


def owners(text: str) -> frozenset[int]:
    """Read a comma-separated list of account names or numbers.

    Raises:
        UsageError: an account is not known on this machine.
    """
    found = set()
    for name in filter(None, map(str.strip, text.split(","))):
        try:
            found.add(int(name) if name.isdigit() else pwd.getpwnam(name).pw_uid)
        except KeyError as error:
            raise UsageError(
                f"{OWNERS_VARIABLE} has the account '{name}', which does not exist on this machine",
                why="it must be a comma-separated list of account names or numbers",
                fix=f"correct {OWNERS_VARIABLE}, or unset it",
                commands=(f"unset {OWNERS_VARIABLE}",),
            ) from error
    return frozenset(found)


def require_trusted(scripts: Iterable[Path], root: Path, extra_owners: Collection[int] = ()) -> None:
    """Refuse scripts that somebody else could have changed, by their own rights or their folders'.

    Owners must be root, this user or one of ``extra_owners``. Folders are looked at up to and including
    the installation's root, or up to the top where a script lies elsewhere.

    Raises:
        ToolchainError: names every path with the command that mends it.
    """
    trusted = {0, os.geteuid(), *extra_owners}
    paths: dict[Path, None] = {}
    for script in scripts:
        for form in (script, resolved(script)):
            inside = form.is_relative_to(root)
            folders = [path for path in form.parents if not inside or path.is_relative_to(root)]
            paths.update(dict.fromkeys((form, *folders)))
    problems: dict[Path, tuple[str, str]] = {}
    for path in paths:
        text, command = _problem(path, trusted)
        if text:
            problems[path] = text, command
    if not problems:
        return
    first, (text, _) = next(iter(problems.items()))
    commands = tuple(command for _, command in problems.values() if command)
    foreign = len(commands) < len(problems)
    raise ToolchainError(
        f"the oneAPI script's path {first} {text}"
        + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""),
        why="xpubuild runs these scripts with your permissions; only root and you may be able to change them",
        fix="remove the write permission"
        + (f"; if you trust the owner, run: export {OWNERS_VARIABLE}=ACCOUNT" if foreign else ""),
        commands=commands,
        evidence={"problems": {str(path): text for path, (text, _) in problems.items()}},
    )


def _problem(path: Path, trusted: Collection[int]) -> tuple[str, str]:
    """Return what is wrong with a path, empty where nothing is, and the command that mends it."""
    try:
        status = path.stat()
    except OSError as error:
        return f"cannot be examined: {error.strerror}", ""
    if status.st_uid not in trusted:
        try:
            owner = pwd.getpwuid(status.st_uid).pw_name
        except KeyError:
            owner = str(status.st_uid)
        return f"belongs to {owner}, not to root or you", ""
    # Nobody can replace another user's entry in a folder with the sticky bit, /tmp for example.
    sticky = stat.S_ISDIR(status.st_mode) and bool(status.st_mode & stat.S_ISVTX)
    if not status.st_mode & WRITABLE_BY_OTHERS or sticky:
        return "", ""
    who = "everybody" if status.st_mode & stat.S_IWOTH else "its group"
    sudo = "" if os.geteuid() in (0, status.st_uid) else "sudo "
    return f"is writable by {who}", f"{sudo}chmod go-w {shlex.quote(str(path))}"
