"""The JSON documents of doctor, as docs/schema describes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from xpubuild import __version__
from xpubuild.doctor.model import Check
from xpubuild.doctor.registry import docs_of, group_of
from xpubuild.doctor.report import Report, plain_json
from xpubuild.doctor.verdict import able, verdict
from xpubuild.documents import plain

SCHEMA = "xpubuild.doctor/1"
LIST_SCHEMA = "xpubuild.doctor-checks/1"


def doctor_document(report: Report, redact: Callable[[str], str] = str) -> dict[str, Any]:
    """Return a run as ``xpubuild.doctor/1``; ``redact`` is applied to every text about the host."""
    context = report.context
    return {
        "schema": SCHEMA,
        "status": report.status,
        "verdict": verdict(report),
        "able": able(report),
        "xpubuild": __version__,
        "profiles": list(report.profiles),
        "recipe": context.recipe.recipe.name if context.recipe else None,
        "root": str(context.root),
        "python": redact(str(context.python)) if context.python else None,
        "summary": report.counts(),
        "host": plain_json(context.host.to_json(), redact),
        "checks": plain(report.results),
    }


def checks_document(checks: Sequence[type[Check]]) -> dict[str, Any]:
    """Return the checks as ``xpubuild.doctor-checks/1``."""
    return {"schema": LIST_SCHEMA, "checks": [_listed(check) for check in checks]}


def _listed(check: type[Check]) -> dict[str, Any]:
    return {
        "id": check.id,
        "title": check.title,
        "group": group_of(check.id),
        "severity": check.severity,
        "profiles": sorted(check.profiles),
        "needs": list(check.needs),
        "families": list(check.families),
        "live": check.live,
        "recipe": check.recipe,
        "deadline_s": check.deadline_s,
        "docs": docs_of(check),
        "explanation": inspect.cleandoc(check.explanation),
    }
