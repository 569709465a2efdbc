"""What plan, install, rehearse and verify show."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO

from xpubuild.engine.forecast import Estimate, total
from xpubuild.engine.model import Plan
from xpubuild.errors import XpuBuildError
from xpubuild.ui import wording
from xpubuild.ui.parts import DIGITS, Commands, Document, Parts, Sentences, Table, facts, listed, table
from xpubuild.ui.supply_views import wheel_table
from xpubuild.ui.terminal import Terminal, one_line
from xpubuild.ui.views import cache_table

_PLAN_LABELS = {"abi": "C++ ABI", "cxx11_abi": "C++ ABI", "python": "Python", "lock_digest": "lock digest"}


def plan_view(
    plan: Plan, states: Mapping[str, str], obstacles: Sequence[XpuBuildError] = (),
    estimates: Mapping[str, Estimate] = MappingProxyType({}),
) -> Parts:  # fmt: skip
    """Return the summary of a plan, the table of its steps, what they take, and what would stop an install.

    ``states`` maps step ids to ``done`` or ``to do``, with a reason behind a colon; what it lacks is to do.
    """
    items: dict[str, object] = {"recipe": plan.recipe, **plan.summary}
    items.setdefault("workspace", plan.workspace)
    items.setdefault("lock_digest", plan.lock_digest[:DIGITS])
    summary = {_PLAN_LABELS.get(name, name.replace("_", " ")): _words(value) for name, value in items.items()}
    rows = [
        (
            step.id, step.title, states.get(step.id, "to do"), (*step.needs, *step.tools),
            len(step.commands), wording.memory(step.memory_bytes),
        )
        for step in plan.steps
    ]  # fmt: skip
    return (
        facts(summary),
        table("", ("step", "title", "state", "needs", ">commands", ">memory"), rows),
        _guesses(plan, estimates),
        *(part for error in obstacles for part in _obstacle(error)),
    )


def _guesses(plan: Plan, estimates: Mapping[str, Estimate]) -> Table:
    def amounts(seconds: float | None, *sizes: int | None) -> list[str]:
        texts = ("?" if item is None else wording.size(item) if item > 0 else "" for item in sizes)
        return ["?" if seconds is None else wording.roughly(seconds), *texts]

    rows: list[Sequence[object]] = [
        (step, *amounts(guess.seconds, guess.download_bytes, guess.disk_bytes), guess.source)
        for step, guess in estimates.items()
    ]
    if rows:
        whole = total(plan.steps, estimates)
        texts = amounts(whole.seconds, whole.download_bytes, whole.disk_bytes)
        names = ("seconds", "download_bytes", "disk_bytes")
        least = [
            f"over {text}" if text and name in whole.at_least else text
            for name, text in zip(names, texts, strict=True)
        ]
        missing = "without the steps that show ?" if whole.at_least else ""
        rows.append(("together", *least, missing))
    title = "What the steps to do will take, about"
    return table(title, ("step", ">time", ">download", ">disk", "from"), rows)


def _obstacle(error: XpuBuildError) -> Parts:
    lines = (error.what, *(f"{name}: {text}" for name, text in error.reasons().items()))
    title = f"Install would stop before the first step, with exit code {error.exit_code}"
    return (Sentences(lines, title), Commands(error.commands))


def _words(value: object) -> str:
    """Return a value of the summary in words; a mapping with a ``reason`` gives it in brackets."""
    if isinstance(value, Mapping):
        rest = {name: item for name, item in value.items() if name != "reason"}
        words = ", ".join(
            _words(item) if len(rest) == 1 else f"{name} {_words(item)}" for name, item in rest.items()
        )
        return f"{words} ({value['reason']})" if value.get("reason") else words
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_words(item) for item in value)
    return "" if value is None else str(value)


def final_view(receipt: Document, program: str | None = None) -> Parts:
    """Return what was built and checked, where it is, what it took, and which commands to run next.

    ``program`` is how the user calls xpubuild, quoted for a shell (found out by default).
    """
    folder, program = Path(receipt["workspace"]), program or how_called()
    prebuilt = [item for item in receipt["prebuilt"] if item["step"].split(".")[0] == item["name"]]
    verify = receipt["verify"]
    return (
        _costs(receipt),
        cache_table(receipt["compile_cache"]),
        wheel_table(receipt["wheels"]),
        # What came along with these is in the receipt only.
        listed("", prebuilt, {"prebuilt": "name", "version": "version", "sha256": "sha256|short"}),
        listed("Missing or different from the plan", receipt["warnings"],
               {"step": "step", "warning": "text"}),
        facts({"verify": _verified(verify) if verify else "not run"}),
        listed("Failed checks", _bad(verify or {"checks": ()}), {"check": "id", "status": "status"}),
        facts({
            "recipe": receipt["recipe"],
            "status": "partial: some steps were not run" if receipt["status"] == "partial" else "",
            "lock": receipt["lock_digest"][:DIGITS],
            "python": receipt["python"],
            "wheels": folder / "wheels",
            "logs": receipt["logs"],
            "receipt": folder / "receipt.json",
            "libtorch": (receipt.get("libtorch") or {}).get("archive"),
            "modulefile": receipt.get("modulefile"),
        }, "Files"),
        Commands(_suggestions(receipt, program), "Next steps"),
    )  # fmt: skip


def _costs(receipt: Document) -> Table:
    """Return what the last attempt of each step took; a command that comes again begins a new attempt."""
    attempts: dict[str, list[Document]] = {}
    for command in receipt["commands"]:
        attempt = attempts.setdefault(command["step"], [])
        if any(earlier["argv"] == command["argv"] for earlier in attempt):
            attempt.clear()
        attempt.append(command)
    rows: list[Sequence[object]] = []
    for step in receipt["steps"]:
        if step["store"]:
            rows.append((step["id"], "", "", f"the store {step['store']}"))
        elif commands := attempts.get(step["id"]):
            took = sum(command["duration_s"] for command in commands)
            peak = max(command["peak_bytes"] for command in commands)
            rows.append((step["id"], wording.duration(took), wording.memory(peak)))
    origin = ("from",) if any(step["store"] for step in receipt["steps"]) else ()
    return table("Steps", ("step", ">time", ">peak memory", *origin), rows)


def _verified(verify: Document) -> str:
    names = ("passed", "failed", *(name for name in ("crashed", "timed_out", "skipped") if verify[name]))
    counts = ", ".join(f"{verify[name]} {name.replace('_', ' ')}" for name in names)
    return f"{verify['status']}: {counts}"


def how_called(argv0: str | None = None) -> str:
    """Return the words, quoted for a shell, that start this xpubuild again, from any folder.

    Suggested commands then work when they are copied.
    """
    called = Path(sys.argv[0] if argv0 is None else argv0)
    if called.name == "__main__.py" or not called.is_file():
        return f"{shlex.quote(sys.executable)} -m xpubuild"
    found = shutil.which(called.name)
    on_path = found is not None and Path(found).absolute() == called.absolute()
    return shlex.quote(called.name if on_path else str(called.absolute()))


def _suggestions(receipt: Document, program: str) -> tuple[str, ...]:
    place, verify = shlex.quote(receipt["workspace"]), receipt["verify"]
    first = f'eval "$({program} env --workspace {place})"'
    if verify and verify["status"] != "pass":
        first = f"{program} status --workspace {place}"
    handed_out = [receipt["wheel_dir"]["command"]] if receipt.get("wheel_dir") else []
    return (first, f"{program} verify --workspace {place}", *handed_out)


_REHEARSED = {
    "ok": "the build is configured as requested",
    "warnings": "the build is configured for XPU, without something that was requested",
    "no-xpu": "the XPU gate stopped it: the build would have no XPU support, or another than requested",
    "failed": "the configuration failed",
}


def rehearsal_view(document: Document) -> Parts:
    """Return an ``xpubuild.rehearsal/1`` document: verdict, SYCL commands, switches, warnings."""
    groups = document["sycl_groups"]
    compilers = {
        " with ".join(Path(group[name]).name for name in ("compiler", "host_compiler") if group[name])
        for group in groups
    }
    # The document has the switches of upstream's defaults too.
    switches = [item for item in document["switches"] if item["requested"] is not None]
    cpu = document["target"] == "cpu" and document["verdict"] == "ok"
    count = f"{document['sycl_files']} in {wording.plural(len(groups), 'group')}"
    sycl = count if groups else "none"
    return (
        facts({
            "verdict": "the build is configured for the CPU" if cpu else _REHEARSED[document["verdict"]],
            "recipe": f"{document['recipe']}, target {document['target']}",
            "SYCL files": sycl if document["build"] is not None else "",
            "build folder": document["build"],
            "log": document["log"],
        }, "Rehearsal"),
        listed(f"SYCL commands ({', '.join(sorted(compilers))})", groups, {
            "SYCL files of": "name",
            ">files": lambda group: len(group["sources"]),
            "AOT targets": lambda group: ", ".join(group["aot"]) or "none (compiled when first used)",
            "C++": _standard,
            "ABI and preview": lambda group: [
                "default" if group["cxx11_abi"] is None else group["cxx11_abi"],
                *(item.removeprefix("-D").removeprefix("-f") for item in group["preview"]),
            ],
        }),
        listed("Switches", switches,
               {"switch": "name", "requested": "requested", "found": "found", "reason": "reason"}),
        Sentences(tuple(item["text"] for item in document["warnings"]), "Warnings"),
    )  # fmt: skip


def _standard(group: Document) -> str:
    host, device = group["host_standard"], group["device_standard"]
    other = f", device {device}" if device not in (None, host) else ""
    return f"{host or 'default'}{other}"


class CheckPrinter:
    """Writes ``[3/28] pass aten.sort 0.1 s`` to standard error as each check ends."""

    def __init__(self, *, total: int, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._total, self._done, self._quiet = total, 0, quiet
        self._stream = sys.stderr if stream is None else stream

    def emit(self, result: Any) -> None:
        """Take one result of verify."""
        self._done += 1
        if not self._quiet or result.status not in ("pass", "skip"):
            detail = f": {result.detail}" if result.detail and result.status != "pass" else ""
            time = wording.duration(result.duration_s)
            self._write(self._done, f"{result.status} {result.id} {time}{detail}")

    def progress(self, identifier: str, detail: str) -> None:
        """Show how far a long check is."""
        if not self._quiet:
            self._write(self._done + 1, f"{identifier}: {detail}")

    def _write(self, number: int, text: str) -> None:
        # Who started it may have logged out; the checks go on.
        terminal = Terminal.detect(self._stream, os.environ)
        terminal.try_write(f"[{number}/{self._total}] {one_line(text)}\n")


def verify_view(document: Document, *, quiet: bool = False) -> Parts:
    """Return the parts of an ``xpubuild.verify/1`` document; ``quiet`` leaves the result alone.

    Failures are on standard error by then: ``CheckPrinter`` wrote them as they came.
    """
    torch, device = document.get("torch", {}), document.get("device", {})
    counts = ", ".join(f"{count} {status}" for status, count in document["summary"].items() if count)
    result = facts({
        "result": f"{document['status']} ({counts})",
        "torch": torch.get("version", "cannot be imported"),
        "C++ ABI": torch.get("cxx11_abi", "unknown"),
        "device": device.get("name", device.get("type", "unknown")),
    })  # fmt: skip
    checks = document["checks"]
    warnings = ((check["id"], warning) for check in checks for warning in check.get("warnings", ()))
    tables = (
        listed("Checks", checks, {
            "check": "id", "result": "status", ">time": "duration_s|took", "detail": "detail",
        }),
        table("Warnings", ("check", "warning"), warnings),
    )  # fmt: skip
    return (result,) if quiet else (*tables, result)


def verify_summary_view(document: Document) -> Parts:
    """Return the result, what did not pass, and the parts of ``verify_view``, for a page."""
    *tables, result = verify_view(document)
    columns = {"check": "id", "result": "status", "detail": "detail"}
    return (result, listed("Not passed", _bad(document), columns), *tables)


def _bad(verify: Document) -> list[Document]:
    return [check for check in verify["checks"] if check["status"] not in ("pass", "skip")]


def verify_checks_view(document: Document) -> Parts:
    """Return the table of all checks of verify."""
    return (listed("", document["checks"], {"check": "id", "suites": "suites", "what it checks": "title"}),)


def test_view(document: Document) -> Parts:
    """Return what is bad in an ``xpubuild.test/1`` document, new failures first, and the result."""
    columns = {"test": "id", "result": "outcome", "detail": "detail"}
    tables = (
        listed(title, [case for case in document["cases"] if case["id"] in bad], columns)
        for bad, title in (
            (set(document["new"]), "New failures"),
            (set(document["known"]), "Failures of the accepted run, too"),
        )
    )
    accepted, earlier = document["accepted"], "no run was accepted yet"
    if accepted:
        earlier = f"the accepted run of {wording.when(accepted['when'])}, torch {accepted['torch']}"
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(document["summary"].items()))
    return (
        *tables,
        Sentences(tuple(document["fixed"]), "Failed in the accepted run, pass now"),
        facts({
            "result": f"{document['status']} ({counts})",
            "compared with": earlier,
            "torch": document["torch"],
            "device": document["device"],
            "devices": document["lanes"] if document["lanes"] > 1 else "",
            "time": wording.duration(document["duration_s"]),
            "output of pytest": document["logs"],
        }),
    )  # fmt: skip


def bisect_view(document: Document) -> Parts:
    """Return the commits of an ``xpubuild.bisect/1`` document that were built, and the first bad one."""
    first = document["first_bad"]
    evidence = [step for step in document["steps"] if step["commit"] == first]
    return (
        listed("Commits", document["steps"], {
            "commit": "commit|short", "result": "verdict", ">time": "seconds|took", "detail": "why",
        }),
        facts({
            "component": f"{document['component']} ({document['url']})",
            "first bad commit": first or f"one of {len(document['candidates'])}",
            "subject": document["subject"],
            "fails with": evidence[0]["why"] if evidence else "",
            "log": evidence[0]["log"] if evidence else "",
        }),
    )  # fmt: skip
