"""Documents about wheels, mirrors, locks and stores, for ``show``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xpubuild.ui import wording
from xpubuild.ui.parts import DIGITS, Document, Part, Parts, Sentences, Table, facts, listed, table
from xpubuild.ui.terminal import Terminal, one_line


def wheel_table(wheels: Iterable[Document]) -> Table:
    """Return name, version, size, digest, ABI found and audit result of each wheel of a receipt."""
    return listed("Wheels", wheels, {
        "wheel": "name", "version": "version", ">size": "size|size", "sha256": "sha256|short",
        "C++ ABI": lambda wheel: "none" if wheel["abi"] is None else wheel["abi"],
        "audit": lambda wheel: audit_result(wheel["findings"]),
    })  # fmt: skip


def audit_result(findings: Sequence[Document]) -> str:
    """Return ``ok``, or how many errors and warnings there are."""
    warnings = sum(item["severity"] == "warning" for item in findings)
    counts = ((len(findings) - warnings, "error"), (warnings, "warning"))
    return ", ".join(wording.plural(count, noun) for count, noun in counts if count) or "ok"


def audit_view(reports: Sequence[Document]) -> Parts:
    """Return the audits of wheels: one row per shared object, then what was found."""
    objects = [item for report in reports for item in report["objects"]]
    return (
        listed("", reports, {
            "wheel": lambda wheel: f"{wheel['name']} {wheel['version']}", "result": "status",
            ">size": "size|size", "sha256": "sha256|short",
        }),
        listed("", objects, {
            "object": "path",
            "C++ ABI": lambda item: "not used" if item["abi"] is None else item["abi"],
            ">symbols new:old": lambda item: f"{item['abi_counts']['new']}:{item['abi_counts']['old']}",
            "needs": lambda item: " ".join(item["needed"]),
        }),
        listed("Device code", [item for item in objects if item.get("device_code")], {
            "object": "path", ">kernels": "device_code.kernels", ">as SPIR-V": "device_code.spirv",
            "native code": lambda item: ", ".join(
                f"{count} for {gpu}" for gpu, count in item["device_code"]["native"].items()
            ) or "none",
        }),
        _findings(reports),
    )  # fmt: skip


def _findings(reports: Iterable[Document]) -> Table:
    found = [finding for report in reports for finding in report["findings"]]
    return listed("Findings", found, {"severity": "severity", "object": "object", "what": "message"})


def repair_view(wheels: Sequence[Document]) -> Parts:
    """Return what was done to wheels: one row per wheel, then pins, bundled libraries and new RPATHs."""
    pins = [pin for wheel in wheels for pin in wheel["pins"]]
    rpaths = [
        (member, ":".join(paths) or "none") for wheel in wheels for member, paths in wheel["rpath"].items()
    ]
    return (
        listed("", wheels, {
            "wheel": lambda wheel: Path(wheel["wheel"]).name, "platform": "platform",
            "audit before": "before.status", "after": "after.status",
        }),
        listed("Required", pins, {
            "requires": lambda pin: f"{pin['name']}=={pin['version']}",
            "for": lambda pin: " ".join(pin["libraries"]),
        }),
        listed("Bundled", [item for wheel in wheels for item in wheel["bundled"]],
               {"library": "library", "now": "member"}),
        table("Changed", ("object", "RPATH"), rpaths),
        _findings(wheel["after"] for wheel in wheels),
    )  # fmt: skip


def fetch_view(document: Document) -> Parts:
    """Return an ``xpubuild.fetch/1`` document: what is new, and how much there is."""
    summary, recipe = document["summary"], document["recipe"]
    return (
        facts({
            "mirror": document["mirror"],
            "recipe": f"{recipe}, Python {', '.join(document['pythons'])}" if recipe else "",
            "new": _amount(summary, "new_"),
            "repaired": [item["path"] for item in document["damaged"]],
            "total": _amount(summary, ""),
        }),
        listed("New", [item for item in document["files"] if item["new"]],
               {"file": "name", ">size": "size|size", "sha256": "sha256|short"}),
    )  # fmt: skip


def _amount(summary: Document, prefix: str) -> str:
    repositories, files = summary[f"{prefix}repositories"], summary[f"{prefix}files"]
    if not repositories and not files:
        return "nothing"
    size = wording.size(summary[f"{prefix}bytes"])
    kept = "1 repository" if repositories == 1 else f"{repositories} repositories"
    return f"{kept}, {wording.plural(files, 'file')}, {size}"


def fetch_progress(*, quiet: bool) -> Callable[[str], None]:
    """Return what shows the lines of a fetch, without git's percentages: they are for a live picture."""

    def report(line: str) -> None:
        if not quiet and "%" not in line and not line.startswith(("remote: ", "From ", " * ")):
            Terminal.detect(sys.stderr, os.environ).try_write(f"{one_line(line)}\n")

    return report


