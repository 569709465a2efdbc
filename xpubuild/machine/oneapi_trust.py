"""Environment scripts run with the user's rights: they must not be writable by anybody else."""

from __future__ import annotations

import os
import pwd
import shlex
import stat
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from xpubuild.engine.places import WRITABLE_BY_OTHERS
from xpubuild.errors import ToolchainError, UsageError
from xpubuild.frozen import frozen
from xpubuild.machine.oneapi_paths import real

#: Names a comma-separated list of further owners, for sites whose software has an account of its own.
OWNERS_VARIABLE = "XPUBUILD_TRUSTED_OWNERS"


@frozen
class _Problem:
    path: Path
    text: str
    command: str | None


def _owner_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


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


def _chain(script: Path, root: Path) -> Iterator[Path]:
    """Yield the script and the folders above it, up to ``root``; up to the top where it lies elsewhere."""
    yield script
    for folder in script.parents:
        yield folder
        if folder == root:
            return


def _problem(path: Path, trusted: Collection[int]) -> _Problem | None:
    try:
        status = path.stat()
    except OSError as error:
        return _Problem(path, f"cannot be examined: {error.strerror}", None)
    if status.st_uid not in trusted:
        return _Problem(path, f"belongs to {_owner_name(status.st_uid)}, not to root or you", None)
    # Nobody can replace another user's entry in a folder with the sticky bit, /tmp for example.
    sticky = stat.S_ISDIR(status.st_mode) and bool(status.st_mode & stat.S_ISVTX)
    if not status.st_mode & WRITABLE_BY_OTHERS or sticky:
        return None
    who = "everybody" if status.st_mode & stat.S_IWOTH else "its group"
    sudo = "" if os.geteuid() in (0, status.st_uid) else "sudo "
    return _Problem(path, f"is writable by {who}", f"{sudo}chmod go-w {shlex.quote(str(path))}")


def require_trusted(scripts: Iterable[Path], root: Path, extra_owners: Collection[int] = ()) -> None:
    """Refuse scripts that somebody else could have changed, by their own rights or their folders'.

    Owners must be root, this user or one of ``extra_owners``. Folders are looked at up to and including
    the installation's root.

    Raises:
        ToolchainError: names every path with the command that mends it.
    """
    trusted = {0, os.geteuid(), *extra_owners}
    paths: dict[Path, None] = {}
    for script in scripts:
        for form in (script, real(script)):
            paths.update(dict.fromkeys(_chain(form, root)))
    problems = [problem for path in paths if (problem := _problem(path, trusted)) is not None]
    if not problems:
        return
    foreign = any(problem.command is None for problem in problems)
    raise ToolchainError(
        f"the oneAPI script's path {problems[0].path} {problems[0].text}"
        + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""),
        why=(
            "xpubuild runs these scripts with your permissions, so only root and you may be able to "
            "change them"
        ),
        fix="remove the write permission"
        + (f"; if you trust the owner, run: export {OWNERS_VARIABLE}=ACCOUNT" if foreign else ""),
        commands=tuple(problem.command for problem in problems if problem.command),
        evidence={"problems": {str(problem.path): problem.text for problem in problems}},
    )
