"""The device images of a library that a SYCL compiler made: what each is, for which GPUs, with which kernels.

An image is SPIR-V, which the driver compiles at first use, or native code, either of one GPU or, where ocloc
was given several, an ar archive with one member for each. ``--offload-compress`` packs it with zstd.

The compiler puts all images of one target into one section, such as ``__CLANG_OFFLOAD_BUNDLE__sycl-spir64``
(the new offloading model: ``spir64``; seen in wheels made with oneAPI 2026: ``OFFLOAD_DEVICE_CODE``), one
behind the other. Where each begins, for which target it is and
which kernels it has is in descriptors, which the library hands to ``__sycl_register_lib`` when it is loaded.

Sources: ``ocloc`` of compute-runtime 22.43 and 26.27, run for pvc and others; its
shared/source/device_binary_format/zebin/zebin_elf.h; IGC/ZEBinWriter/zebin/spec/elf.md of
intel-graphics-compiler; clang/docs/ClangOffloadBundler.rst of llvm/llvm-project (names of entries); of
intel/llvm PR 15124 (compression), clang/tools/clang-offload-wrapper/ClangOffloadWrapper.cpp,
llvm/lib/Frontend/Offloading/SYCLOffloadWrapper.cpp (sections, descriptors) and
sycl/source/detail/compiler.hpp (versions of the descriptor, formats, entries).
"""

from __future__ import annotations

import re
import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise

from xpubuild.artifacts.elf import ElfReader, Section, damaged
from xpubuild.errors import AuditError
from xpubuild.frozen import frozen

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdDecompressor, ZstdError
else:
    from backports.zstd import ZstdDecompressor, ZstdError

ZSTD = b"\x28\xb5\x2f\xfd"
# The largest image that is unpacked: a library of PyTorch is linked with an image per kernel or source file.
_MOST_BYTES = 1 << 31


def unpacked(data: bytes) -> bytes:
    """Return what was packed.

    Raises:
        ValueError: the data is damaged, cut off or larger than any device image.
    """
    decompressor = ZstdDecompressor()
    try:
        content: bytes = decompressor.decompress(data, max_length=_MOST_BYTES)
    except ZstdError as error:
        raise ValueError(str(error)) from error
    if not decompressor.eof:
        raise ValueError("the data is cut off" if decompressor.needs_input else "the content is too large")
    return content


SPIRV, NATIVE, LLVM_IR, UNKNOWN = "SPIR-V", "native", "LLVM IR", "unknown"
_SPIRV = (b"\x03\x02\x23\x07", b"\x07\x23\x02\x03")
_BITCODE = b"BC\xc0\xde"
_ARCHIVE = b"!<arch>\n"
_ELF = b"\x7fELF"
# The program header of the format before zebin, which ocloc 22.43 still writes: magic, version, core, ...
_PATCH_TOKENS = b"CTNI"
_PATCH_TOKENS_CORE = struct.Struct("<8xI")
# Of a shell around SPIR-V and patch tokens: the section that has the latter (SHT_OPENCL_DEV_BINARY).
_SHT_DEVICE_BINARY = str(0xFF000005)
_MEMBER = struct.Struct("16s12s6s6s8s10s2s")
_MEMBER_END = b"`\n"
_NOTES = ".note.intelgt.compat"
_NOTE = struct.Struct("<III")
_GFX_CORE, _PRODUCT_CONFIG = 2, 6
_NOTE_WORD = 4
# An archive in a shell in an archive is more than any tool makes.
_DEEPEST = 4


class UnreadableImageError(ValueError):
    """A device image is cut off, or is none."""


@frozen
class Device:
    """A GPU that native code is for: its version, such as 12.60.7, and the number of its core, 0 if unknown.

    Patch tokens hold the core alone, so ``config`` may be empty.
    """

    config: str
    core: int = 0

    @property
    def release(self) -> str:
        """The version without the stepping: code for one stepping runs on the later ones of its release."""
        return self.config.rpartition(".")[0]


