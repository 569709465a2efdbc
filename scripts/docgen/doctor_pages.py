"""docs/checks: a page for each check of doctor, and the table of all of them."""

from __future__ import annotations

import inspect

from docgen import markdown as md
from xpubuild.doctor.model import Check
from xpubuild.doctor.plugins import BrokenCheck
from xpubuild.doctor.registry import arranged, group_of, shipped

_ABOUT = """
`xpubuild doctor` runs these checks side by side; [doctor](../how-to/doctor.md) is about using it. A check is
left out (`skip`) where the question does not arise, where a check that it needs did not end well, and where
only the running machine could answer and `--root` looks at files. The exit status is 10 where one failed or
came to no answer. A warning does not change it.
"""
_WHEN = {"fail": "a failure: the exit status is 10", "warn": "a warning"}


def pages() -> dict[str, str]:
    """Return path below docs/ -> text.

    Raises:
        RuntimeError: checks cannot be loaded, so the pages would lack some.
    """
    checks = arranged(shipped())
    problems = [f"{check.id}: {check.problem}" for check in checks if issubclass(check, BrokenCheck)]
    if problems:
        raise RuntimeError("\n".join(problems))
    texts = {f"checks/{check.id}.md": _page(check, checks) for check in checks}
    return {"checks/README.md": _index(checks), **texts}


def _index(checks: tuple[type[Check], ...]) -> str:
    parts = [md.head("Checks of doctor", "xpubuild/doctor/checks"), _ABOUT]
    for group in dict.fromkeys(group_of(check.id) for check in checks):
        rows = [
            (f"[{check.id}]({check.id}.md)", check.title, check.severity, _profiles(check))
            for check in checks
            if group_of(check.id) == group
        ]
        parts += [f"## {group}\n", md.table(("check", "what holds where it is ok", "else", "profiles"), rows)]
    return "\n".join(parts)


def _page(check: type[Check], checks: tuple[type[Check], ...]) -> str:
    source = check.__module__.replace(".", "/") + ".py"
    parts = [md.head(check.id, source), f"What holds where it is ok: {check.title}.\n"]
    if check.explanation:
        parts.append(inspect.cleandoc(check.explanation) + "\n")
    parts.append("## In short\n")
    parts.append(md.table(("", ""), _facts(check, {item.id for item in checks})))
    return "\n".join(parts)


def _facts(check: type[Check], known: set[str]) -> list[tuple[str, str]]:
    needs = [f"[{name}]({name}.md)" if name in known else md.code(name) for name in check.needs]
    families = [md.code(name) for name in check.families]
    facts = [
        ("a finding is", _WHEN[check.severity]),
        ("profiles", _profiles(check)),
        ("needs", ", ".join(needs)),
        ("foresees", ", ".join(families) + (" ([families](../reference/explain.md))" if families else "")),
        ("with `--root`", "skipped: only the running machine can tell" if check.live else "asked too"),
        ("recipe", "only asked with `--recipe`" if check.recipe else ""),
        ("deadline", f"{check.deadline_s:g} s"),
        ("alone", md.code(f"xpubuild doctor --only {check.id}")),
    ]
    return [fact for fact in facts if fact[1]]


def _profiles(check: type[Check]) -> str:
    return ", ".join(sorted(check.profiles))
