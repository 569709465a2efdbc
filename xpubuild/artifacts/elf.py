"""Reads a shared object: names, needed libraries, search paths and dynamic symbols.

pyelftools reads the headers. The tables with one entry per symbol are read in bulk here, because a library of
PyTorch has 75,000 dynamic symbols and half a million static ones. Damaged input ends in an ``AuditError``:
every offset and count is checked against the file before it is used.
"""

from __future__ import annotations

import functools
import mmap
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import BinaryIO

from xpubuild.artifacts.elf_headers import Layout, damaged, inside, read_layout
from xpubuild.errors import AuditError
from xpubuild.frozen import frozen

MAGIC = b"\x7fELF"
_BITS_64 = 64
_STB_LOCAL, _STB_WEAK = 0, 2
_SHN_UNDEF = 0
_VER_FLG_BASE = 1
_VER_FLG_WEAK = 2
# No real object comes near; a damaged count must not keep the reader busy.
_MOST_RECORDS = 4096
_DT_NULL = 0


@functools.cache
def _number_of(tag: str) -> int:
    # Imported where a file is read: its tables take long to make.
    from elftools.elf.enums import ENUM_D_TAG  # noqa: PLC0415

    return int(ENUM_D_TAG[tag])


@frozen
class Symbols:
    """Names of one symbol table, local symbols left out of ``defined`` and ``undefined``."""

    defined: tuple[str, ...] = ()
    undefined: tuple[str, ...] = ()
    undefined_weak: tuple[str, ...] = ()
    local: tuple[str, ...] = ()


@frozen
class ElfObject:
    """One ELF file. ``rpath`` and ``runpath`` are split at colons and keep ``$ORIGIN``.

    ``versions_needed`` maps a library's soname to the symbol versions that are wanted from it (such as
    ``GLIBCXX_3.4.30``), ``versions_defined`` are those that this object offers.
    """

    kind: str
    machine: str
    bits: int
    little_endian: bool
    soname: str = ""
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    symbols: Symbols = field(default_factory=Symbols, repr=False)
    versions_needed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    versions_defined: frozenset[str] = frozenset()
    dynamic: bool = False

    @property
    def platform(self) -> tuple[str, int, bool]:
        """What must be equal for the loader to put two objects into one process."""
        return self.machine, self.bits, self.little_endian


def is_elf(path: Path) -> bool:
    """Whether there is a file that can be read and begins with the ELF magic number."""
    try:
        with path.open("rb") as stream:
            return stream.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def read_shared_object(path: Path, *, name: str | None = None) -> ElfObject:
    """Read the dynamic part of an ELF file; ``name`` stands for the file in messages.

    Raises:
        AuditError: the file cannot be read, is no ELF file or is damaged.
    """
    label = name or str(path)
    with mapped(path, label) as (stream, data):
        layout = read_layout(stream, len(data), label)
        return _Reader(data, layout, label).object()


def read_static_symbols(path: Path, *, name: str | None = None) -> Symbols:
    """Read ``.symtab``, which linking leaves and ``strip`` removes; empty where there is none.

    Raises:
        AuditError: as ``read_shared_object``.
    """
    label = name or str(path)
    with mapped(path, label) as (stream, data):
        layout = read_layout(stream, len(data), label)
        return _Reader(data, layout, label).static_symbols()


@contextmanager
def mapped(path: Path, label: str) -> Iterator[tuple[BinaryIO, mmap.mmap]]:
    """Open an ELF file and map it; ``label`` stands for it in messages.

    Raises:
        AuditError: it cannot be read, or is no ELF file.
    """
    try:
        stream = path.open("rb")
    except OSError as error:
        raise AuditError(
            f"{label} cannot be read",
            why=str(error),
            fix="check that the file exists and is readable",
            evidence={"object": label},
        ) from error
    with stream:
        if stream.read(len(MAGIC)) != MAGIC:
            raise damaged(label, "it does not begin with the ELF magic number")
        stream.seek(0)
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield stream, data


