"""Real shared objects and wheels for the tests of the artifact audit."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import struct
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from xpubuild.artifacts.device_images import DeviceImage, images_in
from xpubuild.artifacts.elf import Symbols, opened

PLATFORM_TAG = "py3-none-linux_x86_64"


def compile_shared(
    target: Path,
    source: str,
    *,
    abi: int | None = None,
    flags: Sequence[str] = (),
    libraries: Sequence[str] = (),
    suffix: str = ".cpp",
) -> Path:
    """Compile and link one shared object with the real compiler."""
    target.parent.mkdir(parents=True, exist_ok=True)
    code = target.parent / f"{target.name}{suffix}"
    code.write_text(source, encoding="utf-8")
    defines = [] if abi is None else [f"-D_GLIBCXX_USE_CXX11_ABI={abi}"]
    compiler = ["g++", "-std=c++17"] if suffix == ".cpp" else ["gcc"]
    options = ["-O1", "-shared", "-fPIC", *defines, *flags]
    command = [*compiler, *options, str(code), "-o", str(target), *libraries]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    code.unlink()
    return target


def wheel_files(
    name: str, version: str, files: Mapping[str, bytes], *,
    tag: str = PLATFORM_TAG, wheel: str | None = None, metadata: str = "",
) -> dict[str, bytes]:  # fmt: skip
    """Return what belongs into a wheel, RECORD left out; ``metadata`` are more lines of METADATA."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}"
    python, abi, platform = tag.split("-")
    tags = "".join(f"Tag: {py}-{abi}-{platform}\n" for py in python.split("."))
    header = f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: {str(platform == 'any').lower()}\n"
    return {
        **files,
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": (header + tags if wheel is None else wheel).encode(),
    }


def record_line(name: str, data: bytes) -> tuple[str, str, str]:
    """Return one line of RECORD, from the specification and not from the code under test."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
    return name, f"sha256={digest}", str(len(data))


def record_text(lines: Sequence[tuple[str, str, str]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue()


def pack(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, bytes],
    *,
    tag: str = PLATFORM_TAG,
    wheel: str | None = None,
    metadata: str = "",
    record: Sequence[tuple[str, str, str]] | None = None,
) -> Path:
    """Pack a wheel with a right RECORD, or with the one given."""
    everything = wheel_files(name, version, files, tag=tag, wheel=wheel, metadata=metadata)
    recorded = f"{name}-{version}.dist-info/RECORD"
    lines = [record_line(*item) for item in everything.items()] if record is None else list(record)
    everything[recorded] = record_text([*lines, (recorded, "", "")]).encode()
    return zip_up(folder / f"{name}-{version}-{tag}.whl", everything)


def zip_up(target: Path, files: Mapping[str, bytes]) -> Path:
    """Write an archive; the same files give the same names in the same order."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return target


def unzip(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def install_by_hand(
    site_packages: Path, name: str, version: str, files: Mapping[str, bytes], *, installer: bool = True
) -> Path:
    """Lay a distribution out the way pip leaves it; return its ``.dist-info`` folder."""
    info = f"{name}-{version}.dist-info"
    everything = {**files, f"{info}/METADATA": f"Name: {name}\nVersion: {version}\n".encode()}
    if installer:
        everything[f"{info}/INSTALLER"] = b"pip\n"
    for path, data in everything.items():
        target = site_packages / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    lines = [record_line(*item) for item in everything.items()]
    text = record_text([*lines, (f"{info}/RECORD", "", "")])
    (site_packages / info / "RECORD").write_text(text, encoding="utf-8")
    return site_packages / info


def tiny_elf(
    *,
    bits: int = 64,
    order: str = "<",
    soname: str = "libtiny.so",
    needed: Sequence[str] = (),
    symbols: Sequence[tuple[str, bool]] = (),
) -> bytes:
    """Make a shared object without section headers, by hand: (name, defined) for each symbol.

    Offsets are addresses. It is for word sizes and byte orders that no compiler here can make.
    """
    wide = bits == 64
    strings = bytearray(b"\0")

    def put(text: str) -> int:
        strings.extend(text.encode() + b"\0")
        return len(strings) - len(text.encode()) - 1

    tags = [(14, put(soname)), *((1, put(library)) for library in needed)]
    table = bytearray(24 if wide else 16)
    for text, defined in symbols:
        info, section, place = 0x12, int(defined), put(text)
        if wide:
            table += struct.pack(order + "IBBHQQ", place, info, 0, section, 0, 0)
        else:
            table += struct.pack(order + "IIIBBH", place, 0, 0, info, 0, section)
    header, program, entry = (64, 56, "qQ") if wide else (52, 32, "iI")
    start = header + 2 * program
    hashes = struct.pack(order + "IIII", 1, len(symbols) + 1, 0, 0) + bytes(4 * len(symbols))
    at_hash = start + len(table)
    at_strings = at_hash + len(hashes)
    tags += [(4, at_hash), (5, at_strings), (6, start), (10, len(strings)), (11, 24 if wide else 16), (0, 0)]
    at_dynamic = at_strings + len(strings)
    dynamic = b"".join(struct.pack(order + entry, *tag) for tag in tags)
    size = at_dynamic + len(dynamic)
    ident = b"\x7fELF" + bytes([2 if wide else 1, 1 if order == "<" else 2, 1]) + bytes(9)
    machine = 62 if wide and order == "<" else (22 if wide else 3)
    form = "HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH"
    data = ident + struct.pack(order + form, 3, machine, 1, 0, header, 0, 0, header, program, 2, 0, 0, 0)
    for kind, offset, length in ((1, 0, size), (2, at_dynamic, len(dynamic))):
        if wide:
            data += struct.pack(order + "IIQQQQQQ", kind, 4, offset, offset, offset, length, length, 8)
        else:
            data += struct.pack(order + "IIIIIIII", kind, offset, offset, offset, length, length, 4, 4)
    return data + bytes(table) + hashes + bytes(strings) + dynamic


def read_device_images(path: Path, *, name: str | None = None) -> tuple[DeviceImage, ...]:
    with opened(path, name or str(path)) as elf:
        return images_in(elf)


def read_static_symbols(path: Path) -> Symbols:
    with opened(path, str(path)) as elf:
        return elf.static_symbols()
