"""Failures of the machine that any call may meet, as errors that a user can act on.

Where a place is known, ``files.explained`` says more. This is for what no one there expected: a limit of the
account, a file system that fails, a folder that may not be entered.
"""

from __future__ import annotations

import errno

from xpubuild.engine.places import existing_quoted
from xpubuild.errors import NoSpaceError, OutOfMemoryError, ToolchainError, XpuBuildError

_FULL = (errno.ENOSPC, errno.EDQUOT)
#: errno -> what to do about it; everything else that reaches the top is a bug.
_FIXES: dict[int, tuple[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM),
        ("use a place that you own, or ask its owner for permission to read and enter it", ()),
    ),
    errno.EROFS: ("use a place on a file system that can be written to", ()),
    **dict.fromkeys(
        (errno.EIO, errno.ESTALE, errno.ENODEV, errno.EREMOTEIO, errno.ETIMEDOUT, errno.EHOSTDOWN),
        ("look for a failing disk or mount, then run the same command again", ("dmesg | tail -n 20", "df")),
    ),
    **dict.fromkeys(
        (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM),
        (
            "end other programs of this account or raise its limits, then run the same command again",
            ("ulimit -a",),
        ),
    ),
    **dict.fromkeys((errno.ENAMETOOLONG, errno.ELOOP), ("use a shorter path without links in a circle", ())),
}
# What Python says where pthread_create fails.
_NO_THREAD = "can't start new thread"


def of_machine(error: BaseException) -> XpuBuildError | None:
    """Return the error to show for a failure of the machine; None where ``error`` is none."""
    if isinstance(error, MemoryError):
        return OutOfMemoryError(
            "xpubuild itself got no more memory",
            why="the machine, the job or the account has no more",
            fix="end other programs or request more memory, then run the same command again",
            commands=("free -h", "ulimit -v"),
        )
    if isinstance(error, RuntimeError) and _NO_THREAD in str(error):
        return _limited("no thread can be started", errno.EAGAIN, "the limit of processes is reached")
    if not isinstance(error, OSError) or error.errno is None:
        return None
    where = str(error.filename) if error.filename is not None else ""
    if error.errno in _FULL:
        return NoSpaceError(
            f"no space left for {where or 'a file'}",
            why=str(error.strerror),
            fix="free some space, then run the same command again; finished steps are kept",
            commands=(f"df -h {existing_quoted(where)}" if where else "df -h",),
        )
    if error.errno not in _FIXES:
        return None
    return _limited(f"{where or 'a file or device'} cannot be used", error.errno, str(error.strerror))


def _limited(what: str, number: int, why: str) -> ToolchainError:
    fix, commands = _FIXES[number]
    return ToolchainError(what, why=why, fix=fix, commands=commands)
