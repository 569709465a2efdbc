"""GNU make's jobserver, where xpubuild runs below one: its slots are for builds too."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from xpubuild.frozen import frozen

_AUTH = re.compile(r"--jobserver-auth=fifo:(\S+)")
_JOBS = re.compile(r"(?:^|\s)-j(\d+)\b")


@frozen
class Jobserver:
    """``makeflags`` is what tells make 4.4 and ninja 1.13 of it, ``jobs`` how many slots it has."""

    makeflags: str
    jobs: int


def inherited_jobserver(environ: Mapping[str, str]) -> Jobserver | None:
    """Return the jobserver of the caller; None without one, and for one of pipes.

    The descriptors of a pipe do not reach builds, as no others of the caller do; ``make
    --jobserver-style=fifo`` has one with a name, since 4.4 by default.
    """
    flags = environ.get("MAKEFLAGS", "")
    # The last one counts, as for make and ninja.
    names, jobs = _AUTH.findall(flags), _JOBS.findall(flags)
    if not names or not jobs or int(jobs[-1]) < 1:
        return None
    try:
        usable = Path(names[-1]).is_fifo() and os.access(names[-1], os.R_OK | os.W_OK)
    except OSError:
        return None
    return Jobserver(f" -j{jobs[-1]} --jobserver-auth=fifo:{names[-1]}", int(jobs[-1])) if usable else None