class _Reader:
    """Takes the dynamic tables out of a mapped file."""

    def __init__(self, data: mmap.mmap, layout: Layout, label: str) -> None:
        self._data = data
        self._layout = layout
        self._label = label
        self._tags = self._dynamic_tags()
        self._strings = self._string_table()

    def object(self) -> ElfObject:
        layout, tags = self._layout, self._tags
        return ElfObject(
            kind=layout.kind,
            machine=layout.machine,
            bits=layout.bits,
            little_endian=layout.order == "<",
            soname=next(iter(self._names("DT_SONAME")), ""),
            needed=tuple(self._names("DT_NEEDED")),
            rpath=_split(self._names("DT_RPATH")),
            runpath=_split(self._names("DT_RUNPATH")),
            symbols=self._dynamic_symbols(),
            versions_needed=self._versions_needed(),
            versions_defined=self._versions_defined(),
            dynamic=bool(tags),
        )

    def static_symbols(self) -> Symbols:
        if self._layout.symtab is None:
            return Symbols()
        offset, length, names, names_length = self._layout.symtab
        return self._symbols(offset, length, self._bytes(names, names_length))

    def _bytes(self, offset: int, length: int) -> bytes:
        inside(offset, length, len(self._data), self._label, "a table")
        return self._data[offset : offset + length]

    def _dynamic_tags(self) -> dict[int, list[int]]:
        if self._layout.dynamic is None:
            return {}
        entry = struct.Struct(self._layout.order + ("qQ" if self._layout.bits == _BITS_64 else "iI"))
        raw = self._bytes(*self._layout.dynamic)
        tags: dict[int, list[int]] = {}
        for tag, value in entry.iter_unpack(raw[: len(raw) // entry.size * entry.size]):
            if tag == _DT_NULL:
                break
            tags.setdefault(tag, []).append(value)
        return tags

    def _tag(self, name: str) -> int | None:
        values = self._tags.get(_number_of(name))
        return values[0] if values else None

    def _offset(self, address: int) -> int:
        """Translate an address of the running program into a place in the file."""
        for start, offset, length in self._layout.loads:
            if start <= address < start + length:
                return address - start + offset
        raise damaged(self._label, f"address {address:#x} of its dynamic section is in no loaded segment")

    def _string_table(self) -> bytes:
        address, length = self._tag("DT_STRTAB"), self._tag("DT_STRSZ")
        if address is None or length is None:
            return b""
        return self._bytes(self._offset(address), length)

    def _string(self, offset: int) -> str:
        end = self._strings.find(b"\0", offset)
        if offset >= len(self._strings) or end < 0:
            raise damaged(self._label, f"name {offset} is outside its string table")
        return self._strings[offset:end].decode("utf-8", "backslashreplace")

    def _names(self, tag: str) -> list[str]:
        return [self._string(offset) for offset in self._tags.get(_number_of(tag), ())]

    def _dynamic_symbols(self) -> Symbols:
        if self._layout.dynsym is not None:
            return self._symbols(*self._layout.dynsym, self._strings)
        address = self._tag("DT_SYMTAB")
        if address is None:
            return Symbols()
        length = self._layout.dynsym_count * self._symbol_format().size
        return self._symbols(self._offset(address), length, self._strings)

    def _symbol_format(self) -> struct.Struct:
        # Elf64_Sym: name, info, other, section, value, size.
        # Elf32_Sym: name, value, size, info, other, section.
        # Padding skips what is not used, so that both give (name, info, section).
        return struct.Struct(self._layout.order + ("IBxH16x" if self._layout.bits == _BITS_64 else "I8xBxH"))

    def _symbols(self, offset: int, length: int, strings: bytes) -> Symbols:
        entry = self._symbol_format()
        raw = self._bytes(offset, length // entry.size * entry.size)
        # Latin-1 keeps every byte at its own index; C++ and C symbol names are ASCII.
        text = strings.decode("latin-1")
        defined, undefined, weak, local = [], [], [], []
        for name, info, section in entry.iter_unpack(raw):
            if name == 0:
                continue
            end = text.find("\0", name)
            if end < 0:
                raise damaged(self._label, f"symbol name {name} is outside its string table")
            bind = info >> 4
            if bind == _STB_LOCAL:
                local.append(text[name:end])
            elif section != _SHN_UNDEF:
                defined.append(text[name:end])
            elif bind == _STB_WEAK:
                weak.append(text[name:end])
            else:
                undefined.append(text[name:end])
        return Symbols(tuple(defined), tuple(undefined), tuple(weak), tuple(local))

    def _unpack(self, form: str, offset: int) -> tuple[int, ...]:
        entry = struct.Struct(self._layout.order + form)
        values: tuple[int, ...] = entry.unpack(self._bytes(offset, entry.size))
        return values

    def _chain(self, form: str, offset: int, count: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Walk records whose last field says how far the next one is; 0 ends the walk."""
        if count > _MOST_RECORDS:
            raise damaged(self._label, f"it claims {count} version records")
        for _ in range(count):
            values = self._unpack(form, offset)
            yield offset, values
            if values[-1] == 0:
                return
            offset += values[-1]

    def _versions_needed(self) -> dict[str, tuple[str, ...]]:
        address, count = self._tag("DT_VERNEED"), self._tag("DT_VERNEEDNUM")
        if address is None or count is None:
            return {}
        found: dict[str, tuple[str, ...]] = {}
        # Elf_Verneed: version, number of names, file, first name, next.
        # Elf_Vernaux: hash, flags, other, name, next.
        for offset, (_, names, library, first, _next) in self._chain("HHIII", self._offset(address), count):
            entries = (entry for _, entry in self._chain("IHHII", offset + first, names))
            wanted = tuple(self._string(entry[3]) for entry in entries if not entry[1] & _VER_FLG_WEAK)
            found[self._string(library)] = wanted
        return found

    def _versions_defined(self) -> frozenset[str]:
        address, count = self._tag("DT_VERDEF"), self._tag("DT_VERDEFNUM")
        if address is None or count is None:
            return frozenset()
        found = set()
        # Elf_Verdef: version, flags, index, number of names, hash, first name, next. Elf_Verdaux: name, next.
        for offset, (_, flags, _, _, _, first, _next) in self._chain("HHHHIII", self._offset(address), count):
            if not flags & _VER_FLG_BASE:
                found.add(self._string(self._unpack("II", offset + first)[0]))
        return frozenset(found)


def _split(values: list[str]) -> tuple[str, ...]:
    return tuple(entry for value in values for entry in value.split(":"))
