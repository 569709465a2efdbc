"""Temporary folders of commands, and whether a failure has a full disk as its cause."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from xpubuild.engine.places import existing_quoted
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import BuildError, FetchError, NoSpaceError, ToolchainError, XpuBuildError

#: Less than this is full: no compiler, pip or git works with it.
_LEAST_BYTES = 1 << 20
# A socket in it must have a name of at most 108 bytes; those of Python's multiprocessing add 32.
_LONGEST = 72


@contextlib.contextmanager
def own_temporary(env: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield ``env`` with a TMPDIR that goes with the command: what a killed compiler or pip left goes too.

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
    """Return the first of these folders whose file system has no room or no names left."""
    for place in map(Path, places):
        with contextlib.suppress(OSError):
            status = os.statvfs(place)
            no_names = status.f_files > 0 and status.f_favail == 0
            if status.f_blocks > 0 and (status.f_bavail * status.f_frsize < _LEAST_BYTES or no_names):
                return place
    return None


def by_space(error: XpuBuildError, place: Path | None) -> XpuBuildError:
    """Return the error to show for a command that failed while ``place`` was full.

    What a program says of a full disk may be anything.
    """
    if place is None or not isinstance(error, (BuildError, FetchError, ToolchainError)):
        return error
    found = NoSpaceError(
        f"no space left in {place}",
        why=f"{error.what}: {error.why}" if error.why else error.what,
        fix="free some space there (TMPDIR names the folder for temporary files), then run the same command"
        " again; finished steps are kept",
        commands=(f"df -h {existing_quoted(place)}", f"df -i {existing_quoted(place)}"),
        log=error.log,
        evidence=error.evidence,
    )
    found.explanation = error.explanation
    return found
