"""Finds the device images of a library that a SYCL compiler made, and the kernels of each.

The compiler puts all images of one target into one section, such as ``__CLANG_OFFLOAD_BUNDLE__sycl-spir64``
(the new offloading model: ``spir64``; seen in wheels made with oneAPI 2026: ``OFFLOAD_DEVICE_CODE``), one
behind the other. Where each begins, for which target it is and
which kernels it has is in descriptors, which the library hands to ``__sycl_register_lib`` when it is loaded.

Sources: clang/docs/ClangOffloadBundler.rst of llvm/llvm-project (names of entries); of intel/llvm
clang/tools/clang-offload-wrapper/ClangOffloadWrapper.cpp, llvm/lib/Frontend/Offloading/SYCLOffloadWrapper.cpp
(sections, descriptors) and sycl/source/detail/compiler.hpp (versions of the descriptor, formats, entries).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from xpubuild.artifacts.device_code import Code, UnreadableImageError, read_code
from xpubuild.artifacts.elf import mapped
from xpubuild.artifacts.elf_headers import Section, damaged, read_layout, read_sections
from xpubuild.artifacts.elf_pointers import Pointers
from xpubuild.errors import AuditError
from xpubuild.frozen import frozen

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


def read_device_images(path: Path, *, name: str | None = None) -> tuple[DeviceImage, ...]:
    """Return the device images of a library, in the order of their places; ``name`` stands for the file.

    Raises:
        AuditError: the file is damaged, or a part of its device code belongs to no image.
    """
    label = name or str(path)
    with mapped(path, label) as (stream, data):
        layout = read_layout(stream, len(data), label)
        if layout.machine != "EM_X86_64":
            return ()
        sections = read_sections(stream, len(data), label)
        code = tuple(part for part in sections if _SECTION.fullmatch(part.name) and part.size)
        if not code:
            return ()
        return _Images(Pointers(data, sections, label), code, label).read()


class _Images:
    def __init__(self, pointers: Pointers, code: tuple[Section, ...], label: str) -> None:
        self._pointers = pointers
        self._code = code
        self._label = label

    def read(self) -> tuple[DeviceImage, ...]:
        found: dict[int, tuple[int, int]] = {}
        for place in self._pointers.into(self._code):
            for version, at in _IMAGE_AT.items():
                span = self._descriptor(place - at, version)
                if span is not None:
                    found[place - at] = span
        self._complete(sorted(set(found.values())))
        ordered = sorted(found.items(), key=lambda item: (item[1], item[0]))
        return tuple(self._image(address, *span) for address, span in ordered)

    def _descriptor(self, address: int, version: int) -> tuple[int, int] | None:
        """Return where the image of a descriptor is; None where there is no descriptor."""
        pointers = self._pointers
        try:
            if pointers.number(address, 2) != version or pointers.number(address + 2, 1) != _SYCL:
                return None
            place = address + _IMAGE_AT[version]
            start, end = pointers.pointer(place), pointers.pointer(place + _POINTER)
            named = pointers.text(pointers.pointer(address + _TARGET_AT)).isprintable()
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
        pointers = self._pointers
        version = pointers.number(address, 2)
        entries = address + _IMAGE_AT[version] + 2 * _POINTER
        try:
            code = read_code(pointers.bytes(start, end - start))
        except UnreadableImageError as error:
            raise damaged(self._label, f"its device image at {start:#x} is damaged: {error}") from error
        return DeviceImage(
            target=pointers.text(pointers.pointer(address + _TARGET_AT)),
            code=code,
            kernels=frozenset(self._names(pointers.pointer(entries), pointers.pointer(entries + _POINTER))),
            size=end - start,
        )

    def _names(self, start: int, end: int) -> Iterator[str]:
        if start == end:
            return
        new = self._pointers.number(start, _MARK_BYTES) == _NEW_ENTRY_MARK
        size, at = (_NEW_ENTRY, _NEW_NAME_AT) if new else (_OLD_ENTRY, _OLD_NAME_AT)
        if not 0 < end - start <= _MOST_ENTRIES * size:
            raise damaged(self._label, f"an image claims {end - start} bytes of kernel names")
        for entry in range(start, end, size):
            yield self._pointers.text(self._pointers.pointer(entry + at))
