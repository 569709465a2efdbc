"""The one file that anybody sends to anybody: doctor's report and a workspace's evidence, without secrets.

Everything about a workspace is optional: of one that is half made or damaged, the bundle holds what can be
read, and says what cannot.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from xpubuild import __version__
from xpubuild.doctor.identity import Anonymiser, Identity, identity_of
from xpubuild.engine.redact import Redactor
from xpubuild.errors import UsageError, XpuBuildError
from xpubuild.resources import PACKAGE

# Variables that affect how PyTorch for XPU is built and run; all others are left out of the report.
_TOLD = re.compile(
    r"(?:ONEAPI|ZE|ZET|ZES|SYCL|UR|OCL|PYTORCH|TORCH|TORCHINDUCTOR|TRITON|CCL|I_MPI|FI|IGC|NEO|SETVARS|CMPLR|MKL|"
    r"TBB|UMF|PTI|CMAKE|XPUBUILD)(?:_.*)?"
    r"|MKLROOT|CMPLR_ROOT|TBBROOT|DPCPP_HOME|USE_XPU|USE_[A-Z0-9_]+|MAX_JOBS|CC|CXX|CFLAGS|CXXFLAGS|LDFLAGS|CPATH"
    r"|C_INCLUDE_PATH|CPLUS_INCLUDE_PATH|LIBRARY_PATH|LD_LIBRARY_PATH|LD_PRELOAD|PATH|PYTHONPATH|PYTHONHOME"
    r"|VIRTUAL_ENV|CONDA_PREFIX|CONDA_DEFAULT_ENV|OverrideGpuAddressSpace|EnableImplicitScaling|TMPDIR|LANG|LC_ALL"
)
_ORDER = ("fail", "error", "warn", "skip", "ok")
#: Sections of a workspace, in the order of the file: what failed first, the long documents last.
_SECTIONS = {
    "unread": "Could not be read",
    "explain": "Failures, explained",
    "gate": "Warnings of the XPU gate",
    "status": "Steps and runs",
    "audit": "Audits of wheels",
    "verify": "Verify",
    "full": "Verify: suite full",
    "differs": "Checks that end otherwise than on the stand-in device",
    "speed": "Verify: suite speed",
    "captures": "Captured oneAPI environments",
    "plan": "Plan",
}
#: Lines of the end of a log: of a step that failed, and of any other.
_FAILED_LINES, _LINES = 400, 40
_LONGEST_LINE = 1000
_MOST_FILES = 3


def write_bundle(
    document: Mapping[str, Any],
    environ: Mapping[str, str],
    path: Path,
    evidence: Mapping[str, Any] | None = None,
) -> None:
    """Write the report to a file.

    Raises:
        UsageError: the file cannot be written.
    """
    text = bundle_text(document, environ, evidence=evidence)
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
    evidence: Mapping[str, Any] | None = None,
) -> str:
    """Return the report: ``document`` is an ``xpubuild.doctor/1`` document, ``environ`` the caller's.

    ``evidence`` is that of ``workspace_evidence``; None where no workspace was meant.
    """
    redact = Redactor.from_environment(environ)
    mask = Anonymiser(identity or identity_of(environ, Path(document["root"])), redact)
    shown: Any = mask.tree(document)
    chosen = {name: value for name, value in sorted(environ.items()) if _TOLD.fullmatch(name)}
    told: Any = mask.tree(redact.environment(chosen))
    for check, told_of in zip(document["checks"], shown["checks"], strict=True):
        told_of["status"] = check["status"]  # the table is made by it, whatever word it is
    more: Any = mask.tree(evidence or {})
    return "\n".join((*_lines(shown, told), *_workspace(more))) + "\n"


def _lines(document: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[str]:
    system = os.uname()
    yield from ("# xpubuild bundle", "", _cell(document["verdict"]), "")
    yield f"xpubuild {__version__}, Python {sys.version.split()[0]}, {system.sysname} {system.machine}."
    yield "Names of users, hosts and homes, addresses, serial numbers and secrets are masked."
    yield from ("", "| check | status | detail |", "| --- | --- | --- |")
    for check in sorted(document["checks"], key=lambda item: _ORDER.index(item["status"])):
        yield f"| {check['id']} | {check['status']} | {_cell(check['detail'])} |"
    yield from _section("Environment", "\n".join(f"{name}={value}" for name, value in environ.items()))
    yield from _section("Report", document)


def _workspace(evidence: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is known of a workspace and of internal errors; empty sections are left out."""
    for key, title in _SECTIONS.items():
        value = evidence.get(key)
        if value and any(value.values() if isinstance(value, dict) else value):
            yield from _section(title, value)
    for group, title in (("logs", "End of the log"), ("bugs", "Internal error")):
        for name, lines in (evidence.get(group) or {}).items():
            if lines:
                yield from _section(f"{title}: {name}", "\n".join(lines))


