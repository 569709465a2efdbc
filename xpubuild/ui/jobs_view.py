"""Jobs of a batch system as text."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from xpubuild.ui.parts import Facts, Part, Sentences, TableBuilder


def planned_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of an ``xpubuild.planned-jobs/1`` document."""
    table = TableBuilder(["job", "kind"])
    for job in document["jobs"]:
        table.add(job["name"], job["kind"])
    facts = Facts((("folder", document["folder"]), ("scheduler", document["scheduler"])))
    then = (
        f"Submit them: {shlex.quote(document['submit'])}",
        f"See what became of them: xpubuild status --jobs {shlex.quote(document['folder'])}",
    )
    return (facts, table.build("Jobs"), Sentences(then))


def jobs_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of an ``xpubuild.jobs/1`` document."""
    table = TableBuilder(["job", "kind", "state", "id", "exit"])
    for row in document["jobs"]:
        code = row["exit_code"]
        table.add(
            row["name"], row["kind"], row["state"], row["id"] or "-", "-" if code is None else str(code)
        )
    facts = Facts((("folder", document["folder"]), ("scheduler", document["scheduler"])))
    silent = "The scheduler did not answer; what the jobs did not write themselves is unknown."
    return (facts, table.build("Jobs"), *(() if document["answered"] else (Sentences((silent,)),)))
