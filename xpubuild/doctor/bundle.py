"""A report to attach to a bug report: one Markdown file with the JSON document, without personal data."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from xpubuild import __version__
from xpubuild.doctor.identity import Anonymiser, Identity
from xpubuild.doctor.words import Words
from xpubuild.engine.redact import Redactor
from xpubuild.errors import UsageError

# Variables that affect how PyTorch for XPU is built and run; all others are left out of the report.
_TOLD = re.compile(
    r"(?:ONEAPI|ZE|ZET|ZES|SYCL|UR|OCL|PYTORCH|TORCH|TORCHINDUCTOR|TRITON|CCL|I_MPI|FI|IGC|NEO|SETVARS|CMPLR|MKL|"
    r"TBB|UMF|PTI|CMAKE|XPUBUILD)(?:_.*)?"
    r"|MKLROOT|CMPLR_ROOT|TBBROOT|DPCPP_HOME|USE_XPU|USE_[A-Z0-9_]+|MAX_JOBS|CC|CXX|CFLAGS|CXXFLAGS|LDFLAGS|CPATH"
    r"|C_INCLUDE_PATH|CPLUS_INCLUDE_PATH|LIBRARY_PATH|LD_LIBRARY_PATH|LD_PRELOAD|PATH|PYTHONPATH|PYTHONHOME"
    r"|VIRTUAL_ENV|CONDA_PREFIX|CONDA_DEFAULT_ENV|OverrideGpuAddressSpace|EnableImplicitScaling|TMPDIR|LANG|LC_ALL"
)
NO_WORDS = Words(())
_ORDER = ("fail", "error", "warn", "skip", "ok")


def write_bundle(
    document: Mapping[str, Any], environ: Mapping[str, str], path: Path, words: Words = NO_WORDS
) -> None:
    """Write the report to a file, without the user's own ``words``.

    Raises:
        UsageError: the file cannot be written.
    """
    text = bundle_text(document, environ, words=words)
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(
            f"the report cannot be written to {path}",
            why=error.strerror or str(error),
            fix="choose a folder where you have write permission",
        ) from error


def bundle_text(
    document: Mapping[str, Any],
    environ: Mapping[str, str],
    identity: Identity | None = None,
    words: Words = NO_WORDS,
) -> str:
    """Return the report: ``document`` is an ``xpubuild.doctor/1`` document, ``environ`` the caller's."""
    known = identity or _identity(environ, Path(document["root"]))
    mask = Anonymiser(known, Redactor.from_environment(environ))
    # Words first: a name of a user inside of one would be masked, and leave the rest of the word behind.
    shown = mask.tree(words.tree(document))
    told = mask.tree(
        Redactor.from_environment(environ).environment(
            {name: words(value) for name, value in sorted(environ.items()) if _TOLD.fullmatch(name)}
        )
    )
    if not isinstance(shown, dict) or not isinstance(told, dict):
        raise TypeError("a document and an environment are mappings")
    for check, told_of in zip(document["checks"], shown["checks"], strict=True):
        told_of["status"] = check["status"]  # the table is made by it, whatever word it is
    # And last: names of variables and keys hold words too.
    return words("\n".join(_lines(shown, told)) + "\n")


def _identity(environ: Mapping[str, str], root: Path) -> Identity:
    here = Identity.of(environ)
    if root == Path("/"):
        return here
    there = Identity.of({}, root)
    return Identity(
        here.users | there.users,
        here.hosts | there.hosts,
        here.homes | there.homes,
        here.serials | there.serials,
    )


def _lines(document: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[str]:
    yield "# xpubuild doctor"
    yield ""
    yield f"{_cell(document['verdict'])}"
    yield ""
    system = os.uname()
    yield f"xpubuild {__version__}, Python {sys.version.split()[0]}, {system.sysname} {system.machine}."
    yield "Names of users, hosts and homes, addresses, serial numbers and secrets are masked."
    yield ""
    yield "| check | status | detail |"
    yield "| --- | --- | --- |"
    for status in _ORDER:
        for check in document["checks"]:
            if check["status"] == status:
                yield f"| {check['id']} | {status} | {_cell(check['detail'])} |"
    yield ""
    yield "## Environment"
    yield ""
    yield from _fenced("\n".join(f"{name}={value}" for name, value in environ.items()), "")
    yield ""
    yield "## Report"
    yield ""
    yield from _fenced(json.dumps(document, indent=1, ensure_ascii=False), "json")


def _fenced(text: str, kind: str) -> Iterator[str]:
    """Yield a code block whose fence is longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}{kind}"
    # A lone surrogate (a file name that is no UTF-8) cannot be written.
    yield text.encode("utf-8", "backslashreplace").decode("utf-8")
    yield fence


def _cell(text: str) -> str:
    words = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
    return words.encode("utf-8", "backslashreplace").decode("utf-8")
