"""The result of an install: what was built and checked, where it is, what it took, which commands to run
next.

The receipt is read with care: it may come from another version, or from a run that got only half way.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from xpubuild.ui import format as form
from xpubuild.ui.cache_rows import cache_table
from xpubuild.ui.invocation import how_called
from xpubuild.ui.parts import Column, Commands, Facts, Part, Table, TableBuilder
from xpubuild.ui.wheel_rows import wheel_table

_DIGEST_CHARACTERS = 12
_GOOD = ("pass", "skip")
_COUNTS = ("passed", "failed", "crashed", "timed_out", "skipped")


def final_view(
    receipt: Mapping[str, Any],
    workspace: Path | None = None,
    *,
    program: str | None = None,
    next_commands: Sequence[str] = (),
) -> tuple[Part, ...]:
    """Return the parts to show, for ``console.show``.

    ``workspace`` stands in where the receipt does not name its own; ``program`` is how the user calls
    xpubuild, quoted for a shell (found out by default); ``next_commands`` replace the suggestions made here.
    """
    folder = _path(receipt.get("workspace")) or workspace
    commands = tuple(next_commands) or _suggestions(folder, program or how_called(), receipt)
    wheels = wheel_table(_mappings(receipt.get("wheels")))
    caches = cache_table(_mappings(receipt.get("compile_cache")))
    tables = (_steps(receipt), caches, wheels, _prebuilt(receipt), _warnings(receipt))
    return (
        *(table for table in tables if table.rows),
        *_checks(receipt),
        _places(receipt, folder),
        Commands(commands, "Next steps"),
    )


def _steps(receipt: Mapping[str, Any]) -> Table:
    attempts = _last_attempts(receipt)
    steps = {str(step.get("id")): step.get("store") for step in _mappings(receipt.get("steps"))}
    order = [step for step, store in steps.items() if step in attempts or store]
    columns: list[Column | str] = ["step", Column("time", right=True), Column("peak memory", right=True)]
    table = TableBuilder([*columns, "from"] if any(steps.values()) else columns)
    for step in (*order, *(step for step in attempts if step not in steps)):
        if steps.get(step):
            table.add(step, "", "", f"the store {steps[step]}")
            continue
        commands = attempts[step]
        duration_s = sum(_number(command.get("duration_s")) for command in commands)
        peak = max(_number(command.get("peak_bytes")) for command in commands)
        table.add(step, form.duration(duration_s), form.memory(peak))
    return table.build("Steps")


def _last_attempts(receipt: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the commands of each step's last attempt: a command that comes again begins a new one."""
    attempts: dict[str, list[Mapping[str, Any]]] = {}
    for command in _mappings(receipt.get("commands")):
        attempt = attempts.setdefault(str(command.get("step") or "?"), [])
        argv = command.get("argv")
        if argv is not None and any(earlier.get("argv") == argv for earlier in attempt):
            attempt.clear()
        attempt.append(command)
    return attempts


def _prebuilt(receipt: Mapping[str, Any]) -> Table:
    """Return the components taken ready-made; what came along with them is in the receipt only."""
    table = TableBuilder(["prebuilt", "version", "sha256"])
    for item in _mappings(receipt.get("prebuilt")):
        if str(item.get("step")).split(".", maxsplit=1)[0] == item.get("name"):
            digest = str(item.get("sha256") or "")[:_DIGEST_CHARACTERS]
            table.add(item.get("name"), item.get("version"), digest)
    return table.build()


def _warnings(receipt: Mapping[str, Any]) -> Table:
    table = TableBuilder(["step", "warning"])
    for item in _mappings(receipt.get("warnings")):
        table.add(item.get("step"), item.get("text"))
    return table.build("Missing or different from the plan")


def _checks(receipt: Mapping[str, Any]) -> Iterator[Part]:
    verify = receipt.get("verify")
    if not isinstance(verify, Mapping):
        yield Facts((("verify", "not run"),))
        return
    counts = [
        f"{_count(verify[name])} {name.replace('_', ' ')}"
        for name in _COUNTS
        if verify.get(name) is not None and (_count(verify[name]) or name in ("passed", "failed"))
    ]
    told = ": ".join(filter(None, (str(verify.get("status") or "?"), ", ".join(counts))))
    yield Facts((("verify", told),))
    table = TableBuilder(["check", "status", "detail"])
    for check in _mappings(verify.get("checks")):
        if check.get("status") not in _GOOD:
            table.add(check.get("id") or "?", check.get("status"), check.get("detail"))
    if table.rows:
        yield table.build("Failed checks")


def _places(receipt: Mapping[str, Any], folder: Path | None) -> Facts:
    items: dict[str, object] = {
        "recipe": receipt.get("recipe"),
        "status": "partial: some steps were not run" if receipt.get("status") == "partial" else "",
        "lock": str(receipt.get("lock_digest") or "")[:_DIGEST_CHARACTERS],
        "python": _path(receipt.get("python")),
        "logs": _path(receipt.get("logs")),
    }
    if folder is not None:
        items["python"] = items["python"] or folder / "env" / "bin" / "python"
        items["wheels"] = folder / "wheels"
        items["logs"] = items.pop("logs") or folder / "logs"
        items["receipt"] = folder / "receipt.json"
    items["modulefile"] = receipt.get("modulefile")
    return Facts(tuple((name, str(value)) for name, value in items.items() if value), "Files")


def _suggestions(folder: Path | None, program: str, receipt: Mapping[str, Any]) -> tuple[str, ...]:
    if folder is None:
        return ()
    place = shlex.quote(str(folder))
    verify = receipt.get("verify")
    failed = isinstance(verify, Mapping) and verify.get("status") not in ("ok", "pass", None)
    first = (
        f"{program} status --workspace {place}" if failed else f'eval "$({program} env --workspace {place})"'
    )
    handed_out = receipt.get("wheel_dir")
    install = (str(handed_out["command"]),) if isinstance(handed_out, Mapping) else ()
    return (first, f"{program} verify --workspace {place}", *install)


def _mappings(value: object) -> list[Mapping[str, Any]]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return []
    return [item for item in value if isinstance(item, Mapping)]


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0


def _count(value: object) -> int:
    """Return a count that may be given as a number or as the list of what is counted."""
    return len(value) if isinstance(value, (list, tuple)) else int(_number(value))


def _path(value: object) -> Path | None:
    return Path(value) if isinstance(value, str) and value else None
