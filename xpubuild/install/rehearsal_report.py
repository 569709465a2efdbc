"""The document of a rehearsal: what a build would make, as its configuration says."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet

from xpubuild import __version__
from xpubuild.artifacts.cmake_build import (
    SyclGroup,
    read_cache,
    read_messages,
    read_switches,
    read_sycl_groups,
)
from xpubuild.artifacts.configure import configured_folder
from xpubuild.documents import plain
from xpubuild.engine.journal import Journal
from xpubuild.engine.monitor import WATCHED
from xpubuild.errors import NoXpuError, XpuBuildError
from xpubuild.install.prepare import Prepared
from xpubuild.install.rehearsal import Rehearsal
from xpubuild.workspace.layout import Layout

# Of torch-xpu-ops: src/ATen/native/transformers/xpu/flash_attn/sycltla, the large units of the recipes.
_HEAVY = "/sycltla/"
_COMPILES = ": CXX_COMPILER__"


def make_report(
    prepared: Prepared, planned: Rehearsal, journal: Journal, error: XpuBuildError | None
) -> dict[str, Any]:
    """Return the ``xpubuild.rehearsal/1`` document; ``error`` is what ended the rehearsal early."""
    context = prepared.context
    record = journal.record(planned.step)
    build = configured_folder(planned.source, planned.folders) if record is not None else None
    log = Layout(Path(planned.plan.workspace)).logs / f"{planned.step}.log"
    lines = log.read_text("utf-8", "replace").split("\n") if record is not None and log.is_file() else []
    cache = read_cache(build) if build is not None else {}
    groups = read_sycl_groups(build) if build is not None else ()
    warnings = _warnings(record.evidence) if record is not None else []
    component = context.component(planned.component)
    return {
        "schema": "xpubuild.rehearsal/1",
        "xpubuild": __version__,
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "recipe": planned.plan.recipe,
        "release": context.recipe.release,
        "target": context.choice.target,
        "workspace": planned.plan.workspace,
        "component": planned.component,
        "verdict": _verdict(error, warnings),
        "error": error.to_json() if error is not None else None,
        "warnings": warnings,
        "log": str(log),
        "build": str(build) if build is not None else None,
        "duration_s": round(record.ended - record.started, 3)
        if record is not None and record.ended
        else None,
        "switches": plain(read_switches(planned.environment, cache, read_messages(lines))),
        "arch_requested": list(context.choice.arch),
        "sycl_files": sum(len(group.sources) for group in groups),
        "sycl_groups": [_group(group) for group in groups],
        "cxx_files": _host_files(build),
        "host_compiler": cache.get("CMAKE_CXX_COMPILER"),
        "jobs": context.facts.jobs,
        "memory_gib_per_job": component.build.memory_gib_per_job,
        "large_units": _large(prepared, planned, groups),
    }


def _verdict(error: XpuBuildError | None, warnings: Sequence[Any]) -> str:
    if error is None:
        return "warnings" if warnings else "ok"
    return "no-xpu" if isinstance(error, NoXpuError) else "failed"


def _warnings(evidence: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"id": told["id"], "text": told["text"], "lines": told["lines"]}
        for item in evidence
        if item["proof"] == WATCHED
        for told in item["warnings"]
    ]


def _group(group: SyclGroup) -> dict[str, Any]:
    document: dict[str, Any] = plain(group)
    sources = document.pop("sources")
    return {**document, "files": len(sources), "sources": sources}


def _host_files(build: Path | None) -> int:
    """Return how many sources the host compiler compiles."""
    if build is None:
        return 0
    with (build / "build.ninja").open(encoding="utf-8", errors="replace") as stream:
        return sum(_COMPILES in line for line in stream if line.startswith("build "))


def _large(prepared: Prepared, planned: Rehearsal, groups: Sequence[SyclGroup]) -> list[dict[str, Any]]:
    """Return the sources that need far more memory than others, with how many of them are compiled here."""
    context = prepared.context
    gcc = context.facts.compilers.version
    found = []
    for unit in context.component(planned.component).build.large_units:
        if context.choice.target not in unit.targets or (unit.gcc and gcc not in SpecifierSet(unit.gcc)):
            continue
        sources = [name for group in groups for name in group.sources if _HEAVY in name]
        found.append(
            {
                "what": unit.what,
                "gib_each": unit.gib_each,
                "gib_largest": unit.gib_largest,
                "files": len(sources),
            }
        )
    return found
