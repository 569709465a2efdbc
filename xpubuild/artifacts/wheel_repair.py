"""One repair: audit, decide, change, write, audit again; the new wheel appears only if it passed."""

from __future__ import annotations

import json
import os
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any, Literal

from typing_extensions import TypedDict

from xpubuild import __version__
from xpubuild.artifacts.audit import audit_wheel
from xpubuild.artifacts.audit_report import AuditedWheel, AuditPolicy, raise_for, raise_for_findings
from xpubuild.artifacts.elf import ElfObject, read_shared_object
from xpubuild.artifacts.record import is_record_file
from xpubuild.artifacts.repair_decide import (
    Decider,
    Decision,
    Expected,
    Pin,
    Platforms,
    newest_versions,
)
from xpubuild.artifacts.repair_runtime import TORCH_LIBRARIES, Runtime
from xpubuild.artifacts.repair_write import builder_findings, patch, rewrite, with_pins, with_platform
from xpubuild.artifacts.wheel import read_wheel
from xpubuild.documents import plain
from xpubuild.engine.files import explained, publish_file
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import AuditError

#: The file in ``.dist-info`` that says what was done.
NOTE = "xpubuild-repair.json"
#: What a repair is for; whatever else an audit finds makes a wheel unfit for one.
_MENDED = frozenset({
    "missing-library", "missing-version", "unresolved-symbol", "rpath", "not-on-rpath", "tags",
})  # fmt: skip


class BundledLibrary(TypedDict):
    """A library that was copied into the wheel."""

    library: str
    """The name that it had."""
    member: str
    """Its path in the wheel."""
    sha256: str
    """Of the file before its RPATH was changed."""


class RepairedWheel(TypedDict):
    """What was done to one wheel. All but paths and audits is also in the wheel, as xpubuild-repair.json."""

    wheel: str
    """The repaired wheel."""
    source: str
    """The wheel that it was made from."""
    source_sha256: str
    platform: str
    """The platform tag, from the symbol versions and libraries that are needed."""
    symbol_versions: dict[str, str]
    """The newest version of each kind that is needed from the system, such as GLIBC: 2.34."""
    pins: list[Pin]
    bundled: list[BundledLibrary]
    expected: Expected
    rpath: dict[str, list[str]]
    """Each shared object that was changed, with its new RPATH."""
    xpubuild: str
    before: AuditedWheel
    after: AuditedWheel


class RepairDocument(TypedDict):
    """What was done to some wheels."""

    schema: Literal["xpubuild.wheel-repair/1"]
    """Name and version."""
    wheels: list[RepairedWheel]


def repair_wheel(
    wheel: Path, output: Path, *, runtime: Path | None = None, search: tuple[Path, ...] = ()
) -> dict[str, Any]:
    """Repair one wheel into the folder ``output``; return its part of the document.

    ``runtime`` is the site-packages folder of an environment with what the wheel needs: Intel's, torch.
    ``search`` are more folders with libraries.

    Raises:
        AuditError: the wheel is damaged or hostile, was repaired before, or fails the audit afterwards.
        UnsatisfiableError: a library that it needs is nowhere, or pins contradict its requirements.
        NoSpaceError, ToolchainError: a file cannot be written or changed.
    """
    found, policy = Runtime(runtime), AuditPolicy(allow_missing=TORCH_LIBRARIES)
    before = audit_wheel(wheel, policy, search=(*found.folders(), *search))
    raise_for(wheel.name, [item for item in before.errors if item.kind not in _MENDED], policy)
    with explained(output, "making the folder for repaired wheels"):
        output.mkdir(parents=True, exist_ok=True)
    # Beside the result: a wheel of PyTorch may not fit into the folder for temporary files.
    with scratch_folder("repair", output) as folder:
        return _repair(wheel, found, search, before, folder)


def _repair(
    wheel: Path, runtime: Runtime, search: tuple[Path, ...], before: AuditedWheel, folder: Path
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
        raise AuditError(
            f"{wheel.name} was repaired before",
            why=f"it has the file {NOTE}; a second repair would pin or bundle what the first one added",
            fix="repair the wheel that was built",
            evidence={"wheel": str(wheel)},
        )
    stem, _, platform = wheel.name.removesuffix(".whl").rpartition("-")
    decision, versions = Decision(), dict[str, str]()
    # Without shared objects there is nothing to repair: such a wheel is portable.
    if elves:
        platforms = Platforms(elf.machine for elf in elves.values())
        decider = Decider(contents.claimed.name, elves, runtime, search, platforms)
        decision = decider.decide()
        for item in decision.bundled:
            copy(item.member, item.source)
        for member, edit in decision.edits.items():
            patch(copies[member], edit, decider.elves[member], member)
        platform = platforms.tag(decider.elves, decision.expected.system)
        versions = newest_versions(decider.elves, decision.expected.system)
    # What goes into the wheel: what was done, and no path of this machine.
    note = {
        "platform": platform,
        "symbol_versions": versions,
        "pins": plain(decision.pins),
        "bundled": [
            {"library": item.library, "member": item.member, "sha256": file_sha256(item.source)}
            for item in decision.bundled
        ],
        "expected": plain(decision.expected),
        "source_sha256": before.sha256,
        "xpubuild": __version__,
    }
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"{info}/METADATA").decode("utf-8", "surrogateescape")
    new = {
        f"{info}/METADATA": with_pins(metadata, decision, wheel.name),
        f"{info}/WHEEL": with_platform(texts[f"{info}/WHEEL"], platform),
        f"{info}/{NOTE}": json.dumps(note, indent=1, sort_keys=True) + "\n",
    }
    changed: dict[str, Path | bytes] = {member: copies[member] for member in decision.edits}
    changed |= {item.member: copies[item.member] for item in decision.bundled}
    changed |= {name: text.encode("utf-8", "surrogateescape") for name, text in new.items()}
    target = folder / f"{stem}-{platform}.whl"
    rewrite(wheel, target, changed, info)
    # The new wheel is audited as if it were installed in the environment of the runtime.
    builder = _builder(runtime.site_packages, search)
    after = audit_wheel(
        target,
        AuditPolicy(allow_missing=TORCH_LIBRARIES, absolute_rpath="error", elsewhere="error"),
        installed_in=runtime.site_packages,
        more=list(builder_findings({**texts, **new}, copies, builder)),
    )
    raise_for_findings(after)
    place = publish_file(target, folder.parent)
    return {
        "wheel": str(place), "source": str(wheel), **note,
        "rpath": {member: list(edit.rpath) for member, edit in sorted(decision.edits.items())},
        "before": plain(before), "after": {**plain(after), "wheel": str(place)},
    }  # fmt: skip


def _builder(runtime: Path | None, search: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the folders that must not be named: the user's own, the environments, those that were passed."""
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - Path.home() raises where there is none
    own = (Path(sys.prefix),) if sys.prefix != sys.base_prefix else ()
    return (home, *own, *((runtime,) if runtime is not None else ()), *search)
