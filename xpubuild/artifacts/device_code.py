"""One device image: its format, and the GPUs that it has native code for.

An image is SPIR-V, which the driver compiles at first use, or native code, either of one GPU or, where ocloc
was given several, an ar archive with one member for each. ``--offload-compress`` packs it with zstd.

Sources: ``ocloc`` of compute-runtime 22.43 and 26.27, run for pvc and others; its
shared/source/device_binary_format/zebin/zebin_elf.h; IGC/ZEBinWriter/zebin/spec/elf.md of
intel-graphics-compiler; intel/llvm PR 15124 (compression).
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator

from xpubuild.artifacts.elf import ElfReader
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
_WORD = 4
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
        start = place + _NOTE.size + -(-name // _WORD) * _WORD
        if length == _WORD and start + _WORD <= len(content):
            yield kind, int.from_bytes(content[start : start + _WORD], "little")
        place = start + -(-length // _WORD) * _WORD
