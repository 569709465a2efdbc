"""The verdicts of ``recipes matrix --here``: tables of rows and what is said of them."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from xpubuild.ui import (
    answer_view,
    console,
)


def _row(release: str, builds: str, runs: str, **more: Any) -> dict[str, Any]:
    reasons = more.pop("reasons", ())
    verdict = {
        "builds": builds, "runs": runs, "oneapi": more.pop("oneapi", "2025.1"),
        "toolkit": more.pop("toolkit", None),
        "loses": [
            {"feature": name, "certain": sure, "because": why} for name, sure, why in more.pop("loses", ())
        ],
        "reasons": [
            {"concern": concern, "answer": answer, "constraint": constraint, "wanted": wanted, "found": found}
            for concern, answer, constraint, wanted, found in reasons
        ],
    }  # fmt: skip
    return {"release": release, "recipe": f"r{release}", "verdict": verdict, **more}


_NO = ("builds", "no", "oneapi", ">=2025", "oneAPI 2024 is here")
_GCC = ("builds", "no", "gcc", "", "no GCC is here")
_OPEN = ("builds", "unknown", "gcc", "", "the GCC is not known")
_NOTE = ("note", "yes", "x", "", "a note")
_PATCHES = {"text": "with patches", "patches": ["p1", "p2"]}
_VERDICTS: dict[str, tuple[dict[str, Any], ...]] = {
    "none": (),
    "builds and runs": (_row("3", "yes", "yes"), _row("2", "no", "no", reasons=(_NO,))),
    "builds, not known to run": (_row("3", "yes", "unknown"),),
    "builds, runs an older one": (_row("3", "yes", "no"), _row("2", "yes", "yes")),
    "builds, runs none": (_row("3", "yes", "no"),),
    "newer without a commit": (
        _row("5", "yes", "yes", pinned=False), _row("4", "yes", "yes", pinned=False), _row("3", "yes", "yes"),
    ),
    "one newer": (_row("4", "yes", "yes", pinned=False), _row("3", "yes", "yes", pinned=True)),
    "only without a commit": (_row("4", "yes", "yes", pinned=False),),
    "loses": (_row("3", "yes", "yes", loses=(("flash", True, "the GCC"), ("more", False, ""))),),
    "the driver runs a newer one": (
        _row("4", "no", "yes", reasons=(_NO,), toolkit=_PATCHES), _row("3", "yes", "yes"),
    ),
    "and without patches": (
        _row("4", "no", "yes", reasons=(_NO,), oneapi=""), _row("3", "yes", "yes", toolkit=_PATCHES),
    ),
    "perhaps": (
        _row("3", "unknown", "yes", reasons=(_OPEN, _NOTE)), _row("2", "unknown", "yes", reasons=(_OPEN,)),
    ),
    "perhaps one": (_row("3", "unknown", "yes"),),
    "no": (_row("3", "no", "no", reasons=(_GCC, _NO, _NOTE)), _row("2", "no", "no", reasons=(_GCC,))),
    "no oneAPI": (_row("3", "no", "no", reasons=(_NO,)), _row("2", "no", "no", reasons=(_NO,))),
    "no, for different reasons": (
        _row("3", "no", "no", reasons=(_NO,)), _row("2", "no", "no", reasons=(_GCC,)),
    ),
}  # fmt: skip
_SITUATION = {
    "target": "xpu", "gpu": "max", "oneapi": [], "python": ["3.12", "3.13"], "arch": [], "gcc": None,
    "versions": {"triton": "3.5"}, "cmake": "", "cxx11_abi": 0, "odd": "x",
}  # fmt: skip


def _answers() -> str:
    texts: list[str] = []
    for name, rows in _VERDICTS.items():
        stream = io.StringIO()
        first, host, table, last = answer_view.answer_view(_SITUATION, rows)
        console.show((first, table) if texts else (first, host, table, last), stream, {})
        texts.append(f"==== {name}\n{stream.getvalue()}")
        of_cpu = answer_view.answer_view({**_SITUATION, "target": "cpu"}, rows)[0]
        texts += ["without the second line for the CPU\n"] if of_cpu != first else []
    return "".join(texts)


#: The name of the file -> the text in it.
TEXTS: dict[str, Callable[[], str]] = {
    "parts-answers": _answers,
}
