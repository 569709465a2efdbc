"""The receipt: what was built, from which inputs, with which commands, and the results of all checks."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xpubuild import __version__
from xpubuild.documents import plain
from xpubuild.engine.files import write_atomic
from xpubuild.engine.journal import Journal
from xpubuild.engine.monitor import WATCHED
from xpubuild.install.target import Prepared
from xpubuild.supply.caching import rows
from xpubuild.supply.depot.evidence import taken_from
from xpubuild.workspace.layout import Layout


def make_receipt(prepared: Prepared, journal: Journal) -> dict[str, Any]:
    """Return the ``xpubuild.receipt/1`` document for the present state of a workspace."""
    target, plan, layout = prepared.target, prepared.plan, prepared.target.layout
    ids = {step.id for step in plan.steps}
    # A record of another recipe or pin in the same workspace proves nothing about this plan.
    records = {
        record.step: record
        for record in journal.records()
        if plan.fingerprints.get(record.step) == record.fingerprint
    }
    return {
        "schema": "xpubuild.receipt/1",
        "xpubuild": __version__,
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "status": "complete" if all(_done(records, name) for name in ids) else "partial",
        "recipe": plan.recipe,
        "lock_digest": plan.lock_digest,
        "summary": dict(plan.summary),
        "host": dict(target.host),
        "oneapi": [dict(component) for component in target.oneapi.components] if target.oneapi else [],
        "activation": {"oneapi": dict(target.oneapi.difference) if target.oneapi is not None else None},
        "resolved": plain(target.resolved),
        "pins": [
            pin
            for step in plan.steps
            if _done(records, step.id)
            for pin in _pins(step.id, records[step.id].evidence)
        ],
        "workspace": plan.workspace,
        "python": str(layout.python),
        "logs": str(layout.logs),
        "steps": [
            {
                "id": step.id,
                "title": step.title,
                "status": records[step.id].status if step.id in records else "to-do",
                "fingerprint": plan.fingerprints[step.id],
                "store": taken_from(records[step.id].evidence) if step.id in records else None,
                "evidence": records[step.id].evidence if step.id in records else [],
            }
            for step in plan.steps
        ],
        "commands": [_command(item) for item in journal.commands() if item["step"] in ids],
        "wheels": [
            wheel
            for step in plan.steps
            if _done(records, step.id)
            if f"{step.id.removesuffix('.wheel')}.portable" not in ids
            for wheel in _wheels(records[step.id].evidence, _folder(layout, step.id))
        ],
        "warnings": [
            {"step": step.id, **{key: told[key] for key in ("id", "text", "lines")}}
            for step in plan.steps
            if _done(records, step.id)
            for item in records[step.id].evidence
            if item["proof"] == WATCHED
            for told in item["warnings"]
        ],
        "compile_cache": rows([records[step.id] for step in plan.steps if step.id in records], layout.build),
        "prebuilt": _prebuilt(layout, [name for name in records if _done(records, name)]),
        "verify": _verify(layout, done=_done(records, "verify")),
    }


def _pins(step: str, evidence: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what a checked-out tree says about the repositories that its build clones while configuring."""
    component = step.removesuffix(".source")
    return [{"component": component, **pin} for item in evidence for pin in item.get("pins", ())]


def _done(records: Mapping[str, Any], name: str) -> bool:
    return name in records and records[name].status == "done"


def _command(item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "step": item["step"],
        "argv": item["argv"],
        "started": item["started"],
        "duration_s": round(item["duration_s"], 3),
        "user_s": round(item["user_s"], 3),
        "system_s": round(item["system_s"], 3),
        "max_rss_bytes": item["max_rss_bytes"],
        "peak_bytes": item["peak_tree_bytes"],
        "returncode": item["returncode"],
        "log": item["log"],
    }


def _folder(layout: Layout, step: str) -> Path:
    return layout.portable if step.endswith(".portable") else layout.wheels


def _wheels(evidence: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Return the audits in a step's evidence, with the place the wheel was published at."""
    found = []
    for item in evidence:
        audit = item.get("audit")
        if isinstance(audit, dict):
            path = folder / Path(str(audit["wheel"])).name
            found.append({"file": path.name, "path": str(path), **audit, "wheel": path.name})
    return found


def _prebuilt(layout: Layout, steps: Sequence[str]) -> list[dict[str, Any]]:
    """Return what pip installed ready-made, with the hashes pip reported."""
    found = []
    for step in steps:
        for report in layout.pip_reports(step):
            for item in json.loads(report.read_text("utf-8")).get("install", []):
                archive = item.get("download_info", {}).get("archive_info", {})
                found.append(
                    {
                        "step": step,
                        "name": item["metadata"]["name"],
                        "version": item["metadata"]["version"],
                        "sha256": archive.get("hashes", {}).get("sha256"),
                    }
                )
    return found


def _verify(layout: Layout, *, done: bool) -> dict[str, Any] | None:
    if not done or not layout.verify_report.is_file():
        return None
    try:
        document = json.loads(layout.verify_report.read_text("utf-8"))
    except ValueError:
        return None
    counts = Counter(check["status"] for check in document["checks"])
    return {
        "status": document["status"],
        "torch": document.get("torch", {}),
        "device": document.get("device", {}),
        "passed": counts["pass"],
        "failed": counts["fail"],
        "skipped": counts["skip"],
        "crashed": counts["crash"],
        "timed_out": counts["timeout"],
        "report": str(layout.verify_report),
        "checks": [
            {key: check[key] for key in ("id", "status", "duration_s")} for check in document["checks"]
        ],
    }


def write_receipt(layout: Layout, receipt: Mapping[str, Any]) -> None:
    """Write the receipt durably."""
    write_atomic(layout.receipt, (json.dumps(receipt, indent=1, sort_keys=True) + "\n").encode())