@frozen
class Code:
    """What one image is: ``kind`` is one of the names above; ``devices`` are those of native code."""

    kind: str
    devices: tuple[Device, ...] = ()
    compressed: bool = False


def read_code(data: bytes) -> Code:
    """Return what an image is by its first bytes, and for native code the GPUs by its headers.

    Raises:
        UnreadableImageError: its headers are damaged, or zstd cannot unpack it.
    """
    if compressed := data.startswith(ZSTD):
        try:
            data = unpacked(data)
        except ValueError as error:
            raise UnreadableImageError(f"it cannot be unpacked: {error}") from error
    known = SPIRV if data.startswith(_SPIRV) else LLVM_IR if data.startswith(_BITCODE) else ""
    devices = () if known else tuple(dict.fromkeys(_native(data, "", 0)))
    return Code(known or (NATIVE if devices else UNKNOWN), devices, compressed)


def _native(data: bytes, name: str, depth: int) -> Iterator[Device]:
    """Yield the GPUs of native code; ``name`` is that of the member of an archive."""
    if depth > _DEEPEST:
        raise UnreadableImageError("its archives are nested too deep")
    if data.startswith(_ARCHIVE):
        for member, content in _members(data):
            yield from _native(content, member, depth + 1)
    elif data.startswith(_PATCH_TOKENS):
        if len(data) < _PATCH_TOKENS_CORE.size:
            raise UnreadableImageError("its header is cut off")
        yield Device(_version(name), _PATCH_TOKENS_CORE.unpack_from(data)[0])
    elif data.startswith(_ELF):
        yield from _of_elf(data, name, depth)


