"""Failures of the machine that any call may meet, as errors that a user can act on.

Where a place is known, ``files.explained`` says more. This is for what no one there expected: a limit of the
account, a file system that fails, a folder that may not be entered.
"""

from __future__ import annotations

import errno
import os

from xpubuild.engine.files import no_space
from xpubuild.errors import OutOfMemoryError, ToolchainError, UsageError, XpuBuildError

#: Characters that are shown before the first that cannot be written.
_SHOWN = 60
#: Errors of the system, what to do about them, commands; everything else that reaches the top is a bug.
_FIXES: tuple[tuple[tuple[int, ...], str, tuple[str, ...]], ...] = (
    ((errno.EACCES, errno.EPERM),
     "use a place that you own, or ask its owner for permission to read and enter it", ()),
    ((errno.EROFS,), "use a place on a file system that can be written to", ()),
    ((errno.EIO, errno.ESTALE, errno.ENODEV, errno.EREMOTEIO, errno.ETIMEDOUT, errno.EHOSTDOWN),
     "look for a failing disk or mount, then run the same command again", ("dmesg | tail -n 20", "df")),
    ((errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.EFBIG),
     "end other programs of this account or raise its limits, then run the same command again",
     ("ulimit -a",)),
    ((errno.ENAMETOOLONG, errno.ELOOP), "use a shorter path without links in a circle", ()),
)  # fmt: skip


def _has_folder() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 - the question is the call
    except OSError:
        return False
    return True


def _of_place(error: BaseException) -> UsageError | None:
    # Paths and variables hold bytes; what is no UTF-8 in them cannot be in a plan, a document or a log.
    if isinstance(error, UnicodeEncodeError) and error.reason == "surrogates not allowed":
        return UsageError(
            "a path or a variable of the environment has bytes that are no UTF-8",
            why=ascii(error.object[max(0, error.start - _SHOWN) : error.end]),
            fix="use a path in UTF-8 (--workspace, HOME, XDG_DATA_HOME), or unset the variable",
        )
    if isinstance(error, FileNotFoundError) and error.filename is None and not _has_folder():
        return UsageError(
            "the current folder does not exist any more",
            why="it was removed while this shell was in it",
            fix="change to a folder that exists, then run the same command again",
            commands=("cd",),
        )
    return None


def of_machine(error: BaseException) -> XpuBuildError | None:
    """Return the error to show for a failure of the machine; None where ``error`` is none."""
    if isinstance(error, MemoryError):
        return OutOfMemoryError(
            "xpubuild itself got no more memory",
            why="the machine, the job or the account has no more",
            fix="end other programs or request more memory, then run the same command again",
            commands=("free -h", "ulimit -v"),
        )
    # What Python says where pthread_create fails.
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        fix, commands = next((fix, commands) for numbers, fix, commands in _FIXES if errno.EAGAIN in numbers)
        why = "the limit of processes is reached"
        return ToolchainError("no thread can be started", why=why, fix=fix, commands=commands)
    if not isinstance(error, OSError):
        return _of_place(error)
    where, why = str(error.filename or ""), str(error.strerror)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return no_space(f"no space left for {where or 'a file'}", why, where)
    for numbers, fix, commands in _FIXES:
        if error.errno in numbers:
            what = f"{where or 'a file or device'} cannot be used"
            return ToolchainError(what, why=why, fix=fix, commands=commands)
    return _of_place(error)
