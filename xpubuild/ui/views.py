"""Documents as text: status, clean, recipe checks, audits. Each function returns parts for ``show``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xpubuild.ui import format as show
from xpubuild.ui.cache_rows import cache_table
from xpubuild.ui.parts import Column, Commands, Facts, Part, Sentences, TableBuilder

_DIGEST_CHARACTERS = 12


def status_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of an ``xpubuild.status/1`` document."""
    steps = TableBuilder(["step", "status", Column("time", right=True), "when", "detail"])
    held = document["locked_by"]
    for step in document["steps"]:
        duration = step["duration_s"]
        steps.add(
            step["id"],
            _status(step["status"], held),
            show.duration(duration) if duration is not None else "",
            _when(step["started"]),
            step["detail"] or (f"from the store {step['store']}" if step.get("store") else ""),
        )
    runs = TableBuilder(["run", "recipe", "status", "when"])
    for run in document["runs"][-5:]:
        last = held and run is document["runs"][-1]
        runs.add(run["id"], run["recipe"], _status(run["status"] or "running", last), _when(run["started"]))
    facts = Facts(
        (
            ("workspace", document["workspace"]),
            ("in use", f"by process {held.get('pid')} ({held.get('command')})" if held else "no"),
        )
    )
    caches = cache_table(document["compile_cache"])
    return (facts, steps.build("Steps"), *([caches] if caches.rows else []), runs.build("Last runs"))


def _status(word: str, held: object) -> str:
    """Return the word of the journal for a person; ``held`` says whether it can be running now."""
    return "interrupted" if word == "cancelled" or (word == "running" and not held) else word


def clean_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of an ``xpubuild.clean/1`` document."""
    table = TableBuilder(["path", "action", "why"])
    word = "remove" if document["dry_run"] else "removed"
    for path in document["removed"]:
        table.add(path, word, "")
    for item in document["kept"]:
        table.add(item["path"], "keep" if document["dry_run"] else "kept", item["why"])
    freed = () if document["dry_run"] else (("freed", show.size(document["freed_bytes"])),)
    return (Facts((("workspace", document["workspace"]), *freed)), table.build())


def check_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return what was found in recipes."""
    table = TableBuilder(["recipe", "result"])
    for result in document["recipes"]:
        for problem in result["problems"] or ["ok"]:
            table.add(result["recipe"], problem)
        for warning in result.get("warnings", ()):
            table.add(result["recipe"], f"warning: {warning}")
        for what in result.get("not_checked", ()):
            table.add(result["recipe"], f"not checked: {what}")
    return (table.build(),)


def bump_view(document: Mapping[str, Any], written: str = "") -> tuple[Part, ...]:
    """Return the pins that differ from those upstream, what stays open, and how to go on."""
    table = TableBuilder(["key", "recipe", "upstream"])
    for item in document["proposals"]:
        if item["changed"]:
            table.add(item["key"], item["recipe"], item["upstream"])
    same = sum(not item["changed"] for item in document["proposals"])
    release, base = document["release"], document["base"]
    told = f"{len(table.rows)} pins of {release} differ from recipe {base}, {same} are the same"
    commands = (
        (f"xpubuild recipes check {written}",)
        if written
        else (f"xpubuild recipes bump {release} --output FILE",)
    )
    changes = (table.build(),) if table.rows else ()
    return (
        *changes,
        Sentences(tuple(document["open"]), "To be looked up"),
        Sentences((told,)),
        Commands(commands, "Next steps"),
    )


def audit_view(reports: Sequence[Mapping[str, Any]]) -> tuple[Part, ...]:
    """Return the audits of wheels: one row per shared object, then what was found."""
    objects = TableBuilder(["object", "C++ ABI", Column("symbols new:old", right=True), "needs"])
    counts_of_kernels = (Column("kernels", right=True), Column("as SPIR-V", right=True))
    device = TableBuilder(["object", *counts_of_kernels, "native code"])
    findings = TableBuilder(["severity", "object", "what"])
    wheels = TableBuilder(["wheel", "result", Column("size", right=True), "sha256"])
    for report in reports:
        digest = report["sha256"][:_DIGEST_CHARACTERS]
        wheels.add(
            f"{report['name']} {report['version']}", report["status"], show.size(report["size"]), digest
        )
        for item in report["objects"]:
            counts = item["abi_counts"]
            abi = "not used" if item["abi"] is None else item["abi"]
            objects.add(item["path"], abi, f"{counts['new']}:{counts['old']}", " ".join(item["needed"]))
            code = item.get("device_code")
            if code:
                native = [f"{count} for {gpu}" for gpu, count in code["native"].items()]
                device.add(item["path"], code["kernels"], code["spirv"], ", ".join(native) or "none")
        for finding in report["findings"]:
            findings.add(finding["severity"], finding["object"], finding["message"])
    parts: list[Part] = [wheels.build(), objects.build()]
    if device.rows:
        parts.append(device.build("Device code"))
    return (*parts, findings.build("Findings")) if findings.rows else tuple(parts)


def repair_view(wheels: Sequence[Mapping[str, Any]]) -> tuple[Part, ...]:
    """Return what was done to wheels: one row per wheel, then pins, bundled libraries and new RPATHs."""
    table = TableBuilder(["wheel", "kind", "runtime", "audit before", "after"])
    pins = TableBuilder(["requires", "for"])
    bundled = TableBuilder(["library", "now", "from"])
    rpaths = TableBuilder(["object", "RPATH"])
    findings = TableBuilder(["severity", "object", "what"])
    for wheel in wheels:
        name = Path(wheel["wheel"]).name
        table.add(name, wheel["kind"], wheel["runtime"], wheel["before"]["status"], wheel["after"]["status"])
        for pin in wheel["pins"]:
            pins.add(f"{pin['name']}=={pin['version']}", " ".join(pin["libraries"]))
        for item in wheel["bundled"]:
            bundled.add(item["library"], item["member"], item["from"])
        for member, entries in wheel["rpath"].items():
            rpaths.add(member, ":".join(entries) or "none")
        for finding in wheel["after"]["findings"]:
            findings.add(finding["severity"], finding["object"], finding["message"])
    parts = ((pins, "Required"), (bundled, "Bundled"), (rpaths, "Changed"), (findings, "Findings"))
    return (table.build(), *(part.build(title) for part, title in parts if part.rows))


def _when(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))
