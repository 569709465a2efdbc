"""What doctor, explain and an error show: findings, each with its cause and what to do."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from xpubuild.errors import XpuBuildError
from xpubuild.ui.parts import Commands, Document, Part, Parts, Sentences, facts, listed, table
from xpubuild.ui.terminal import Terminal, annotation, clean, harmless, one_line, paragraph

_STYLES = {"fail": ("bold", "red"), "error": ("bold", "red"), "warn": ("bold", "yellow"), "ok": ("green",)}
#: Failures first, then checks that could not complete, then warnings; -v also shows the rest.
_BAD = ("fail", "error", "warn")
_REST = ("ok", "skip")
_WORDS = {"fail": "failed", "error": "could not complete", "warn": "warned", "ok": "ok", "skip": "skipped"}
_INDENT = 6
_TAIL_LINES = 15
_TAIL_BYTES = 64 * 1024
_LONGEST_LINE = 400
_MOST_FINDINGS = 3


def doctor_text(document: Document, terminal: Terminal, *, verbose: bool = False) -> str:
    """Return an ``xpubuild.doctor/1`` document as text that ends with a newline."""
    lines = [terminal.paint(one_line(document["verdict"]), "bold", _STYLES[document["status"]][-1])]
    for check in _bad(document):
        lines += ["", *_check(check, terminal)]
    if verbose:
        lines.append("")
        for check in document["checks"]:
            if check["status"] in _REST:
                head = f"{check['status']:<6}{check['id']}: "
                lines += paragraph(terminal, head, check["detail"], indent=_INDENT)
    lines += ["", *paragraph(terminal, "", _counted(document, verbose=verbose), indent=_INDENT)]
    return "\n".join(lines) + "\n"


def _bad(document: Document) -> list[Document]:
    return [check for status in _BAD for check in document["checks"] if check["status"] == status]


def _check(check: Document, terminal: Terminal) -> Iterator[str]:
    status, fix = check["status"], check["fix"]
    expected = "" if status == "error" else "expected: "
    yield from paragraph(
        terminal, f"{status:<6}", f"{check['id']}: {expected}{check['title']}", *_STYLES[status]
    )
    gap = " " * _INDENT
    yield from paragraph(terminal, gap, check["detail"])
    if fix:
        yield from paragraph(terminal, f"{gap}fix: ", fix["summary"], indent=_INDENT)
        yield from _commands(terminal, f"{gap}  ", fix["commands"])
    if check["docs"]:
        page = one_line(check["docs"])
        # The pages of docs/ are in the repository only; the command prints the same text anywhere.
        here = f"more: xpubuild doctor --list -v --only {check['id']}"
        yield gap + terminal.paint(here if page.startswith("docs/") else f"see {page}", "dim")


def _commands(terminal: Terminal, gap: str, commands: Iterable[str]) -> Iterator[str]:
    """Yield the lines of commands, never broken: they are copied."""
    lines = (line for command in commands for line in clean(command).split("\n"))
    yield from (f"{gap}{terminal.paint(line, 'cyan')}" for line in lines)


def _counted(document: Document, *, verbose: bool) -> str:
    counts = [f"{count} {_WORDS[status]}" for status, count in document["summary"].items() if count]
    hidden = not verbose and any(document["summary"].get(status) for status in _REST)
    return (", ".join(counts) or "no checks") + (" (-v lists them all)" if hidden else "")


def doctor_annotations(document: Document) -> str:
    """Return the failures and warnings as annotations of GitHub Actions."""
    texts = []
    for check in _bad(document):
        fix = check["fix"] or {"summary": "", "commands": []}
        message = "\n".join(part for part in (check["detail"], fix["summary"], *fix["commands"]) if part)
        kind = "warning" if check["status"] == "warn" else "error"
        texts.append(annotation(kind, message, f"{check['id']}: {check['title']}"))
    return "".join(texts)


def doctor_summary_view(document: Document) -> Parts:
    """Return the verdict and the checks that are not ok, with their fixes, for a page."""
    columns = ("check", "result", "detail", "fix")
    rows = (
        (check["id"], _WORDS[check["status"]], check["detail"], (check["fix"] or {}).get("summary"))
        for check in _bad(document)
    )
    return (Sentences((document["verdict"], _counted(document, verbose=True))), table("", columns, rows))


def doctor_checks_view(document: Document) -> Parts:
    """Return the table of all checks of doctor."""
    columns = {"check": "id", "severity": "severity", "profiles": "profiles", "passes when": "title"}
    return (listed("", document["checks"], columns),)


def doctor_explanations(document: Document) -> str:
    """Return what each check looks at and why, as its page has it."""
    return "\n".join(
        f"{check['id']}: {one_line(check['title'])}\n\n{clean(check['explanation'])}\n"
        for check in document["checks"]
    )


def explain_view(document: Document) -> Parts:
    """Return the parts of an ``xpubuild.explain/1`` document."""
    return tuple(_explained(document))


def _explained(document: Document) -> Iterator[Part]:
    first, findings, lines = document["first_error"], document["findings"], document["lines"]
    if first is None and not findings:
        nothing = f"no line is known as an error ({lines} read); if it failed, the cause is not known"
        yield facts({"result": nothing if lines else "the log is empty; pass the log of the failed build"})
        return
    if first is not None:
        about = {"line": first["line"], "failed": f"{first['step']} ({first['kind']})", "text": first["text"]}
        yield facts({**about, "frame": first["frame"], "command": first["command"]}, "First error")
    for number, finding in enumerate(findings, 1):
        yield facts({
            "rule": finding["id"],
            "confidence": finding["confidence"],
            "decided by": finding["decided_by"],
            "line": f"{finding['line']}: {finding['excerpt']}",
            "cause": finding["cause"],
            "fix": finding["fix"],
            "references": " ".join(finding["sources"]),
        }, f"Finding {number} of {len(findings)}: {finding['title']}")  # fmt: skip
        yield Commands((finding["next_command"],), "Next")
    if first is not None and all(finding["confidence"] == "possible" for finding in findings):
        tried = "the messages of all known failures: no cause is sure" if findings else "all known failures"
        yield facts({"failed": first["step"], "compared with": tried}, "The cause is not known")
        yield Commands(tuple(line for line in first["context"] if line.strip()), "Context")
        yield Commands(tuple(document["search_terms"]), "Search for")
        yield Commands(("xpubuild doctor --bundle report.md",), "Report for a question to others")


def rules_view(document: Document) -> Parts:
    """Return the table of all rules."""
    columns = {"family": "family", "rule": "id", "problem": "title"}
    return (listed("", document["rules"], columns),)


def error_text(error: XpuBuildError, terminal: Terminal) -> str:
    """Return what, why, fix, commands to copy, the likely cause, the log and its end, as lines."""
    lines = paragraph(terminal, "error: ", error.what, "bold", "red")
    for name, text in error.reasons().items():
        lines += paragraph(terminal, f"  {name}: ", text, "bold")
    if error.commands:
        lines += ["", "  run:", *_commands(terminal, "      ", error.commands)]
    lines += _lines_of_tool(error)
    for item in list((error.explanation or {}).get("findings") or ())[:_MOST_FINDINGS]:
        lines += ["", *paragraph(terminal, f"  cause ({item['confidence']}): ", item["title"], "bold")]
        lines.append(f"    line {item['line']}: {harmless(clean(item['excerpt']))[:_LONGEST_LINE]}")
        for name in ("cause", "fix"):
            lines += paragraph(terminal, f"    {name}: ", item[name])
        lines.append(f"    run: {terminal.paint(clean(item['next_command']), 'cyan')}")
        lines.append(f"    from: {clean(', '.join(item['sources'][:2]))}")
    if error.log is not None:
        # The bar keeps the runner of GitHub Actions from reading a line as its command.
        tail = [f"    | {harmless(line[:_LONGEST_LINE])}" for line in tail_of(error.log)]
        lines += ["", f"  log: {clean(str(error.log))}", *(terminal.paint(line, "dim") for line in tail)]
    lines.append(terminal.paint(f"  ({error.code}, exit code {error.exit_code})", "dim"))
    return "\n".join(lines) + "\n"


def _lines_of_tool(error: XpuBuildError) -> list[str]:
    """Return the tool's own lines that the error rests on, and the place where they stand."""
    items = error.evidence.get("lines")
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items) or not items:
        return []
    place = error.evidence.get("file") or error.log or ""
    lines = ["", f"  {clean(str(place))}, line {items[0].get('line')}:"]
    return lines + [f"    | {harmless(clean(str(item.get('text'))))[:_LONGEST_LINE]}" for item in items]


def tail_of(log: Path) -> list[str]:
    """Return up to 15 last lines of a log; none where it cannot be read."""
    try:
        with log.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - _TAIL_BYTES))
            data = stream.read(_TAIL_BYTES)
    except OSError:
        return []
    lines = clean(data.decode("utf-8", "replace")).rstrip().split("\n")
    return [line.rstrip() for line in lines[-_TAIL_LINES:]] if lines != [""] else []
