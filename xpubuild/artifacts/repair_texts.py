"""The texts of a repaired wheel: METADATA with pins, WHEEL with new tags, and no folder of the builder."""

from __future__ import annotations

import email.parser
import mmap
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from xpubuild.artifacts.audit_report import Finding
from xpubuild.artifacts.repair_model import Pin
from xpubuild.errors import UnsatisfiableError

_PLATFORM = re.compile(r"(?m)^(Tag: *[^-\r\n]+-[^-\r\n]+-)[^\r\n]+")
#: Shorter ones, such as / or /usr, are no mark of the machine that built it.
_SHORTEST = 5


def read_text(wheel: Path, member: str) -> str:
    """Return a text of a wheel that was read before; ``as_bytes`` makes the same bytes of it."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(member).decode("utf-8", "surrogateescape")


def as_bytes(text: str) -> bytes:
    """Return the bytes of a text."""
    return text.encode("utf-8", "surrogateescape")


def with_pins(metadata: str, pins: Sequence[Pin], wheel: str) -> str:
    """Return METADATA that requires the pinned distributions.

    Raises:
        UnsatisfiableError: it requires another version of one of them already.
    """
    wanted = {pin.name: pin.version for pin in pins}
    for text in email.parser.HeaderParser().parsestr(metadata).get_all("Requires-Dist", []):
        found = _requirement(text)
        name = canonicalize_name(found.name) if found is not None else ""
        if found is None or name not in wanted:
            continue
        if not found.specifier.contains(wanted[name], prereleases=True):
            raise UnsatisfiableError(
                f"{wheel} requires {found.name}{found.specifier}, but {name} {wanted[name]} is installed",
                why="its libraries would be pinned to a version that its own requirement excludes",
                fix=f"pass an environment with {found.name}{found.specifier} with --runtime",
            )
        if str(found.specifier) == f"=={wanted[name]}" and found.marker is None:
            del wanted[name]
    head, blank, body = _split(metadata)
    lines = [f"Requires-Dist: {name}=={version}" for name, version in wanted.items()]
    return "\n".join([head, *lines]) + blank + body


def _requirement(text: str) -> Requirement | None:
    try:
        return Requirement(text)
    except InvalidRequirement:
        return None


def _split(metadata: str) -> tuple[str, str, str]:
    """Return the headers, what separates them from the description, and the description."""
    match = re.search(r"\r?\n\r?\n", metadata)
    if match is None:
        return metadata.rstrip("\r\n"), "\n", ""
    return metadata[: match.start()], match[0], metadata[match.end() :]


def with_platform(text: str, platform: str) -> str:
    """Return the file WHEEL with another platform in each tag, the duplicates that this makes left out."""
    lines = [_PLATFORM.sub(lambda match: match[1] + platform, line) for line in text.splitlines()]
    tags = [line for line in dict.fromkeys(lines) if line.startswith("Tag:")]
    others = [line for line in lines if line and not line.startswith("Tag:")]
    return "\n".join([*others, *tags, ""])


def platform_of(wheel: Path) -> str:
    """Return the platform in the name of a wheel."""
    return wheel.name.removesuffix(".whl").rpartition("-")[2]


def file_name(wheel: Path, platform: str) -> str:
    """Return the name of the wheel for another platform."""
    return f"{wheel.name.removesuffix('.whl').rpartition('-')[0]}-{platform}.whl"


def builder_findings(
    texts: Mapping[str, str], objects: Mapping[str, Path], builder: Iterable[Path]
) -> Iterator[Finding]:
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
        for folder in _named_in(copy, wanted):
            message = (
                f"{member} has text with {folder}, a folder of the build machine"
                " (-ffile-prefix-map keeps it out)"
            )
            yield Finding("warning", "builder-path", member, folder, message)


def _named_in(file: Path, folders: Iterable[str]) -> list[str]:
    # A library of PyTorch has gigabytes: it is looked through in the page cache, not in memory.
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return [folder for folder in folders if data.find(folder.encode()) >= 0]
