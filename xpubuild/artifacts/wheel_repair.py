"""One repair: audit, decide, change, write, audit again; the new wheel appears only if it passed."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xpubuild import __version__
from xpubuild.artifacts.audit import audit_wheel
from xpubuild.artifacts.audit_report import AuditPolicy, AuditReport, Finding, raise_for, raise_for_findings
from xpubuild.artifacts.elf import ElfObject, read_shared_object
from xpubuild.artifacts.record import hash_file, is_record_file
from xpubuild.artifacts.repair_decide import TORCH_LIBRARIES, Decider, Platforms, wanted_versions
from xpubuild.artifacts.repair_model import Decision, RepairRequest
from xpubuild.artifacts.repair_runtime import Runtime
from xpubuild.artifacts.repair_write import (
    as_bytes,
    builder_findings,
    patch,
    read_text,
    rewrite,
    with_pins,
    with_platform,
)
from xpubuild.artifacts.wheel import read_wheel
from xpubuild.documents import plain
from xpubuild.engine.files import explained, publish_file
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import AuditError

#: The file in ``.dist-info`` that says what was done.
NOTE = "xpubuild-repair.json"
#: What a repair is for; whatever else an audit finds makes a wheel unfit for one.
_MENDED = frozenset({"missing-library", "missing-version", "unresolved-symbol", "rpath", "not-on-rpath"})


def repair_wheel(wheel: Path, request: RepairRequest, output: Path) -> dict[str, Any]:
    """Repair one wheel into the folder ``output``; return its part of the document.

    Raises:
        AuditError: the wheel is damaged or hostile, was repaired before, or fails the audit afterwards.
        UnsatisfiableError: a library that it needs is nowhere, or pins contradict its requirements.
        NoSpaceError, ToolchainError: a file cannot be written or changed.
    """
    runtime = Runtime(request.runtime)
    before = audit_wheel(wheel, _policy(), search=(*runtime.folders(), *request.search))
    raise_for(wheel.name, [item for item in before.errors if item.kind not in _MENDED], before.policy)
    with explained(output, "making the folder for repaired wheels"):
        output.mkdir(parents=True, exist_ok=True)
    # Beside the result: a wheel of PyTorch may not fit into the folder for temporary files.
    with scratch_folder("repair", output) as folder:
        return _repair(wheel, request, runtime, before, folder)


def _policy(request: RepairRequest | None = None) -> AuditPolicy:
    """Return what holds before a repair, or after it."""
    site = ("*",) if request is not None and request.kind == "site" else ()
    return AuditPolicy(
        allow_missing=(*TORCH_LIBRARIES, *site), absolute_rpath="warning" if request is None else "error"
    )


def _repair(
    wheel: Path, request: RepairRequest, runtime: Runtime, before: AuditReport, folder: Path
) -> dict[str, Any]:
    elves: dict[str, ElfObject] = {}
    copies: dict[str, Path] = {}

    def copy(member: str, source: Path) -> None:
        copies[member] = folder / str(len(copies))
        with explained(copies[member], f"copying {source.name}"):
            shutil.copyfile(source, copies[member])

    def keep(member: str, source: Path) -> None:
        elves[member] = read_shared_object(source, name=member)
        copy(member, source)

    contents = read_wheel(wheel, keep)
    texts = {name: text for name, text in contents.texts.items() if not is_record_file(name)}
    info = next(iter(contents.texts)).split("/")[0]
    if f"{info}/{NOTE}" in texts:
        raise _repaired_before(wheel)
    stem, _, platform = wheel.name.removesuffix(".whl").rpartition("-")
    decision, versions = Decision(), dict[str, str]()
    # Without shared objects there is nothing to repair: such a wheel is portable.
    if elves:
        platforms = Platforms(elf.machine for elf in elves.values())
        decider = Decider(contents.claimed.name, elves, request, runtime, platforms)
        decision = decider.decide()
        for item in decision.bundled:
            copy(item.member, item.source)
        for member, edit in decision.edits.items():
            patch(copies[member], edit, decider.elves[member], member)
        platform = platforms.tag(decider.elves, decision.expected.system, whole=not decision.expected.site)
        versions = wanted_versions(decider.elves, decision.expected.system)
    note = _note(request, decision, before, platform, versions)
    new = {
        f"{info}/METADATA": with_pins(read_text(wheel, f"{info}/METADATA"), decision.pins, wheel.name),
        f"{info}/WHEEL": with_platform(read_text(wheel, f"{info}/WHEEL"), platform),
        f"{info}/{NOTE}": json.dumps(note, indent=1, sort_keys=True) + "\n",
    }
    changed: dict[str, Path | bytes] = {member: copies[member] for member in decision.edits}
    changed |= {item.member: copies[item.member] for item in decision.bundled}
    target = folder / f"{stem}-{platform}.whl"
    rewrite(wheel, target, changed | {name: as_bytes(text) for name, text in new.items()}, info)
    found = list(builder_findings({**texts, **new}, copies, _builder(request)))
    after = _audited(target, request, runtime, found)
    place = publish_file(target, folder.parent)
    return {
        "wheel": str(place), "source": str(wheel), **note,
        "rpath": {member: list(edit.rpath) for member, edit in sorted(decision.edits.items())},
        "before": before.to_json(), "after": {**after.to_json(), "wheel": str(place)},
    }  # fmt: skip


def _builder(request: RepairRequest) -> tuple[Path, ...]:
    """Return the folders that must not be named: the user's own, the environments, those that were passed."""
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - Path.home() raises where there is none
    runtime = (request.runtime,) if request.runtime is not None else ()
    ours = (Path(sys.prefix),) if sys.prefix != sys.base_prefix else ()
    return (home, *ours, *runtime, *request.search, *request.builder)


def _audited(target: Path, request: RepairRequest, runtime: Runtime, found: list[Finding]) -> AuditReport:
    """Hold the new wheel against what it must be, as if it lay in the environment of the runtime."""
    portable = request.kind == "portable"
    search = () if portable else (*runtime.folders(), *request.search)
    report = audit_wheel(target, _policy(request), search=search, installed_in=runtime.site_packages)
    report = report.with_findings(found)
    raise_for_findings(report)
    return report


def _note(
    request: RepairRequest,
    decision: Decision,
    before: AuditReport,
    platform: str,
    versions: Mapping[str, str],
) -> dict[str, Any]:
    """Return what goes into the wheel: what was done, and no path of this machine."""
    bundled = [
        {
            "library": item.library, "member": item.member, "from": item.dist or "the build machine",
            "sha256": hash_file(item.source).hex(),
        }
        for item in decision.bundled
    ]  # fmt: skip
    way = ("bundled" if request.bundle else "pinned") if request.kind == "portable" else "site"
    return {
        "kind": request.kind, "runtime": way, "platform": platform, "symbol_versions": dict(versions),
        "pins": plain(decision.pins), "bundled": bundled, "expected": plain(decision.expected),
        "source_sha256": before.sha256, "xpubuild": __version__,
    }  # fmt: skip


def _repaired_before(wheel: Path) -> AuditError:
    return AuditError(
        f"{wheel.name} was repaired before",
        why=f"it has the file {NOTE}; a second repair would pin or bundle what the first one added",
        fix="repair the wheel that was built",
        evidence={"wheel": str(wheel)},
    )
