"""Wheels as a table, from receipts and audit reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xpubuild.ui import format as form
from xpubuild.ui.parts import Column, Table, TableBuilder

_DIGEST_CHARACTERS = 12


def wheel_table(wheels: Iterable[Mapping[str, Any]]) -> Table:
    """Return name, version, size, digest, ABI found and audit result of each wheel."""
    table = TableBuilder(["wheel", "version", Column("size", right=True), "sha256", "C++ ABI", "audit"])
    for wheel in wheels:
        size = wheel.get("size_bytes", wheel.get("size"))
        table.add(
            wheel.get("name") or wheel.get("file") or wheel.get("wheel") or "?",
            wheel.get("version"),
            form.size(size) if isinstance(size, (int, float)) else "",
            str(wheel.get("sha256") or "")[:_DIGEST_CHARACTERS],
            _abi(wheel.get("abi")),
            audit_result(wheel.get("findings")),
        )
    return table.build("Wheels")


def _abi(value: object) -> str:
    if isinstance(value, Mapping):
        value = value.get("verdict", value.get("abi"))
    return "none" if value is None else str(value)


def audit_result(findings: object) -> str:
    """Return ``ok``, or how many errors and warnings there are."""
    if not isinstance(findings, Sequence) or isinstance(findings, str):
        return "not audited"
    warnings = sum(isinstance(item, Mapping) and item.get("severity") == "warning" for item in findings)
    errors = len(findings) - warnings
    parts = [form.plural(errors, "error")] if errors else []
    parts += [form.plural(warnings, "warning")] if warnings else []
    return ", ".join(parts) or "ok"