def _members(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Walk an ar archive. ocloc names members ``64.12.60.7`` or ``64.bmg``, and pads between them."""
    place = len(_ARCHIVE)
    while place < len(data):
        if place + _MEMBER.size > len(data):
            raise UnreadableImageError("its archive ends inside a member's header")
        name, *_, length, end = _MEMBER.unpack_from(data, place)
        place += _MEMBER.size
        if end != _MEMBER_END or not length.strip().isdigit():
            raise UnreadableImageError(f"its archive has no member at byte {place - _MEMBER.size}")
        size = int(length)
        if place + size > len(data):
            raise UnreadableImageError("its archive ends inside a member")
        yield name.decode("ascii", "replace").strip().rstrip("/"), data[place : place + size]
        place += size + size % 2


def _version(member: str) -> str:
    """Return ``12.60.7`` of ``64.12.60.7``, nothing of ``64.bmg``."""
    _, _, rest = member.partition(".")
    return rest if rest.replace(".", "").isdigit() else ""


def _of_elf(data: bytes, name: str, depth: int) -> Iterator[Device]:
    try:
        sections = ElfReader(data, "the image").sections()
    except AuditError as error:
        raise UnreadableImageError(error.why) from error
    for section in sections:
        content = data[section.offset : section.offset + section.size]
        if section.name == _NOTES:
            yield _of_notes(content, name)
        elif section.kind == _SHT_DEVICE_BINARY:
            yield from _native(content, name, depth + 1)


def _of_notes(content: bytes, name: str) -> Device:
    notes = dict(_notes(content))
    config = notes.get(_PRODUCT_CONFIG)
    text = _version(name) if config is None else f"{config >> 22}.{config >> 14 & 0xFF}.{config & 0x3F}"
    return Device(text, notes.get(_GFX_CORE, 0))


def _notes(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield type and value of the notes that are one word."""
    place = 0
    while place + _NOTE.size <= len(content):
        name, length, kind = _NOTE.unpack_from(content, place)
        start = place + _NOTE.size + -(-name // _NOTE_WORD) * _NOTE_WORD
        if length == _NOTE_WORD and start + _NOTE_WORD <= len(content):
            yield kind, int.from_bytes(content[start : start + _NOTE_WORD], "little")
        place = start + -(-length // _NOTE_WORD) * _NOTE_WORD


#: What a library with device images needs from the SYCL runtime.
REGISTERS = "__sycl_register_lib"
_SECTION = re.compile(
    r"(?:__CLANG_OFFLOAD_BUNDLE__sycl-)?(?:spir|nvptx|amdgcn|native_cpu|llvm_)[\w.-]{0,80}|OFFLOAD_DEVICE_CODE"
)
_SYCL = 4
# Version of a descriptor -> where its pointer to the image is; 1 and 2 have two more pointers before it.
_IMAGE_AT = {1: 48, 2: 48, 3: 32}
_TARGET_AT = 8
_POINTER = 8
_OLD_ENTRY, _NEW_ENTRY = 32, 56
_OLD_NAME_AT, _NEW_NAME_AT = 8, 24
# The first words of the new kind of entry: 8 bytes of zero, version 1, kind 8 (SYCL), no flags.
_NEW_ENTRY_MARK = (1 << 64) | (8 << 80)
_MARK_BYTES = 16
_MOST_ENTRIES = 1 << 20
_R_RELATIVE = 8
_RELA = struct.Struct("<QQq")
_WORD = struct.Struct("<Q")
_LONGEST_TEXT = 4096
# Linkers align images; what is left over between two of them is less than this.
_PADDING = 64


@frozen
class DeviceImage:
    """One image: the target it was registered for, what it is, and the names of its kernels.

    An image without kernels has functions that others take in, such as those for bfloat16.
    """

    target: str
    code: Code
    kernels: frozenset[str]
    size: int


def images_in(elf: ElfReader) -> tuple[DeviceImage, ...]:
    """Return the device images of a library, in the order of their places.

    Raises:
        AuditError: the file is damaged, or a part of its device code belongs to no image.
    """
    if elf.machine != "EM_X86_64":
        return ()
    sections = elf.sections()
    code = tuple(part for part in sections if _SECTION.fullmatch(part.name) and part.size)
    return _Images(elf, sections, code).read() if code else ()


class _Pointers:
    """Reads pointers, numbers and texts of a library by their addresses, as if it were loaded at address 0.

    A pointer of a library is a relocation: the file has 0 or the address in its place (``RELA``), or always
    the address (``RELR``). Only x86-64 is read, which is where oneAPI runs.
    """

    def __init__(self, elf: ElfReader, sections: Sequence[Section]) -> None:
        self._data, self._label = elf.data, elf.label
        self._sections = tuple(part for part in sections if part.loaded)
        self._places, self._values = self._relocations()

    def into(self, targets: Sequence[Section]) -> Iterator[int]:
        """Yield the addresses of all pointers that lead into some sections, to their ends included."""
        low = min(target.address for target in targets)
        high = max(target.address + target.size for target in targets)
        found = False
        for place, value in zip(self._places, self._values, strict=True):
            if low <= value <= high:
                found = True
                yield place
        if found and not any(section.kind == "SHT_RELR" for section in self._sections):
            return
        # A program at a fixed address, or packed relocations: the addresses themselves are in the file.
        for section in self._sections:
            if section.writable and section.kind == "SHT_PROGBITS":
                raw = self.bytes(section.address, section.size // _WORD.size * _WORD.size)
                for number, (value,) in enumerate(_WORD.iter_unpack(raw)):
                    if low <= value <= high:
                        yield section.address + number * _WORD.size

    def pointer(self, address: int) -> int:
        """Return the pointer at an address."""
        index = bisect_left(self._places, address)
        if index < len(self._places) and self._places[index] == address:
            return self._values[index]
        return self.number(address, _WORD.size)

    def number(self, address: int, length: int) -> int:
        """Return the number at an address, as it is in the file."""
        return int.from_bytes(self.bytes(address, length), "little")

    def text(self, address: int) -> str:
        """Return the text at an address, up to its zero."""
        section = self._section(address, 1)
        start = section.offset + address - section.address
        end = self._data.find(b"\0", start, min(start + _LONGEST_TEXT, section.offset + section.size))
        if end < 0:
            raise damaged(self._label, f"the text at address {address:#x} has no end")
        return self._data[start:end].decode("utf-8", "backslashreplace")

    def bytes(self, address: int, length: int) -> bytes:
        """Return what the file has at an address.

        Raises:
            AuditError: no section has it.
        """
        section = self._section(address, length)
        start = section.offset + address - section.address
        return self._data[start : start + length]

    def _section(self, address: int, length: int) -> Section:
        for section in self._sections:
            if section.holds(address, length):
                return section
        raise damaged(self._label, f"{length} bytes at address {address:#x} are in no section")

    def _relocations(self) -> tuple[array[int], array[int]]:
        """Return where the relative relocations are and what they make, in the order of the places."""
        # Arrays: a library of PyTorch has millions of them.
        places, values = array("Q"), array("Q")
        for section in self._sections:
            if section.kind == "SHT_RELA":
                raw = self.bytes(section.address, section.size // _RELA.size * _RELA.size)
                for place, info, value in _RELA.iter_unpack(raw):
                    if info == _R_RELATIVE and value >= 0:
                        places.append(place)
                        values.append(value)
        if all(before <= after for before, after in pairwise(places)):
            return places, values
        order = sorted(range(len(places)), key=places.__getitem__)
        return array("Q", (places[i] for i in order)), array("Q", (values[i] for i in order))


class _Images(_Pointers):
    def __init__(self, elf: ElfReader, sections: Sequence[Section], code: tuple[Section, ...]) -> None:
        super().__init__(elf, sections)
        self._code = code

    def read(self) -> tuple[DeviceImage, ...]:
        found: dict[int, tuple[int, int]] = {}
        for place in self.into(self._code):
            for version, at in _IMAGE_AT.items():
                span = self._descriptor(place - at, version)
                if span is not None:
                    found[place - at] = span
        self._complete(sorted(set(found.values())))
        ordered = sorted(found.items(), key=lambda item: (item[1], item[0]))
        return tuple(self._image(address, *span) for address, span in ordered)

    def _descriptor(self, address: int, version: int) -> tuple[int, int] | None:
        """Return where the image of a descriptor is; None where there is no descriptor."""
        try:
            if self.number(address, 2) != version or self.number(address + 2, 1) != _SYCL:
                return None
            place = address + _IMAGE_AT[version]
            start, end = self.pointer(place), self.pointer(place + _POINTER)
            named = self.text(self.pointer(address + _TARGET_AT)).isprintable()
        except AuditError:
            # Other data before a pointer that leads here by chance, such as that of .tgtimg.
            return None
        whole = any(part.holds(start, end - start) for part in self._code)
        return (start, end) if named and start < end and whole else None

    def _complete(self, spans: list[tuple[int, int]]) -> None:
        """Each byte of the sections must belong to an image: else a descriptor was not understood."""
        for part in self._code:
            place = part.address
            for start, end in (*spans, (part.address + part.size, part.address + part.size)):
                if not part.address <= start <= part.address + part.size:
                    continue
                if start - place >= _PADDING:
                    why = f"{start - place} bytes of {part.name} at {place:#x} belong to no device image"
                    raise damaged(self._label, why)
                place = max(place, end)

    def _image(self, address: int, start: int, end: int) -> DeviceImage:
        version = self.number(address, 2)
        entries = address + _IMAGE_AT[version] + 2 * _POINTER
        try:
            code = read_code(self.bytes(start, end - start))
        except UnreadableImageError as error:
            raise damaged(self._label, f"its device image at {start:#x} is damaged: {error}") from error
        return DeviceImage(
            target=self.text(self.pointer(address + _TARGET_AT)),
            code=code,
            kernels=frozenset(self._names(self.pointer(entries), self.pointer(entries + _POINTER))),
            size=end - start,
        )

    def _names(self, start: int, end: int) -> Iterator[str]:
        if start == end:
            return
        new = self.number(start, _MARK_BYTES) == _NEW_ENTRY_MARK
        size, at = (_NEW_ENTRY, _NEW_NAME_AT) if new else (_OLD_ENTRY, _OLD_NAME_AT)
        if not 0 < end - start <= _MOST_ENTRIES * size:
            raise damaged(self._label, f"an image claims {end - start} bytes of kernel names")
        for entry in range(start, end, size):
            yield self.text(self.pointer(entry + at))
