"""What the bundle tells of a workspace: plan, captures, gate, audits, verify, failures, the ends of logs.

Everything is optional: of a workspace that is half made or damaged, the bundle holds what can be read, and
says what cannot. Nothing is masked here.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from xpubuild.artifacts.cmake_build import Message, Messages
from xpubuild.artifacts.gate_rules import GateRule, shipped_gate_rules
from xpubuild.engine.journal import Journal
from xpubuild.errors import XpuBuildError
from xpubuild.explain.document import Circumstances, explain_file
from xpubuild.workspace.documents import status_document
from xpubuild.workspace.layout import Layout

#: Lines of the end of a log: of a step that failed, and of any other.
_FAILED_LINES, _LINES = 400, 40
_LONGEST_LINE = 1000
_MOST_GATE_LINES = 60
_MOST_FILES = 3
BUGS = "xpubuild-bug-*.txt"


def workspace_evidence(root: Path, system: Circumstances) -> dict[str, Any]:
    """Return section -> what there is of it."""
    layout, unread = Layout(root), []

    def read(name: str, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except (XpuBuildError, OSError, ValueError) as error:
            unread.append(f"{name}: {error.what if isinstance(error, XpuBuildError) else error}")
            return None

    status = read("the journal", partial(_status, root)) or {"steps": []}
    receipt = read("the receipt", partial(_document, layout.receipt)) or {}
    failed = [step["id"] for step in status["steps"] if step["status"] == "failed"]
    logs = sorted(path for path in layout.logs.glob("*.log") if path.is_file())
    return {
        "status": status,
        "plan": read("the plan", partial(_document, layout.plan)),
        "captures": {"activation": receipt.get("activation")},
        "gate": {
            "warnings": receipt.get("warnings", []),
            "lines": [line for path in logs for line in read(path.name, partial(gate_lines, path)) or []],
        },
        "audit": _audits(status["steps"]),
        "verify": read("the report of verify", partial(_document, layout.verify_report)),
        "explain": {
            step: read(step, partial(_explained, layout.logs / f"{step}.log", system)) for step in failed
        },
        "logs": {
            path.name: read(
                path.name, partial(end_of, path, _FAILED_LINES if path.stem in failed else _LINES)
            )
            for path in logs
        },
        "unread": unread,
    }


def internal_errors() -> dict[str, list[str]]:
    """Return the newest reports of internal errors that this user has in the folder for temporary files."""
    mine = [path for path in _newest(Path(tempfile.gettempdir()), BUGS) if path.stat().st_uid == os.geteuid()]
    return {path.name: end_of(path, _FAILED_LINES) for path in mine}


def end_of(path: Path, count: int) -> list[str]:
    """Return the last lines of a text, long ones cut.

    Raises:
        OSError: it cannot be read.
    """
    with path.open(encoding="utf-8", errors="replace") as stream:
        return [line.rstrip("\n")[:_LONGEST_LINE] for line in deque(stream, maxlen=count)]


def gate_lines(path: Path) -> list[dict[str, Any]]:
    """Return the messages of a log that a rule of the XPU gate looks for, whatever the build was asked for.

    Raises:
        OSError: it cannot be read.
    """
    rules = [rule for rule in shipped_gate_rules() if rule.line is not None]
    found: list[dict[str, Any]] = []
    with path.open(encoding="utf-8", errors="replace") as stream:
        for message in _messages(stream):
            names = [rule.id for rule in rules if _meets(rule, message.text)]
            if names and len(found) < _MOST_GATE_LINES:
                text = message.text[:_LONGEST_LINE]
                found.append({"log": path.name, "line": message.lines[0][0], "rules": names, "text": text})
    return found


def _messages(lines: Iterator[str]) -> Iterator[Message]:
    joined = Messages()
    for number, line in enumerate(lines, 1):
        yield from joined.feed(line.rstrip("\n"), number)
    yield from joined.rest()


def _meets(rule: GateRule, text: str) -> bool:
    low = text.lower()
    return any(word in low for word in rule.find) and re.search(rule.line or "", text) is not None


def _status(root: Path) -> dict[str, Any]:
    with Journal(Layout(root).journal, read_only=True) as journal:
        return status_document(str(root), journal, {})


def _audits(steps: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [item["audit"] for step in steps for item in step["evidence"] if "audit" in item]


def _document(path: Path) -> Any:
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def _explained(path: Path, known: Circumstances) -> dict[str, Any]:
    return explain_file(path, known).to_json()


def _newest(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime, reverse=True)[:_MOST_FILES]