def lock_written_view(document: Document) -> Parts:
    """Return the parts of an ``xpubuild.written-lock/1`` document."""
    return (
        facts({
            "lock": f"{document['file']} ({'written' if document['changed'] else 'unchanged'})",
            "recipe": document["recipe"],
            "digest": document["lock"][:DIGITS],
            "repositories": document["repositories"],
            "archives": document["archives"] or "",
            "requirements": document["pins"],
        }),
    )  # fmt: skip


def lock_verified_view(document: Document) -> Parts:
    """Return the parts of an ``xpubuild.verify-lock/1`` document."""
    return (
        facts({
            "recipe": document["recipe"],
            "digest": document["lock"][:DIGITS],
            "policy": document["policy"],
            "result": document["status"],
        }),
        *differences_view(document["differences"]),
    )  # fmt: skip


def differences_view(found: Sequence[Document], title: str = "Differences") -> Parts:
    """Return a table of differences between a lock and what is here."""
    rows = ((item["path"], _shown(item["old"]), _shown(item["new"])) for item in found)
    return (table(title, ("what", "in the lock", "here"), rows),)


def _shown(value: Any) -> Any:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(item)}" for name, item in value.items() if item is not None)
    return value


def store_view(document: Document) -> Parts:
    """Return the parts of an ``xpubuild.store/1`` document."""
    parts: list[Part] = []
    for store in document["stores"]:
        parts.append(facts({
            "store": store["store"],
            "believed": f"no: {store['why']}" if store["why"] else "yes",
            "wheels": len(store["wheels"]),
            "size": wording.size(store["size_bytes"]),
        }))  # fmt: skip
        parts.append(listed("", store["wheels"], {
            "identity": "identity|short", "distribution": "distribution",
            "version": lambda row: row["version"] or row["problem"], ">size": "size_bytes|size",
            "built": "created", "recipe": "recipe",
        }))  # fmt: skip
    return tuple(parts)


def store_size_view(document: Document) -> Parts:
    """Return the parts of an ``xpubuild.store-size/1`` document."""
    counts = {f">{name}": name for name in ("wheels", "repositories", "files", "sets")}
    columns = {"store": "store", **counts, ">size": "size_bytes|size", "not used because": "why"}
    return (listed("", document["stores"], columns),)


def store_check_view(document: Document) -> Parts:
    """Return the parts of an ``xpubuild.store-check/1`` document."""
    rows = [
        (store["store"], row["path"], row["why"]) for store in document["stores"] for row in store["damaged"]
    ]
    return (table("", ("store", "damaged", "why"), rows), Sentences(() if rows else ("Nothing is damaged.",)))


def store_copy_view(document: Document) -> Parts:
    """Return the parts of an ``xpubuild.store-copy/1`` document."""
    return (
        listed("", document["wheels"], {
            "wheel": lambda row: row["file"] or row["name"], "store": "store",
            "kept": lambda row: "yes" if row["kept"] else "no", "why not": "why",
        }),
        Sentences(() if document["wheels"] else ("There is nothing to copy.",)),
    )  # fmt: skip
