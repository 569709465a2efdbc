"""Pointers inside a shared object, as the dynamic loader would leave them at address 0.

A pointer of a library is a relocation: the file has 0 or the address in its place (``RELA``), or always the
address (``RELR``). Only x86-64 is read, which is where oneAPI runs.
"""

from __future__ import annotations

import mmap
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise

from xpubuild.artifacts.elf_headers import Section, damaged

_R_RELATIVE = 8
_RELA = struct.Struct("<QQq")
_WORD = struct.Struct("<Q")
_LONGEST_TEXT = 4096


class Pointers:
    """Reads pointers, numbers and texts of a mapped file by their addresses."""

    def __init__(self, data: mmap.mmap, sections: Sequence[Section], label: str) -> None:
        self._data = data
        self._sections = tuple(part for part in sections if part.loaded)
        self._label = label
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