def _section(title: str, content: Any) -> Iterator[str]:
    """Yield a heading and a code block, whose fence is longer than any in the text."""
    kind = "" if isinstance(content, str) else "json"
    text = json.dumps(content, indent=1, ensure_ascii=False) if kind else content
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    # A lone surrogate (a file name that is no UTF-8) cannot be written.
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    yield from ("", f"## {title}", "", f"{fence}{kind}", text, fence)


def _cell(text: str) -> str:
    words = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
    return words.encode("utf-8", "backslashreplace").decode("utf-8")


def workspace_evidence(root: Path, checks: Mapping[str, str]) -> dict[str, Any]:
    """Return section -> what a workspace has of it, unmasked; ``checks`` are the results of doctor."""
    from xpubuild.engine.journal import Journal  # noqa: PLC0415 - this and the others: with a workspace only
    from xpubuild.explain.document import Circumstances, explain_file  # noqa: PLC0415
    from xpubuild.machine.system import os_facts, system_of  # noqa: PLC0415
    from xpubuild.workspace.layout import Layout  # noqa: PLC0415
    from xpubuild.workspace.status import status_document  # noqa: PLC0415

    layout, unread = Layout(root), []

    def read(name: str, make: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return make(*arguments)
        except (XpuBuildError, OSError, ValueError) as error:
            unread.append(f"{name}: {error.what if isinstance(error, XpuBuildError) else error}")
            return None

    def of_file(name: str, path: Path) -> Any:
        return read(name, lambda: json.loads(path.read_text("utf-8"))) if path.exists() else None

    def of_journal() -> dict[str, Any]:
        with Journal(layout.journal, read_only=True) as journal:
            return status_document(str(root), journal, {})

    status = read("the journal", of_journal) or {"steps": []}
    receipt = of_file("the receipt", layout.receipt) or {}
    failed = [step["id"] for step in status["steps"] if step["status"] == "failed"]
    logs = sorted(path for path in layout.logs.glob("*.log") if path.is_file())
    known = Circumstances(system=system_of(os_facts()), checks=checks)
    explained = {step: read(step, explain_file, layout.logs / f"{step}.log", known) for step in failed}
    ends = {path.name: _FAILED_LINES if path.stem in failed else _LINES for path in logs}
    suites = {name: of_file(f"suite {name}", layout.verify_suite(name)) for name in ("full", "speed")}
    return {
        "status": status,
        "plan": of_file("the plan", layout.plan),
        "captures": {"activation": receipt.get("activation")},
        "gate": receipt.get("warnings", []),
        "audit": [item["audit"] for step in status["steps"] for item in step["evidence"] if "audit" in item],
        "verify": of_file("the report of verify", layout.verify_report),
        **suites,
        "differs": differs_from_stand_in((suites["full"] or {}).get("checks", ())),
        "explain": {step: item and item.to_json() for step, item in explained.items()},
        "logs": {path.name: read(path.name, end_of, path, ends[path.name]) for path in logs},
        "unread": unread,
    }


def differs_from_stand_in(checks: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return those of verify's checks that ended otherwise on the stand-in device, with both results.

    ``standin_results.json`` of the room verify has these (docs/evidence/pytorch-2.6.0-xpu).
    """
    there = json.loads((PACKAGE / "verify" / "standin_results.json").read_text("utf-8"))
    known: Mapping[str, str] = there["checks"]
    return [
        {"check": item["id"], "here": item["status"], "stand_in": known[item["id"]], "why": item["detail"]}
        for item in checks
        if known.get(item["id"], item["status"]) != item["status"]
    ]


def internal_errors() -> dict[str, list[str]]:
    """Return the newest reports of internal errors that this user has in the folder for temporary files."""
    found = _newest(Path(tempfile.gettempdir()), "xpubuild-bug-*.txt")
    return {path.name: end_of(path, _FAILED_LINES) for path in found if path.stat().st_uid == os.geteuid()}


def end_of(path: Path, count: int) -> list[str]:
    """Return the last lines of a text, long ones cut.

    Raises:
        OSError: it cannot be read.
    """
    with path.open(encoding="utf-8", errors="replace") as stream:
        return [line.rstrip("\n")[:_LONGEST_LINE] for line in deque(stream, maxlen=count)]


def _newest(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime, reverse=True)[:_MOST_FILES]
