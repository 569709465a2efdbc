"""What verify knows of backends, devices and operators, and the picture of a table of operators."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable
from typing import Any

from support.data_files import dumped
from xpubuild.documents import plain
from xpubuild.verify import harness, target
from xpubuild.verify.suite import database, peaks, registry
from xpubuild.verify.suite.backends import BACKENDS
from xpubuild.verify.suite.database_picture import page
from xpubuild.verify.suite.database_table import BAD, STATES, Table

_FACTS = {"device": "GPU <Max>", "type": "xpu", "driver": "1 & 2", "torch": "2.13.0+xpu"}
_KINDS = ("float32", "int64", "bool")
_KNOWN: dict[str, Any] = {
    "device": "xpu", "releases": ["2.12", "2.14"], "expires": "2030-01-01", "operators": ["known*"],
    "reason": "a reason", "issue": "", "source": "a source",
}  # fmt: skip


def operators() -> dict[str, Any]:
    """Return the document of a run with every state, known failures and an accepted run before it."""
    cells = [(f"known.{state}", _KINDS[0]) for state in ("passed", "failed")]
    cells += [
        (f"{state} & more {'x' * 40}", kind) for state in STATES for kind in _KINDS if state != STATES[2]
    ]
    bad = [" ".join(cell) for cell in cells[2:] if cell[0].startswith("crashed")]
    accepted = {
        "device": _FACTS["device"], "driver": _FACTS["driver"], "torch": "2.12.0", "bad": bad,
        "passed": [" ".join(cell) for cell in cells[2:] if cell[0].startswith("failed")],
    }  # fmt: skip
    table = Table(cells, _FACTS, accepted, [_KNOWN], datetime.date(2026, 1, 1))
    for name, kind in cells:
        state = name.partition(" & ")[0].removeprefix("known.")
        detail = f"why <{state}>" if state != "not run" else ""
        runs = {"forward": 3, "out": 1} if kind == _KINDS[0] else {}
        record = {
            "operator": name,
            "type": kind,
            "state": state,
            "detail": detail,
            "seconds": 1.5,
            "runs": runs,
        }
        table.add(record)
    table.add({"operator": "no such", "type": _KINDS[0], "state": "passed"})
    table.why_not_run("the time was over")
    return table.document()


def _tables() -> str:
    backends = {name: dataclasses.asdict(backend) for name, backend in BACKENDS.items()}
    known = {
        "backends": backends, "peaks": peaks.PEAKS, "fractions": peaks.FRACTIONS,
        "far_below": peaks.FAR_BELOW, "causes": peaks.CAUSES, "suites": registry.SUITES,
        "groups": registry.GROUPS, "lanes": registry.LANES,
        "parts": registry.PARTS, "packages": registry.PACKAGES, "outcomes": registry.OUTCOMES,
        "aspects": database.ASPECTS, "types": database.TYPES, "compiled": database._COMPILED,
        "states": STATES, "bad": BAD, "calm": harness._CALM, "callers": target._CALLERS,
        "prefixes": target._CALLERS_PREFIXES,
    }  # fmt: skip
    return dumped(plain(known))


TEXTS: dict[str, Callable[[], str]] = {
    "verify-tables": _tables,
    "verify-operators": lambda: dumped(plain(operators())),
    "verify-operators-page": lambda: page(operators()).replace("<g>", "\n<g>").replace("<text", "\n<text"),
}
