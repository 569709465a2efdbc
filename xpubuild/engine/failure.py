"""From a command that failed to the error the user reads."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import signal
from collections.abc import Sequence
from pathlib import Path

from xpubuild.engine.model import Step
from xpubuild.engine.process import ProcessResult
from xpubuild.engine.redact import Redactor
from xpubuild.errors import (
    BuildError,
    InterruptedByUserError,
    NoSpaceError,
    OutOfMemoryError,
    XpuBuildError,
)

# "Out of diskspace" is git's; the second is of a child xpubuild that had no room to write its error down.
_NO_SPACE = re.compile(
    r"No space left on device|^error: no space left |Disk quota exceeded|ENOSPC|disk is full"
    r"|Out of diskspace",
    re.IGNORECASE,
)
# gcc, its collect2, clang, a shell, make and ninja each have their own words for a process that was killed.
_KILLED = re.compile(
    r"fatal error: Killed signal terminated program|internal compiler error: Killed|^Killed$"
    r"|terminated with signal 9|unable to execute command: Killed|: +[0-9]+ Killed +|\*\*\* .* Killed$"
)
# These say themselves that memory was refused to them.
_REFUSED = re.compile(
    r"std::bad_alloc|virtual memory exhausted|Cannot allocate memory|out of memory allocating"
    r"|LLVM ERROR: out of memory"
)
# What a shell makes of a last command that SIGKILL ended.
_SHELL_SIGKILL = 128 + signal.SIGKILL
_FIRST_ERROR = re.compile(
    r"(^|\s)(fatal )?error:|^FAILED: |CMake Error|undefined reference|^ERROR\b|Error: |^\w*Error\b"
)


def read_child_error(path: Path, redact: Redactor) -> XpuBuildError | None:
    """Return the error a child xpubuild left in ``path``, if any, without secrets."""
    with contextlib.suppress(OSError, ValueError):
        document = json.loads(path.read_text("utf-8"))
        if isinstance(document, dict):
            return XpuBuildError.from_json(redact.tree(document))
    return None


def first_error_line(lines: Sequence[str]) -> str:
    """Return the first line of the tail that looks like an error; the last line if none does."""
    for line in lines:
        if _FIRST_ERROR.search(line):
            return line.strip()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def explain_failure(
    step: Step, result: ProcessResult, log: Path, child: XpuBuildError | None
) -> XpuBuildError:
    """Return the error for a failed command of ``step``.

    Sources, in order: the error of a child xpubuild, memory, disk space, what the step knows about its tool,
    and the first error line that the command printed.
    """
    if result.cancelled:
        return InterruptedByUserError(
            f"{step.title}: interrupted",
            fix="run the same command again to continue; finished steps are kept",
            log=log,
        )
    if child is not None:
        child.log = child.log or log
        return child
    error = _by_resource(step, result) or (step.explain(result.tail) if step.explain else None)
    if error is None:
        line = first_error_line(result.tail)
        error = BuildError(
            f"{step.title} failed",
            why=f"'{Path(result.argv[0]).name}' {result.describe()}" + (f": {line}" if line else ""),
            fix="remove the cause, then run the same command again: finished steps are kept",
            commands=(shlex.join(["xpubuild", "explain", str(log)]),),
        )
    error.log = error.log or log
    return error


def _by_resource(step: Step, result: ProcessResult) -> XpuBuildError | None:
    if any(_NO_SPACE.search(line) for line in result.tail):
        return NoSpaceError(
            f"{step.title}: no space left on the disk",
            why=next(line.strip() for line in result.tail if _NO_SPACE.search(line)),
            fix=(
                "free some space, or use a --workspace on a larger disk (and check TMPDIR); then run the "
                "same command again: finished steps are kept"
            ),
            commands=("df -h",),
        )
    refused = next((line.strip() for line in result.tail if _REFUSED.search(line)), "")
    killed = next((line.strip() for line in result.tail if _KILLED.search(line)), "")
    by_signal = result.returncode in (-signal.SIGKILL, _SHELL_SIGKILL) and not result.timed_out
    if (killed or by_signal) and not refused and result.oom_kills == 0:
        return _killed(step, killed)
    if refused or killed or by_signal:
        return OutOfMemoryError(
            f"{step.title}: out of memory",
            why=refused
            or killed
            or "SIGKILL ended the command, which is what the kernel does when memory runs out",
            fix="run the same command with fewer --jobs, or on a machine with more memory; finished steps are"
            " kept",
            evidence={"peak_tree_bytes": result.peak_tree_bytes},
        )
    return None


def _killed(step: Step, line: str) -> BuildError:
    """Return the error for a process that somebody ended: the kernel counts none that it ended itself."""
    return BuildError(
        f"{step.title}: a process was killed",
        why=f"{line or 'SIGKILL ended the command'}; the kernel ended no process for lack of memory then:"
        " a person did, or the memory limit of a batch system",
        fix="run the same command again; if a batch system ended it, request more memory or use fewer --jobs."
        " Finished steps are kept",
    )
