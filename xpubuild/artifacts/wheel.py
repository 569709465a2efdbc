"""Reads a wheel without trusting it: names, RECORD, hashes, metadata and tags.

Everything is read once, member by member, so that a wheel of several GB needs no more room than its largest
shared object.
"""

from __future__ import annotations

import contextlib
import csv
import email.parser
import hashlib
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from email.message import Message
from pathlib import Path

from packaging.tags import parse_tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from xpubuild.artifacts.audit_report import Finding, Findings
from xpubuild.artifacts.elf import MAGIC
from xpubuild.artifacts.record import HASHES, is_record_file, parse_record, record_hash
from xpubuild.engine.files import explained
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import AuditError
from xpubuild.frozen import frozen


def _wrong(kind: str, path: str, message: str) -> Finding:
    """Return what is wrong with a wheel as a package; ``path`` is the member concerned, or the wheel."""
    return Finding("error", kind, path, path, message)


@frozen
class WheelName:
    """What a wheel's file name claims: the normalised name, the version, and every tag it expands to."""

    name: str
    version: str
    tags: tuple[str, ...]


def parse_name(wheel: Path) -> WheelName:
    """Take a wheel's file name apart.

    Raises:
        AuditError: it is not the name of a wheel.
    """
    try:
        name, version, _, tags = parse_wheel_filename(wheel.name)
    except (InvalidWheelFilename, InvalidVersion) as error:
        what, evidence = f"{wheel.name} is not the name of a wheel", {"wheel": str(wheel)}
        fix = "pass a wheel with its original name: name-version-python-abi-platform.whl"
        raise AuditError(what, why=str(error), fix=fix, evidence=evidence) from error
    return WheelName(name, str(version), tuple(sorted(map(str, tags))))


def unsafe_name(info: zipfile.ZipInfo) -> str | None:
    """Say why a member of an archive must not be unpacked, None where it may be."""
    name = info.orig_filename
    parts = name.rstrip("/").split("/")
    if name.startswith("/") or re.match(r"[A-Za-z]:", name):
        return "an absolute path"
    if ".." in parts:
        return "a path outside the folder it is unpacked in"
    if "\\" in name or "\0" in name or "" in parts or "." in parts:
        return "an ambiguous path"
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "a member that is not a regular file (a link or a device)"
    return None


def _metadata(label: str, claimed: WheelName, texts: Mapping[str, str], objects: Sequence[str]) -> Findings:
    """Yield what does not agree.

    ``label`` is the wheel's file name, ``texts`` are the files in its ``.dist-info`` folders, ``objects`` the
    machine code in it.
    """
    infos = sorted({name.split("/")[0] for name in texts})
    if len(infos) != 1:
        yield _wrong("metadata", label, f"the wheel has {len(infos)} .dist-info folders instead of one")
        return
    info = infos[0]
    stem, _, version = info.removesuffix(".dist-info").rpartition("-")
    yield from _agree(info, stem, version, claimed)
    for name in (f"{info}/METADATA", f"{info}/WHEEL"):
        if name not in texts:
            yield _wrong("metadata", name, f"the wheel has no {name}")
    if f"{info}/METADATA" in texts:
        metadata = _headers(texts[f"{info}/METADATA"])
        yield from _agree(f"{info}/METADATA", metadata["Name"] or "", metadata["Version"] or "", claimed)
    if f"{info}/WHEEL" in texts:
        yield from _tag_problems(f"{info}/WHEEL", _headers(texts[f"{info}/WHEEL"]), claimed, objects)


def _headers(text: str) -> Message:
    return email.parser.Parser().parsestr(text, headersonly=True)


def _agree(where: str, name: str, version: str, claimed: WheelName) -> Findings:
    try:
        same = canonicalize_name(name) == claimed.name and Version(version) == Version(claimed.version)
    except InvalidVersion:
        same = False
    if not same:
        found = f"{name or 'nothing'} {version or ''}".strip()
        message = f"{where} says {found}, but the file name says {claimed.name} {claimed.version}"
        yield _wrong("metadata", where, message)


