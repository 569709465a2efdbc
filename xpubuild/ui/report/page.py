"""Makes the page of an ``xpubuild.report/1`` document.

jinja2 escapes every value that the template is given, so that nothing in a log or a name becomes markup; the
page's own policy forbids scripts and everything that would be loaded.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from xpubuild.engine.unprintable import without_unprintable
from xpubuild.ui import wording as show
from xpubuild.ui.report import words
from xpubuild.ui.report.builds import build_figures, slowest_edges
from xpubuild.ui.report.operators import operator_table
from xpubuild.ui.report.timeline import timeline
from xpubuild.ui.views import share, why

#: Results of runs, in the words of ``status``.
_WORDS = {"ok": "ok", "failed": "failed", "cancelled": "interrupted"}
_HERE = Path(__file__).resolve().parent


def page(document: Mapping[str, Any]) -> str:
    """Return the page, as HTML."""
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=_visible,
    )  # fmt: skip
    environment.filters |= {
        "look": words.look, "sign": words.sign, "moment": words.moment, "took": words.took,
        "figures": words.figures, "plural": show.plural, "share": share, "why": why,
        "memory": show.memory, "size": show.size, "shell": shlex.join,
    }  # fmt: skip
    return environment.get_template("page.html").render(
        report=document,
        style=(_HERE / "page.css").read_text("utf-8"),
        head=_head(document),
        timeline=timeline(document),
        figures_of_builds=build_figures(document),
        slowest=slowest_edges(document),
        runs=_runs(document),
        commands=_by_step(document),
        operators=operator_table(document["operators"]) if document["operators"] else None,
        machine=_machine(document),
    )


def _visible(value: Any) -> Any:
    """Return a text without characters that turn or hide others, and without halves of characters."""
    if type(value) is not str:
        return value
    return without_unprintable(value).encode("utf-8", "replace").decode()


def _head(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the facts that stand first."""
    steps, verify = document["steps"], document["verify"]
    done = sum(step["status"] == "done" for step in steps)
    facts = [
        ("recipe", document["recipe"]),
        ("steps", f"{done} of {len(steps)} done"),
        ("peak memory", show.memory(max((step["peak_bytes"] for step in steps), default=0))),
        ("compiled", show.plural(sum(len(build["edges"]) for build in document["builds"]), "ninja edge")),
        ("wheels built", ", ".join(f"{item['name']} {item['version']}" for item in document["wheels"])),
    ]
    if verify is not None:
        counts = ", ".join(f"{count} {status}" for status, count in verify["summary"].items() if count)
        facts.append(("verify", f"{verify['status']} ({counts})"))
    facts += [(name, str(document["summary"].get(name, ""))) for name in ("target", "torch", "jobs")]
    return [(name, value) for name, value in facts if value]


def _by_step(document: Mapping[str, Any]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Return the commands of each step of the plan."""
    return [
        (step["id"], [item for item in document["commands"] if item["step"] == step["id"]])
        for step in document["steps"]
    ]


def _runs(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the installs with the word of their result: one that has none runs, or was killed."""
    last = document["runs"][-1:] if document["status"] == "running" else ()
    return [
        {**run, "word": _WORDS.get(run["status"]) or ("running" if run in last else "interrupted")}
        for run in document["runs"]
    ]


def _machine(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what the machine of the build is."""
    host = document["host"]
    if host is None:
        return []
    system, cpu, memory = host["os"], host["cpu"], host["memory"]
    gpus = [str(gpu.get("name", "GPU")) for gpu in host["gpus"]]
    programs = [f"{item['name']} {item['version']}" for item in (*host["compilers"], *host["tools"])]
    python = (host["python"]["selected"] or {}).get("version", "")
    oneapi = [f"{item['name']} {item['version']}" for item in document["oneapi"]]
    facts = [
        ("system", f"{system['name']}, kernel {system['kernel']}, {system['libc']}"),
        ("processor", f"{cpu['model']}, {show.plural(cpu['usable'], 'core')} to use"),
        ("memory", show.memory(memory["total_bytes"] or 0)),
        ("GPUs", ", ".join(gpus) or "none"),
        ("Python", python),
        ("programs", ", ".join(programs)),
        ("oneAPI", ", ".join(oneapi) or "not used"),
        ("disk", f"{host['disk']['filesystem']}, {show.size(host['disk']['free_bytes'] or 0)} free"),
    ]
    return [(name, value) for name, value in facts if value]
