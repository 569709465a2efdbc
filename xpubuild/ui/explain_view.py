"""An explanation as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from xpubuild.ui.parts import Commands, Facts, Part, TableBuilder

_HIGH, _MEDIUM = 0.8, 0.5
_BUNDLE = "xpubuild doctor --bundle report.md"
# What the tool that printed an error was doing.
_STEPS = {
    "compiler": "compiling a source file",
    "linker": "linking a library or program",
    "ocloc": "compiling kernels for the GPU ahead of time",
    "cmake": "configuring with CMake",
    "meson": "configuring with Meson",
    "ninja": "a build step of ninja",
    "make": "a build step of make",
    "git": "fetching sources with git",
    "pip": "installing or building Python packages",
    "uv": "installing Python packages with uv",
    "conda": "installing packages with conda",
    "apt": "installing packages with apt",
    "dpkg": "installing packages with dpkg",
    "dnf": "installing packages with dnf",
    "zypper": "installing packages with zypper",
    "docker": "building or starting a container",
    "curl": "a download",
    "python": "a Python program",
    "loader": "starting a program, while its libraries were loaded",
    "memory": "a process that the kernel or the system ended for lack of memory",
    "disk": "writing a file",
    "signal": "a program that crashed",
    "runtime": "work on the GPU",
    "kernel": "the kernel's GPU driver",
    "shell": "a command of a shell script",
    "tool": "a program",
}


def explain_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of an ``xpubuild.explain/1`` document."""
    return tuple(_parts(document))


def _parts(document: Mapping[str, Any]) -> Iterator[Part]:
    first, findings = document["first_error"], document["findings"]
    if first is None and not findings:
        yield Facts((("result", _nothing_found(document["lines"])),))
        return
    if first is not None:
        yield Facts(_first_error(first), "First error")
    for number, finding in enumerate(findings, 1):
        yield Facts(_finding(finding), f"Finding {number} of {len(findings)}: {finding['title']}")
        yield Commands((finding["next_command"],), "Next")
    if first is not None and all(finding["confidence"] < _MEDIUM for finding in findings):
        yield Facts(_not_known(first), "The cause is not known")
        yield Commands(tuple(line for line in first["context"] if line.strip()), "Context")
        yield Commands(tuple(document["search_terms"]), "Search for")
        yield Commands((_BUNDLE,), "Report for a question to others")


def _not_known(first: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    step = _STEPS.get(first["kind"], f"a step of {first['kind']}")
    return (("step", f"{step} failed"), ("tried", "all kinds of failures and all signatures: none is likely"))


def _nothing_found(lines: int) -> str:
    if not lines:
        return "the log is empty; pass the log of the failed build"
    return f"no error and no known failure in {lines} {'line' if lines == 1 else 'lines'}"


def _first_error(first: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    rows = [("line", str(first["line"])), ("source", first["kind"]), ("text", first["text"])]
    if first["command"]:
        rows.append(("command", first["command"]))
    return tuple(rows)


def _finding(finding: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    rows = [
        ("signature", finding["id"]),
        ("confidence", f"{_word(finding['confidence'])} ({finding['confidence']:.2f})"),
        ("line", f"{finding['line']}: {finding['excerpt']}"),
        ("cause", finding["cause"]),
        ("fix", finding["fix"]),
        ("releases", finding["releases"]),
        ("references", " ".join(finding["sources"])),
        ("resembles", " ".join(finding["resembles"])),
    ]
    return tuple(row for row in rows if row[1])


def _word(confidence: float) -> str:
    return "high" if confidence >= _HIGH else "medium" if confidence >= _MEDIUM else "low"


def signatures_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the table of all signatures."""
    table = TableBuilder(["family", "signature", "problem"])
    for entry in document["signatures"]:
        table.add(entry["family"], entry["id"], entry["title"])
    return (table.build(),)
