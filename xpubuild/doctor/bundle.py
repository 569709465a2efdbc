"""The one file that anybody sends to anybody: doctor's report and a workspace's evidence, without secrets."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from xpubuild import __version__
from xpubuild.doctor.identity import Anonymiser, Identity, identity_of
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
#: Sections of a workspace, in the order of the file: what failed first, the long documents last.
_SECTIONS = {
    "unread": "Could not be read",
    "explain": "Failures, explained",
    "gate": "Lines of the XPU gate",
    "status": "Steps and runs",
    "audit": "Audits of wheels",
    "verify": "Verify",
    "captures": "Captured oneAPI environments",
    "plan": "Plan",
}


def write_bundle(
    document: Mapping[str, Any],
    environ: Mapping[str, str],
    path: Path,
    words: Words = NO_WORDS,
    evidence: Mapping[str, Any] | None = None,
) -> None:
    """Write the report to a file, without the user's own ``words``.

    Raises:
        UsageError: the file cannot be written.
    """
    text = bundle_text(document, environ, words=words, evidence=evidence)
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
    evidence: Mapping[str, Any] | None = None,
) -> str:
    """Return the report: ``document`` is an ``xpubuild.doctor/1`` document, ``environ`` the caller's.

    ``evidence`` is what ``bundle_workspace`` gathers; None where no workspace was meant.
    """
    redact = Redactor.from_environment(environ)
    mask = Anonymiser(identity or identity_of(environ, Path(document["root"])), redact)
    # Words first: a name of a user inside of one would be masked, and leave the rest of the word behind.
    shown: Any = mask.tree(words.tree(document))
    chosen = {name: words(value) for name, value in sorted(environ.items()) if _TOLD.fullmatch(name)}
    told: Any = mask.tree(redact.environment(chosen))
    for check, told_of in zip(document["checks"], shown["checks"], strict=True):
        told_of["status"] = check["status"]  # the table is made by it, whatever word it is
    more: Any = mask.tree(words.tree(evidence or {}))
    # And last: names of variables and keys hold words too.
    return words("\n".join((*_lines(shown, told), *_workspace(more))) + "\n")


def _lines(document: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[str]:
    yield "# xpubuild bundle"
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


def _workspace(evidence: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is known of a workspace and of internal errors; empty sections are left out."""
    for key, title in _SECTIONS.items():
        value = evidence.get(key)
        if value and any(value.values() if isinstance(value, dict) else value):
            yield from ("", f"## {title}", "")
            yield from _fenced(json.dumps(value, indent=1, ensure_ascii=False), "json")
    for group, title in (("logs", "End of the log"), ("bugs", "Internal error")):
        for name, lines in (evidence.get(group) or {}).items():
            if lines:
                yield from ("", f"## {title}: {name}", "")
                yield from _fenced("\n".join(lines), "")


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
