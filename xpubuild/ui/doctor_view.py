"""The report of doctor as text: the verdict, failures with commands that fix them, warnings, a count."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from xpubuild.ui.github import annotation
from xpubuild.ui.parts import Part, Sentences, TableBuilder
from xpubuild.ui.terminal import Terminal, clean, one_line

_WIDEST, _NARROWEST = 100, 40
_STYLES = {"fail": ("bold", "red"), "error": ("bold", "red"), "warn": ("bold", "yellow"), "ok": ("green",)}
_HEADS = {"fail": "red", "warn": "yellow", "ok": "green"}
#: Failures first, then checks that could not complete, then warnings; -v also shows the rest.
_TOLD = ("fail", "error", "warn")
_REST = ("ok", "skip")
_WORDS = {"fail": "failed", "error": "could not complete", "warn": "warned", "ok": "ok", "skip": "skipped"}
_INDENT = "      "


def doctor_text(document: Mapping[str, Any], terminal: Terminal, *, verbose: bool = False) -> str:
    """Return an ``xpubuild.doctor/1`` document as text that ends with a newline."""
    lines = [terminal.paint(one_line(document["verdict"]), "bold", _HEADS[document["status"]])]
    for status in _TOLD:
        for check in document["checks"]:
            if check["status"] == status:
                lines += ["", *_told(check, terminal)]
    if verbose:
        lines.append("")
        for check in document["checks"]:
            if check["status"] in _REST:
                lines += _paragraph(f"{check['status']:<6}{check['id']}: ", check["detail"], terminal)
    lines += ["", *_paragraph("", _counted(document, verbose), terminal)]
    return "\n".join(lines) + "\n"


def annotations_text(document: Mapping[str, Any]) -> str:
    """Return the failures and warnings as annotations of GitHub Actions."""
    kinds = {"fail": "error", "error": "error", "warn": "warning"}
    texts = []
    for status in _TOLD:
        for check in document["checks"]:
            if check["status"] == status:
                fix = check["fix"] or {"summary": "", "commands": []}
                parts = (check["detail"], fix["summary"], *fix["commands"])
                message = "\n".join(part for part in parts if part)
                texts.append(annotation(kinds[status], message, f"{check['id']}: {check['title']}"))
    return "".join(texts)


def summary_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the verdict and the checks that are not ok, with their fixes, for a page."""
    table = TableBuilder(["check", "result", "detail", "fix"])
    for status in _TOLD:
        for check in document["checks"]:
            if check["status"] == status:
                fix = check["fix"] or {"summary": ""}
                table.add(check["id"], _WORDS[status], check["detail"], fix["summary"])
    return (Sentences((document["verdict"], _counted(document, verbose=True))), table.build())


def checks_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the table of all checks."""
    table = TableBuilder(["check", "severity", "profiles", "passes when"])
    for check in document["checks"]:
        table.add(check["id"], check["severity"], ", ".join(check["profiles"]), check["title"])
    return (table.build(),)


def explanations_text(document: Mapping[str, Any]) -> str:
    """Return what each check looks at and why, as its page has it."""
    parts = [
        f"{check['id']}: {one_line(check['title'])}\n\n{clean(check['explanation'])}\n"
        for check in document["checks"]
    ]
    return "\n".join(parts)


def _told(check: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    status = check["status"]
    head = terminal.paint(f"{status:<6}", *_STYLES[status])
    expected = "expected: " if status in ("fail", "warn") else ""
    yield f"{head}{terminal.paint(check['id'], 'bold')}: {expected}{one_line(check['title'])}"
    yield from _paragraph(_INDENT, check["detail"], terminal)
    fix = check["fix"]
    if fix:
        yield from _paragraph(f"{_INDENT}fix: ", fix["summary"], terminal)
        # Never broken into lines: they are copied.
        for command in fix["commands"]:
            yield from (f"{_INDENT}  {terminal.paint(line, 'cyan')}" for line in clean(command).split("\n"))
    if check["docs"]:
        page = one_line(check["docs"])
        # The pages of docs/ are in the repository only; the command prints the same text anywhere.
        here = f"more: xpubuild doctor --list -v --only {check['id']}"
        yield f"{_INDENT}{terminal.paint(here if page.startswith('docs/') else 'see ' + page, 'dim')}"


def _counted(document: Mapping[str, Any], verbose: bool) -> str:
    counts = [f"{count} {_WORDS[status]}" for status, count in document["summary"].items() if count]
    hidden = not verbose and any(document["summary"].get(status) for status in _REST)
    return (", ".join(counts) or "no checks") + (" (-v lists them all)" if hidden else "")


def _paragraph(head: str, text: str, terminal: Terminal) -> list[str]:
    """Return text behind a head, further lines indented; a terminal gets lines that fit into it."""
    parts = clean(head + text).rstrip().split("\n")
    width = min(terminal.size()[0] - 1, _WIDEST) - len(_INDENT) if terminal.live else 0
    # A terminal of a few columns breaks lines itself, no worse than one word per line would read.
    if width >= _NARROWEST:
        parts = [
            line
            for part in parts
            for line in textwrap.wrap(part, width, break_long_words=False, break_on_hyphens=False) or [""]
        ]
    return [parts[0], *(f"{_INDENT}{line}" for line in parts[1:])]
