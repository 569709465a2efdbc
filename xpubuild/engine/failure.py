"""From a command that failed to the error the user reads; temporary folders of commands, and full disks."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from xpubuild.engine.files import no_space, read_json
from xpubuild.engine.model import Step
from xpubuild.engine.places import existing_quoted
from xpubuild.engine.process import ProcessResult
from xpubuild.engine.redact import Redactor
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import (
    BuildError,
    FetchError,
    InterruptedByUserError,
    OutOfMemoryError,
    ToolchainError,
    XpuBuildError,
)

# "Out of diskspace" is git's; the second is that of a child xpubuild without space to write its error.
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
# Messages of programs that could not allocate memory.
_REFUSED = re.compile(
    r"std::bad_alloc|virtual memory exhausted|Cannot allocate memory|out of memory allocating"
    r"|LLVM ERROR: out of memory"
)
# Exit status of a shell whose last command was ended by SIGKILL.
_SHELL_SIGKILL = 128 + signal.SIGKILL
_FIRST_ERROR = re.compile(
    r"(^|\s)(fatal )?error:|^FAILED: |CMake Error|undefined reference|^ERROR\b|Error: |^\w*Error\b"
)
#: Less than this is full: no compiler, pip or git works with it.
_LEAST_BYTES = 1 << 20
# A socket in it must have a name of at most 108 bytes; those of Python's multiprocessing add 32.
_LONGEST = 72


def read_child_error(path: Path, redact: Redactor) -> XpuBuildError | None:
    """Return the error a child xpubuild left in ``path``, if any, without secrets."""
    document = read_json(path)
    return XpuBuildError.from_json(redact.tree(document)) if document else None


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


def without_network(error: XpuBuildError, asked: Sequence[str]) -> XpuBuildError:
    """Return the error of a command that looked up hosts where it had no network."""
    if asked and isinstance(error, BuildError):
        why = f"it has no network and reached for {', '.join(asked)}"
        error.why = f"{why}; {error.why}" if error.why else why
        error.fix = (
            "let the recipe name what is downloaded (archives, configure_time) and lock again; an install"
            " without --locked has the network"
        )
        error.evidence = {**error.evidence, "asked": list(asked)}
    return error


def _by_resource(step: Step, result: ProcessResult) -> XpuBuildError | None:
    if full := _first(_NO_SPACE, result.tail):
        advice = "free some space, or use a --workspace on a larger disk (and check TMPDIR)"
        return no_space(f"{step.title}: no space left on the disk", full, advice=advice)
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


@contextlib.contextmanager
def own_temporary(env: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield ``env`` with a TMPDIR that is removed after the command, with what a killed compiler or pip left.

    After a kill of xpubuild itself the next command removes it.
    """
    named, found = env.get("TMPDIR"), dict(env)
    parent = Path(named) if named and Path(named).is_dir() else Path(tempfile.gettempdir())
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a full or unwritable TMPDIR: the command will say so
            folder = stack.enter_context(scratch_folder("step", parent))
            if len(os.fsencode(folder)) <= _LONGEST:
                found["TMPDIR"] = str(folder)
        yield found


def full_place(places: Iterable[str | Path]) -> Path | None:
    """Return the first of these folders whose file system has no space or no inodes left."""
    for place in map(Path, places):
        with contextlib.suppress(OSError):
            status = os.statvfs(place)
            no_names = status.f_files > 0 and status.f_favail == 0
            if status.f_blocks > 0 and (status.f_bavail * status.f_frsize < _LEAST_BYTES or no_names):
                return place
    return None


def by_space(error: XpuBuildError, place: Path | None) -> XpuBuildError:
    """Return the error to show for a command that failed while ``place`` was full.

    Programs report a full disk in many ways.
    """
    if place is None or not isinstance(error, (BuildError, FetchError, ToolchainError)):
        return error
    why = f"{error.what}: {error.why}" if error.why else error.what
    advice = "free some space there (TMPDIR names the folder for temporary files)"
    found = no_space(f"no space left in {place}", why, place, advice)
    found.commands += (f"df -i {existing_quoted(place)}",)
    found.log, found.evidence, found.explanation = error.log, error.evidence, error.explanation
    return found