def _tag_problems(where: str, headers: Message, claimed: WheelName, objects: Sequence[str]) -> Findings:
    if (headers["Wheel-Version"] or "").split(".")[0] != "1":
        yield _wrong("metadata", where, f"{where} has no Wheel-Version 1.x")
    try:
        inside = {str(tag) for line in headers.get_all("Tag", []) for tag in parse_tag(line)}
    except ValueError as error:
        yield _wrong("tags", where, f"{where} has an invalid tag: {error}")
        return
    if inside != set(claimed.tags):
        found = ", ".join(sorted(inside)) or "no tags"
        yield _wrong("tags", where, f"{where} has {found}, but the file name has {', '.join(claimed.tags)}")
    anywhere = [tag for tag in claimed.tags if tag.endswith("-any")]
    pure = (headers["Root-Is-Purelib"] or "").strip().lower() == "true"
    if objects and (anywhere or pure):
        why = f"tagged {anywhere[0]}" if anywhere else "marked Root-Is-Purelib: true"
        yield _wrong("tags", objects[0], f"{objects[0]} is machine code, but the wheel is {why}")


_CHUNK = 1 << 20
#: How ar(5) begins a static library, and one that only names the objects.
_ARCHIVES = (b"!<arch>\n", b"!<thin>\n")
_HARMLESS_BYTES, _MOST_RATIO, _MOST_MEMBERS = 256 << 20, 100, 1_000_000
# What zipfile and its decompressors raise for damaged, encrypted or unknown content.
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError, ValueError, csv.Error)


@frozen
class Member:
    """One file of a wheel, with the hash of what is really in it."""

    name: str
    size: int
    sha256: str
    is_elf: bool
    is_archive: bool = False
    """Of objects, for a linker: a static library."""


