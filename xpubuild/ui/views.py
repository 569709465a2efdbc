"""Documents about workspaces, jobs, images and the configuration, for ``show``."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xpubuild.ui import wording
from xpubuild.ui.parts import Commands, Document, Facts, Parts, Sentences, Table, facts, listed, table

_MOST_PATHS = 20


def status_view(document: Document) -> Parts:
    """Return the parts of an ``xpubuild.status/1`` document."""
    held = document["locked_by"]
    last = document["runs"][-1:] if held else []
    return (
        facts({
            "workspace": document["workspace"],
            "in use": f"by process {held.get('pid')} ({held.get('command')})" if held else "no",
        }),
        listed("Steps", document["steps"], {
            "step": "id", "status": lambda step: _state(step["status"], held),
            ">time": "duration_s|took", "when": "started|when",
            "detail": lambda step: step["detail"] or (
                f"from the store {step['store']}" if step.get("store") else ""
            ),
        }),
        cache_table(document["compile_cache"]),
        listed("Last runs", document["runs"][-5:], {
            "run": "id", "recipe": "recipe",
            "status": lambda run: _state(run["status"] or "running", run in last), "when": "started|when",
        }),
    )  # fmt: skip


def _state(word: str, held: object) -> str:
    """Return the word of the journal for a person; ``held`` says whether it can be running now."""
    return "interrupted" if word == "cancelled" or (word == "running" and not held) else word


def cache_table(steps: Iterable[Document]) -> Table:
    """Return what compile caches hit: one row per step and family of the ``compile_cache`` of a document."""
    items = [
        {"step": step["step"], "program": step["program"], **it} for step in steps for it in step["families"]
    ]
    return listed("Compile cache", items, {
        "step": "step", "compile cache": "program", "family": "family", ">calls": "calls",
        ">hits": lambda item: f"{item['hits']} ({share(item)})", ">missed": "misses",
        ">not cached": "not_cached", "why not": why,
    })  # fmt: skip


def share(family: Document) -> str:
    """Return the hits of all calls in per cent; never 100 where one is missing."""
    return f"{100 * family['hits'] // family['calls']} %" if family["calls"] else "-"


def why(family: Document) -> str:
    """Return the reasons, most frequent first, and the part of the hits that another machine made."""
    words = [f"{count} {reason}" for reason, count in family["reasons"].items()]
    words += [f"{family['remote_hits']} hits from the remote storage"] if family["remote_hits"] else []
    return "; ".join(words)


def overview_view(document: Document) -> Parts:
    """Return the parts of an ``xpubuild.overview/1`` document."""
    wheels = sum(row["wheels_bytes"] for row in document["workspaces"])
    return (
        facts({
            "folder": document["folder"],
            "wheels that were built": wording.size(wheels) if document["workspaces"] else "",
        }),
        Sentences(() if document["workspaces"] else ("There is no workspace.",)),
        listed("Workspaces", document["workspaces"], {
            "workspace": "name", "recipe": "recipe", "torch": "torch", "state": "state",
            ">size": "size_bytes|size",
            "last used": lambda row: _age(row["last_used"]),
            "last verify": lambda row: f"{row['verify']}, {_age(row['verified'])}" if row["verify"] else "",
        }),
        listed("Caches", document["caches"], {"cache": "name", ">size": "size_bytes|size", "folder": "path"}),
    )  # fmt: skip


def _age(moment: float | None) -> str:
    if moment is None:
        return "-"
    days = int((time.time() - moment) // 86_400)
    return "today" if days < 1 else "1 day ago" if days == 1 else f"{days} days ago"


def clean_view(document: Document) -> Parts:
    """Return the parts of an ``xpubuild.clean/1`` document."""
    remove, keep = ("remove", "keep") if document["dry_run"] else ("removed", "kept")
    rows: list[tuple[str, ...]] = [(path, remove) for path in document["removed"]]
    rows += [(item["path"], keep, item["why"]) for item in document["kept"]]
    freed = "" if document["dry_run"] else wording.size(document["freed_bytes"])
    about = facts({"workspace": document["workspace"], "freed": freed})
    size = document.get("cache_bytes")
    ways = "'xpubuild clean --caches' and 'xpubuild store gc' remove it"
    stays = (f"{document['cache']} keeps {wording.size(size)} for other builds; {ways}.",) if size else ()
    return (about, table("", ("path", "action", "why"), rows), Sentences(stays))


def many_view(document: Document) -> Parts:
    """Return the parts of an ``xpubuild.store-gc/1`` document."""
    remove, keep = ("remove", "keep") if document["dry_run"] else ("removed", "kept")
    rows = [
        (row["path"], wording.size(row["size_bytes"]), remove, row.get("why")) for row in document["removed"]
    ]
    rows += [(item, "", keep, "") for item in document["kept"]]
    return (
        table("", ("path", ">size", "action", "why"), rows),
        Sentences(() if rows else ("There is nothing to remove.",)),
    )


def workspace_check_view(document: Document) -> Parts:
    """Return the parts of an ``xpubuild.check/1`` document."""
    checked = document["checked"]
    columns = {"what": "kind", "name": "name", "why": "why", "path": "path"}
    return (
        facts({
            "workspace": document["workspace"],
            "result": document["status"],
            "packages": f"{checked['packages']} with {checked['files']} files",
            "wheels": checked["wheels"],
            "checkouts": checked["sources"],
            "hashed": wording.size(checked["bytes"]),
        }),
        listed("Damaged", document["damaged"], columns),
        listed("Repaired", document["repaired"], columns),
        _paths(document["unowned"], "Files that no installed package and no step made"),
        _paths(document["edited"], "Sources with local changes"),
    )  # fmt: skip


def _paths(paths: Sequence[str], title: str) -> Sentences:
    more = [f"and {len(paths) - _MOST_PATHS} more"] if len(paths) > _MOST_PATHS else []
    return Sentences((*paths[:_MOST_PATHS], *more), title)


def report_view(document: Document, page: Path) -> Parts:
    """Return which file a report was written to."""
    about = {name: document[name] for name in ("workspace", "status")}
    return (facts({**about, "page": page}),)


def planned_jobs_view(document: Document) -> Parts:
    """Return the parts of an ``xpubuild.planned-jobs/1`` document."""
    then = (
        f"Submit them: {shlex.quote(document['submit'])}",
        f"See what became of them: xpubuild status --jobs {shlex.quote(document['folder'])}",
    )
    return (*_jobs(document, {"job": "name", "kind": "kind"}), Sentences(then))


def jobs_view(document: Document) -> Parts:
    """Return the parts of an ``xpubuild.jobs/1`` document."""
    columns = {"job": "name", "kind": "kind", "state": "state", "id": "id", "exit": "exit_code"}
    cells = listed("Cells", document["cells"], {
        "cell": "cell", "build": "build", "verdict": "verdict", "failing": "failing", "passed": "passed",
        "wheels": "wheels", "time": lambda row: wording.duration(row["seconds"]) if row["seconds"] else None,
        "speed": lambda row: None if row["speed"] is None else f"{row['speed']:.0%}",
    })  # fmt: skip
    bad = [row for row in document["cells"] if row["cause"]]
    causes = listed("Why", bad, {"cell": "cell", "cause": "cause", "log": "log"})
    silent = "The scheduler did not answer; what the jobs did not write themselves is unknown."
    return (*_jobs(document, columns), cells, causes, Sentences(() if document["answered"] else (silent,)))


def _jobs(document: Document, columns: Mapping[str, str]) -> tuple[Facts, Table]:
    about = facts({name: document[name] for name in ("folder", "scheduler")})
    return (about, listed("Jobs", document["jobs"], columns))


def image_view(document: Document) -> Parts:
    """Return the parts of an ``xpubuild.image/1`` document that was written or built."""
    built, file = document["build"] or {}, shlex.quote(document["output"] or "")
    command = f"apptainer build image.sif {file}"
    if document["format"] != "apptainer":
        folder = shlex.quote(str(Path(document["output"] or "").parent))
        command = f"podman build --format docker --file {file} --tag IMAGE {folder}"
    return (
        facts({
            "recipe": f"{document['recipe']} for {document['target']}",
            "base": document["base_image"],
            "written": document["output"],
            "built": built.get("tag"),
            "by": built.get("builder"),
            "log": built.get("log"),
        }),
        Commands(() if built else (command,), "Build it"),
    )  # fmt: skip


def config_view(document: Document) -> Parts:
    """Return the parts of an ``xpubuild.config/1`` document."""
    files = [
        (f"{item['layer']}'s file", item["path"] + ("" if item["exists"] else " (does not exist)"))
        for item in document["files"]
    ]
    nothing = Commands(("xpubuild config init",), "To write a file with every setting as a comment")
    if any(file["exists"] for file in document["files"] if file["layer"] == "user"):
        nothing = Commands(("xpubuild config --all",), "To list every setting")
    settings = listed("", document["settings"], {
        "setting": "key",
        "value": lambda row: _value(row["value"]),
        "from": lambda row: row["source"] or row["layer"],
        "overridden by": "overridden_by",
    })  # fmt: skip
    unset = (Sentences(("Nothing is set.",)), nothing)
    return (Facts(tuple(files)), *((settings,) if settings.items else unset))


def _value(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else value


def config_written_view(document: Document) -> Parts:
    """Return which configuration file was written."""
    return (facts({"written": document["file"]}), Commands(("xpubuild config",), "Next, try"))
