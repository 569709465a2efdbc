"""docs/reference/failure-families.md: the checks that detect each family of failures."""

from __future__ import annotations

from docgen import markdown as md
from xpubuild.doctor.families import families
from xpubuild.doctor.registry import shipped

_ABOUT = """
The families are those of [explain](explain.md): they group real failures of builds and runs by their common
cause. `xpubuild doctor` has checks for each family that can be detected on a host before a build; what they
cannot detect is listed with the reason.
"""


def page() -> str:
    """Return the page."""
    checks = sorted(shipped(), key=lambda check: check.id)
    text = [md.head("Failure families", "xpubuild/doctor/families.yaml"), _ABOUT]
    for name, family in families().items():
        text.append(f"\n## {name}\n\n{family['about'][0].upper()}{family['about'][1:]}.\n")
        rows = [
            (
                f"[{md.code(check.id)}](../checks/{check.id}.md)",
                check.title,
            )
            for check in checks
            if check.id in family["checks"]
        ]
        if rows:
            text.append("\n" + md.table(("check", "title"), rows))
        if family["beyond"]:
            text.append("\nNot detected:\n\n")
            text.extend(f"* {item['what']}: {item['why']}.\n" for item in family["beyond"])
    return "".join(text)
