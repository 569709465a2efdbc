"""Compares a wheel's file name, its METADATA and its WHEEL file."""

from __future__ import annotations

import email.parser
import re
import stat
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from email.message import Message
from pathlib import Path

from packaging.tags import parse_tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from xpubuild.errors import AuditError
from xpubuild.frozen import frozen


@frozen
class WheelProblem:
    """Something that is wrong with a wheel as a package; ``path`` is the member concerned, or the wheel."""

    kind: str
    path: str
    message: str


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
        raise AuditError(
            f"{wheel.name} is not the name of a wheel",
            why=str(error),
            fix="pass a wheel with its original name: name-version-python-abi-platform.whl",
            evidence={"wheel": str(wheel)},
        ) from error
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
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "a member that is not a regular file (a link or a device)"
    return None


def metadata_problems(
    label: str, claimed: WheelName, infos: Sequence[str], texts: Mapping[str, str], objects: Sequence[str]
) -> Iterator[WheelProblem]:
    """Yield what does not agree.

    ``label`` is the wheel's file name, ``infos`` are its ``.dist-info`` folders, ``texts`` the files in them,
    ``objects`` the machine code in the wheel.
    """
    if len(infos) != 1:
        yield WheelProblem("metadata", label, f"the wheel has {len(infos)} .dist-info folders instead of one")
        return
    info = infos[0]
    stem, _, version = info.removesuffix(".dist-info").rpartition("-")
    yield from _agree(info, stem, version, claimed)
    for name in (f"{info}/METADATA", f"{info}/WHEEL"):
        if name not in texts:
            yield WheelProblem("metadata", name, f"the wheel has no {name}")
    if f"{info}/METADATA" in texts:
        metadata = _headers(texts[f"{info}/METADATA"])
        yield from _agree(f"{info}/METADATA", metadata["Name"] or "", metadata["Version"] or "", claimed)
    if f"{info}/WHEEL" in texts:
        yield from _tag_problems(f"{info}/WHEEL", _headers(texts[f"{info}/WHEEL"]), claimed, objects)


def _headers(text: str) -> Message:
    return email.parser.Parser().parsestr(text, headersonly=True)


def _agree(where: str, name: str, version: str, claimed: WheelName) -> Iterator[WheelProblem]:
    try:
        same = canonicalize_name(name) == claimed.name and Version(version) == Version(claimed.version)
    except InvalidVersion:
        same = False
    if not same:
        found = f"{name or 'nothing'} {version or ''}".strip()
        message = f"{where} says {found}, but the file name says {claimed.name} {claimed.version}"
        yield WheelProblem("metadata", where, message)


def _tag_problems(
    where: str, headers: Message, claimed: WheelName, objects: Sequence[str]
) -> Iterator[WheelProblem]:
    if (headers["Wheel-Version"] or "").split(".")[0] != "1":
        yield WheelProblem("metadata", where, f"{where} has no Wheel-Version 1.x")
    try:
        inside = {str(tag) for line in headers.get_all("Tag", []) for tag in parse_tag(line)}
    except ValueError as error:
        yield WheelProblem("tags", where, f"{where} has an invalid tag: {error}")
        return
    if inside != set(claimed.tags):
        found = ", ".join(sorted(inside)) or "no tags"
        yield WheelProblem(
            "tags", where, f"{where} has {found}, but the file name has {', '.join(claimed.tags)}"
        )
    anywhere = [tag for tag in claimed.tags if tag.endswith("-any")]
    pure = (headers["Root-Is-Purelib"] or "").strip().lower() == "true"
    if objects and (anywhere or pure):
        why = f"tagged {anywhere[0]}" if anywhere else "marked Root-Is-Purelib: true"
        yield WheelProblem("tags", objects[0], f"{objects[0]} is machine code, but the wheel is {why}")
