"""docs/checks: a page for each check of doctor, and the table of all of them."""

from __future__ import annotations

import sys

from docgen import markdown as md
from xpubuild.doctor.kit import Check
from xpubuild.doctor.registry import arranged, families_of, shipped

_ABOUT = """
`xpubuild doctor` runs these checks in parallel; [Check a host](../how-to/doctor.md) shows how to use it. A
check is skipped if it does not apply, if a check that it needs did not pass, or if it needs the running
machine and `--root` is used. The exit code is 10 if a check failed or could not complete. Warnings do not
change it.
"""
_WHEN = {"fail": "failure (exit code 10)", "warn": "warning"}


def pages() -> dict[str, str]:
    """Return path below docs/ -> text.

    Raises:
        RuntimeError: checks cannot be loaded, so the pages would lack some.
    """
    checks = arranged(shipped())
    problems = [f"{check.id}: {check.problem}" for check in checks if check.problem]
    if problems:
        raise RuntimeError("\n".join(problems))
    texts = {f"checks/{check.id}.md": _page(check, checks) for check in checks}
    return {"checks/README.md": _index(checks), **texts}


def _index(checks: tuple[Check, ...]) -> str:
    parts = [md.head("Checks of doctor", "xpubuild/doctor/checks"), _ABOUT]
    for group in dict.fromkeys(check.group for check in checks):
        rows = [
            (f"[{check.id}]({check.id}.md)", check.title, check.severity, _profiles(check))
            for check in checks
            if check.group == group
        ]
        parts += [f"## {group}\n", md.table(("check", "passes when", "otherwise", "profiles"), rows)]
    return "\n".join(parts)


def _page(check: Check, checks: tuple[Check, ...]) -> str:
    source = check.ask.__module__.replace(".", "/") + ".py"
    parts = [md.head(check.id, source), f"Passes when: {check.title}.\n"]
    if check.explanation:
        parts.append(check.explanation + "\n")
    parts.append("## Summary\n")
    parts.append(md.table(("", ""), _facts(check, {item.id for item in checks})))
    return "\n".join(parts)


def _facts(check: Check, known: set[str]) -> list[tuple[str, str]]:
    needs = [f"[{name}]({name}.md)" if name in known else md.code(name) for name in check.needs]
    families = [md.code(name) for name in families_of(check.id)]
    also = ", or a warning: see above" if check.severity == "fail" and _warns(check) else ""
    facts = [
        ("result if it does not pass", _WHEN[check.severity] + also),
        ("profiles", _profiles(check)),
        ("needs", ", ".join(needs)),
        ("detects", ", ".join(families)),
        ("with `--root`", "skipped: needs the running machine" if check.live else "runs"),
        ("recipe", "runs only with `--recipe`" if check.recipe else ""),
        ("timeout", f"{check.deadline_s:g} s"),
        ("run only this check", md.code(f"xpubuild doctor --only {check.id}")),
    ]
    return [fact for fact in facts if fact[1]]


def _warns(check: Check) -> bool:
    """Whether the function of a check, or one of its module that it calls, answers with a warning."""
    todo, seen = [check.ask.__name__], set[str]()
    module = vars(sys.modules[check.ask.__module__])
    while todo:
        name = todo.pop()
        function = check.ask if name == check.ask.__name__ else module.get(name)
        code = getattr(function, "__code__", None)
        if (
            name not in seen
            and code is not None
            and getattr(function, "__module__", "") == check.ask.__module__
        ):
            seen.add(name)
            todo += code.co_names
            if "warn" in code.co_names:
                return True
    return False


def _profiles(check: Check) -> str:
    return ", ".join(sorted(check.profiles))