@frozen
class WheelContents:
    """What a wheel holds, and what is wrong with it as a package."""

    path: Path
    claimed: WheelName
    members: tuple[Member, ...]
    problems: tuple[Finding, ...]
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The files of ``.dist-info``, of each the first MiB."""

    @property
    def digest(self) -> str:
        """SHA-256 over the sorted names and hashes without RECORD: two wheels with equal contents agree."""
        total = hashlib.sha256()
        for member in sorted(self.members, key=lambda member: member.name):
            if not is_record_file(member.name):
                total.update(f"{member.name}\0{member.sha256}\n".encode())
        return total.hexdigest()


def read_wheel(wheel: Path, on_object: Callable[[str, Path], None] = lambda *_: None) -> WheelContents:
    """Read a wheel; ``on_object`` is called with the name and a temporary copy of every ELF file in it.

    Raises:
        AuditError: the file cannot be opened as a wheel at all. Whatever else is wrong is in ``problems``.
        NoSpaceError: a shared object did not fit into the folder for temporary files.
    """
    claimed = parse_name(wheel)
    members: list[Member] = []
    problems: list[Finding] = []
    texts: dict[str, str] = {}
    with scratch_folder("audit") as folder, _open(wheel) as archive:
        if why := _bomb(archive):
            problems.append(_wrong("bomb", wheel.name, why))
        else:
            record, infos = dict[str, tuple[str, str]](), list[zipfile.ZipInfo]()
            try:
                record = _record(archive)
            except _DAMAGE as error:
                problems.append(_wrong("record", wheel.name, f"RECORD cannot be used: {error}"))
            problems += _name_problems(archive, infos)
            for info in infos:
                copy = folder / "object"
                try:
                    line = record.get(info.filename, ("", ""))
                    member, head, recorded = _read_member(archive, info, line, copy)
                except _DAMAGE as error:
                    why = f"{info.filename} cannot be unpacked: {error}"
                    problems.append(_wrong("damaged", info.filename, why))
                    continue
                if member.is_elf:
                    on_object(info.filename, copy)
                members.append(member)
                problems += _record_problems(member, recorded, record)
                parent, _, rest = info.filename.partition("/")
                if parent.endswith(".dist-info") and "/" not in rest:
                    texts[info.filename] = head.decode("utf-8", "replace")
            for name in sorted(set(record) - {info.filename for info in infos}):
                problems.append(_wrong("record", name, f"RECORD lists {name}, which is not in the wheel"))
    objects = [member.name for member in members if member.is_elf]
    problems += _metadata(wheel.name, claimed, texts, objects)
    return WheelContents(wheel, claimed, tuple(members), tuple(problems), texts)


def record_of(wheel: Path) -> dict[str, tuple[str, str]]:
    """Return RECORD of a wheel: path -> (hash in RECORD's form, size), both may be empty.

    Raises:
        AuditError: the file is no readable wheel or has no proper RECORD.
    """
    with _open(wheel) as archive:
        try:
            if bomb := _bomb(archive):
                raise ValueError(bomb)
            return _record(archive)
        except _DAMAGE as error:
            raise _unreadable(wheel, error) from error


def _open(wheel: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(wheel)
    except _DAMAGE as error:
        raise _unreadable(wheel, error) from error


def _unreadable(wheel: Path, error: Exception) -> AuditError:
    what, evidence = f"{wheel.name} is not a readable wheel", {"wheel": str(wheel)}
    fix = "build or download it again; the cause may be a full disk or an interrupted download"
    return AuditError(what, why=str(error), fix=fix, evidence=evidence)


def _bomb(archive: zipfile.ZipFile) -> str:
    """Say why a wheel would only fill the disk; "" for any that holds what it seems to hold.

    The sizes are those that zipfile reads at most. Wheels of PyTorch unpack to some five times their size.
    """
    infos = archive.infolist()
    packed, unpacked = sum(info.compress_size for info in infos), sum(info.file_size for info in infos)
    if len(infos) > _MOST_MEMBERS:
        return f"it has {len(infos)} files"
    if unpacked > _HARMLESS_BYTES and unpacked > _MOST_RATIO * packed:
        return f"its {packed} bytes would be {unpacked} bytes unpacked"
    return ""


def _record(archive: zipfile.ZipFile) -> dict[str, tuple[str, str]]:
    names = [name for name in archive.namelist() if re.fullmatch(r"[^/]*\.dist-info/RECORD", name)]
    if len(names) != 1:
        raise ValueError(f"the wheel has {len(names)} RECORD files instead of one")
    found: dict[str, tuple[str, str]] = {}
    for path, checksum, size in parse_record(archive.read(names[0]).decode("utf-8")):
        if path in found:
            raise ValueError(f"RECORD lists {path} twice")
        found[path] = (checksum, size)
    return found


def _name_problems(archive: zipfile.ZipFile, good: list[zipfile.ZipInfo]) -> Findings:
    """Yield members that must not be unpacked; put the others into ``good``, without folders."""
    seen: set[str] = set()
    for info in archive.infolist():
        name = info.filename
        if wrong := unsafe_name(info):
            yield _wrong("unsafe-name", info.orig_filename, f"{info.orig_filename!r} is {wrong}")
        elif name in seen:
            yield _wrong("duplicate", name, f"{name} is in the wheel twice")
        elif not info.is_dir():
            seen.add(name)
            good.append(info)


def _read_member(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, line: tuple[str, str], copy: Path
) -> tuple[Member, bytes, str]:
    """Hash one member; copy it out where it is an ELF object.

    Returns it, its first MiB, and its hash as RECORD should have it.
    """
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError("it is compressed in a way that pip may not read")
    algorithm, sha256 = line[0].partition("=")[0], hashlib.sha256()
    recorded = hashlib.new(algorithm) if algorithm in HASHES - {"sha256"} else sha256
    length = 0
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(archive.open(info))
        head = chunk = stream.read(_CHUNK)
        is_elf, out = head[: len(MAGIC)] == MAGIC, None
        if is_elf:
            stack.enter_context(explained(copy, f"unpacking {info.filename} to inspect it"))
            out = stack.enter_context(copy.open("wb"))
        while chunk:
            for total in {sha256, recorded}:
                total.update(chunk)
            if out is not None:
                out.write(chunk)
            length += len(chunk)
            chunk = stream.read(_CHUNK)
    member = Member(info.filename, length, sha256.hexdigest(), is_elf, head.startswith(_ARCHIVES))
    return member, head, record_hash(recorded.digest(), recorded.name)


def _record_problems(member: Member, recorded: str, record: Mapping[str, tuple[str, str]]) -> Findings:
    name, actual = member.name, str(member.size)
    checksum, size = record.get(name, ("", ""))
    if is_record_file(name):
        return
    if name not in record:
        yield _wrong("record", name, f"{name} is in the wheel but not in its RECORD")
    elif checksum.partition("=")[0] not in HASHES:
        yield _wrong("record", name, f"RECORD has no accepted hash for {name}: {checksum or 'none'}")
    elif checksum != recorded:
        yield _wrong("changed", name, f"{name} has {recorded}, but RECORD says {checksum}")
    elif size != actual:
        yield _wrong("changed", name, f"{name} has {actual} bytes, but RECORD says {size or 'nothing'}")
