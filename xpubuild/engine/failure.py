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
    last = next((line for line in reversed(lines) if line.strip()), "")
    return (_first(_FIRST_ERROR, lines) or last).strip()


def _first(pattern: re.Pattern[str], lines: Sequence[str]) -> str:
    return next((line.strip() for line in lines if pattern.search(line)), "")


def explain_failure(
    step: Step, result: ProcessResult, log: Path, child: XpuBuildError | None
) -> XpuBuildError:
    """Return the error for a failed command of ``step``.

    Sources, in order: the error of a child xpubuild, disk space, memory, what the step knows about its tool,
    and the first error line that the command printed.
    """
    error = child
    if result.cancelled:
        fix = "run the same command again to continue; finished steps are kept"
        error = InterruptedByUserError(f"{step.title}: interrupted", fix=fix)
    if error is None:
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
    if full := _first(_NO_SPACE, result.tail):
        return NoSpaceError(
            f"{step.title}: no space left on the disk",
            why=full,
            fix="free some space, or use a --workspace on a larger disk (and check TMPDIR); then run the same"
            " command again: finished steps are kept",
            commands=("df -h",),
        )
    refused, killed = _first(_REFUSED, result.tail), _first(_KILLED, result.tail)
    by_signal = result.returncode in (-signal.SIGKILL, _SHELL_SIGKILL) and not result.timed_out
    if not (refused or killed or by_signal):
        return None
    ended = killed or "SIGKILL ended the command"
    if not refused and result.oom_kills == 0:
        return BuildError(
            f"{step.title}: a process was killed",
            why=f"{ended}; the kernel ended no process for lack of memory then: a person did, or the memory"
            " limit of a batch system",
            fix="run the same command again; if a batch system ended it, request more memory or use fewer"
            " --jobs. Finished steps are kept",
        )
    return OutOfMemoryError(
        f"{step.title}: out of memory",
        why=refused or killed or f"{ended}, which is what the kernel does when memory runs out",
        fix="run the same command with fewer --jobs, or on a machine with more memory; finished steps are"
        " kept",
        evidence={"peak_tree_bytes": result.peak_tree_bytes},
    )
