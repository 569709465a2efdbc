"""Remembers what programs say of themselves until something that decides it changes.

A version costs a supervised process, and a plan asks the same programs every time. An answer counts as long
as the arguments, the environment and every file that decided it are what they were: by device, inode, size
and both times, of which no program can set the change time. What decided it is the caller's word
(``Decides``); where that is not known, nothing is kept.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xpubuild.engine.child import resolve_executable
from xpubuild.engine.files import stamp, write_atomic
from xpubuild.engine.fingerprint import digest
from xpubuild.engine.process import QueryResult, probe
from xpubuild.errors import XpuBuildError

#: From an answer and the real path of the program that was started: the files beside that program which
#: decided the answer, or None where they are not known.
Decides = Callable[[QueryResult, Path], Sequence[str] | None]

_SCHEMA = "xpubuild.answer/1"
_ELF = b"\x7fELF"
_WRITABLE_BY_OTHERS = 0o022
_MOST_BYTES = 1 << 20
# A file that changed shortly before it was looked at can change again within the same tick of the clock.
_SETTLED_NS = 2_000_000_000


class Answers:
    """The answers in a folder of the user's own; without a folder every program is asked."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def probe(
        self, argv: Sequence[str], *, env: Mapping[str, str], decides: Decides, deadline_s: float = 30.0
    ) -> QueryResult:
        """Return what ``process.probe`` returns, from memory where that is the same.

        Raises:
            ToolchainError: the program is not there or cannot be started.
        """
        if self._folder is None:
            return probe(argv, env=env, deadline_s=deadline_s)
        argv = (resolve_executable(argv[0], env), *argv[1:])
        program = Path(os.path.realpath(argv[0]))
        # One file for each question: another environment takes the place of the one before. It may have
        # logins, so only its digest is kept.
        place = self._folder / f"{digest(list(argv))[:32]}.json"
        asked = digest([list(argv), dict(env), str(program)])
        if (known := _read(place, asked)) is not None:
            return QueryResult(argv, 0, *known)
        settled = time.time_ns() - _SETTLED_NS
        result = probe(argv, env=env, deadline_s=deadline_s)
        beside = decides(result, program) if result.ok else None
        if beside is not None:
            marks = {path: stamp(path) for path in (str(program), *beside)}
            if all(mark is None or mark[-1] <= settled for mark in marks.values()):
                document = {"schema": _SCHEMA, "asked": asked, "files": marks}
                document |= {"stdout": result.stdout, "stderr": result.stderr}
                # Where it cannot be kept, it is asked the next time.
                with contextlib.suppress(OSError, ValueError, XpuBuildError):
                    write_atomic(place, json.dumps(document).encode())
        return result


#: Asks every program.
FRESH = Answers(None)


def says_itself(program: Path, words: Sequence[str]) -> Sequence[str] | None:
    """Return no files where a program can only have said these words by itself, else None.

    It is a program of the machine, no script, and holds the words. A launcher (ccache under the name of a
    compiler, the shim of a version manager) starts another program and does not know what that will say.
    """
    try:
        with program.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            holds = content[: len(_ELF)] == _ELF and all(content.find(word.encode()) >= 0 for word in words)
    except (OSError, ValueError):
        return None
    return () if holds and all(words) else None


def _read(place: Path, asked: str) -> tuple[str, str] | None:
    """Return standard output and error of an answer that still holds."""
    try:
        with place.open("rb") as stream:
            status = os.fstat(stream.fileno())
            if status.st_uid != os.geteuid() or status.st_mode & _WRITABLE_BY_OTHERS:
                return None
            document: Any = json.loads(stream.read(_MOST_BYTES))
        if document["schema"] != _SCHEMA or document["asked"] != asked or not document["files"]:
            return None
        holds = all(stamp(path) == mark for path, mark in document["files"].items())
        return (str(document["stdout"]), str(document["stderr"])) if holds else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
