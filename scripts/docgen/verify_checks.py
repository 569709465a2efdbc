"""The checks of verify by group, from the registry: a part of docs/reference/verify.md."""

from __future__ import annotations

from docgen import markdown as md
from xpubuild.verify.suite import registry


def section() -> str:
    """Return one table of checks for each group, in the order they run."""
    checks = registry.discover().values()
    parts = []
    for group in dict.fromkeys(check.group for check in checks):
        rows = [
            (
                md.code(check.id),
                check.title,
                md.prose(check.function.__doc__).split("\n\n", 1)[0].replace("\n", " "),
                ", ".join(check.suites),
                f"{check.deadline_s:g} s",
            )
            for check in checks
            if check.group == group
        ]
        header = ("check", "what it checks", "how", "suites", "timeout")
        parts.append(f"### {group}\n\n" + md.table(header, rows))
    return "\n".join(parts)
