"""Reads a shared object: names, needed libraries, search paths, dynamic symbols and sections.

pyelftools reads the headers. The tables with one entry per symbol are read in bulk here, because a library of
PyTorch has 75,000 dynamic symbols and half a million static ones. Damaged input ends in an ``AuditError``:
every offset and count is checked against the file before it is used.
"""

from __future__ import annotations

import io
import mmap
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any

from xpubuild.errors import AuditError
from xpubuild.frozen import frozen

MAGIC = b"\x7fELF"
_BITS_64 = 64
_STB_LOCAL, _STB_WEAK = 0, 2
_SHN_UNDEF = 0
_SHF_WRITE, _SHF_ALLOC = 1, 2
_VER_FLG_BASE, _VER_FLG_WEAK = 1, 2
# No real object comes near; a damaged count must not keep the reader busy.
_MOST_RECORDS = 4096
# What is read of the dynamic section (elf.h); pyelftools has them by name, in tables that take long to make.
_DT_NULL, _DT_NEEDED, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ = 0, 1, 5, 6, 10
_DT_SONAME, _DT_RPATH, _DT_RUNPATH = 14, 15, 29
#: Tags that name code which the loader runs beside, or in place of, that of the object.
_HOOKS = {
    0x6FFFFEFC: "DT_AUDIT", 0x6FFFFEFB: "DT_DEPAUDIT", 0x7FFFFFFF: "DT_FILTER", 0x7FFFFFFD: "DT_AUXILIARY",
}  # fmt: skip
_PF_X = 1


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
    ``GLIBCXX_3.4.30``), ``versions_defined`` are those that this object offers. ``hooks`` are (tag, library)
    of what the loader runs beside it or in its place; ``runs_stack``: it requests an executable stack.
    """

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
    hooks: tuple[tuple[str, str], ...] = ()
    runs_stack: bool = False

    @property
    def platform(self) -> tuple[str, int, bool]:
        """What must be equal for the loader to put two objects into one process."""
        return self.machine, self.bits, self.little_endian


#: The objects of a wheel by their paths in it.
Elves = Mapping[str, ElfObject]


@frozen
class Section:
    """A section that has bytes in the file; ``kind`` is a name such as SHT_RELA, or a number as text.

    ``loaded``: it has an address in the running program.
    """

    name: str
    kind: str
    address: int
    offset: int
    size: int
    loaded: bool
    writable: bool

    def holds(self, address: int, length: int = 1) -> bool:
        """Whether that many bytes from an address on are all in it."""
        return self.address <= address and address + length <= self.address + self.size


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
    with opened(path, name or str(path)) as elf:
        return elf.object()


@contextmanager
def opened(path: Path, label: str) -> Iterator[ElfReader]:
    """Map an ELF file and read its headers; ``label`` stands for it in messages.

    Raises:
        AuditError: it cannot be read, is no ELF file or is damaged.
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
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield ElfReader(data, label)


def damaged(label: str, why: str) -> AuditError:
    """Return the error for a file that is no proper ELF object."""
    return AuditError(
        f"{label} is damaged or not an ELF object",
        why=why,
        fix="build or download the file again; the cause may be a full disk or an interrupted download",
        evidence={"object": label},
    )


@contextmanager
def _headers_of(label: str) -> Iterator[None]:
    from elftools.common.exceptions import ELFError  # noqa: PLC0415

    # pyelftools raises any of these for damaged headers, not ELFError alone (found by mutating files).
    damage = (ELFError, struct.error, ValueError, LookupError, TypeError, AttributeError, AssertionError,
              OverflowError, OSError)  # fmt: skip
    try:
        yield
    except damage as error:
        raise damaged(label, f"its headers cannot be read: {type(error).__name__}: {error}") from error


class ElfReader:
    """Reads the headers of an ELF file that is mapped or in memory, and its tables on request.

    Raises:
        AuditError: they are damaged, or point behind the end of the file.
    """

    def __init__(self, data: mmap.mmap | bytes, label: str) -> None:
        # Importing it takes a twentieth of the time of a plan, which opens no such file.
        from elftools.elf.elffile import ELFFile  # noqa: PLC0415

        self.data, self.label = data, label
        with _headers_of(label):
            stream: Any = io.BytesIO(data) if isinstance(data, bytes) else data
            self._elf = ELFFile(stream)
            self._order = "<" if self._elf.little_endian else ">"
            self.machine = str(self._elf.header["e_machine"])
            has_sections = self._table_fits("sh", self._elf.structs.Elf_Shdr.sizeof())
            self._table_fits("ph", self._elf.structs.Elf_Phdr.sizeof())
            self._sections = list(self._elf.iter_sections()) if has_sections else []
            segments = list(self._elf.iter_segments())
            for segment in segments:
                if segment["p_type"] in ("PT_LOAD", "PT_DYNAMIC"):
                    self._inside(segment["p_offset"], segment["p_filesz"], "a segment")
        self._runs_stack = any(
            item["p_type"] == "PT_GNU_STACK" and item["p_flags"] & _PF_X for item in segments
        )
        self._dynamic: Any = next((item for item in segments if item["p_type"] == "PT_DYNAMIC"), None)

    def sections(self) -> tuple[Section, ...]:
        """Return the sections, but those without bytes in the file."""
        found = []
        with _headers_of(self.label):
            for section in self._sections:
                kind, flags = str(section["sh_type"]), section["sh_flags"]
                if kind not in ("SHT_NOBITS", "SHT_NULL"):
                    place = (section["sh_addr"], section["sh_offset"], section["sh_size"])
                    self._inside(section["sh_offset"], section["sh_size"], "a section")
                    loaded, writable = bool(flags & _SHF_ALLOC), bool(flags & _SHF_WRITE)
                    found.append(Section(section.name, kind, *place, loaded, writable))
        return tuple(found)

    def object(self) -> ElfObject:
        """Return the dynamic part."""
        tags = self._dynamic_tags()
        address, length = tags.get(_DT_STRTAB), tags.get(_DT_STRSZ)
        strings = self._bytes(self._at(address[0]), length[0]) if address and length else b""
        soname, needed, rpath, runpath = (
            [self._string(strings, offset) for offset in tags.get(tag, ())]
            for tag in (_DT_SONAME, _DT_NEEDED, _DT_RPATH, _DT_RUNPATH)
        )
        return ElfObject(
            machine=self.machine,
            bits=self._elf.elfclass,
            little_endian=self._elf.little_endian,
            soname=soname[0] if soname else "",
            needed=tuple(needed),
            rpath=_split(rpath),
            runpath=_split(runpath),
            symbols=self._dynamic_symbols(tags, strings),
            versions_needed={
                record.name or "": tuple(item.name for item in items if not item["vna_flags"] & _VER_FLG_WEAK)
                for record, items in self._versions("SHT_GNU_verneed")
            },
            versions_defined=frozenset(
                items[0].name
                for record, items in self._versions("SHT_GNU_verdef")
                if items and not record["vd_flags"] & _VER_FLG_BASE
            ),
            hooks=tuple(
                (name, self._string(strings, offset))
                for tag, name in _HOOKS.items()
                for offset in tags.get(tag, ())
            ),
            runs_stack=self._runs_stack,
        )

    def static_symbols(self) -> Symbols:
        """Return the symbols of ``.symtab``, which linking leaves and ``strip`` removes; empty without it."""
        table = self._table("SHT_SYMTAB")
        if table is None:
            return Symbols()
        with _headers_of(self.label):
            names = self._elf.get_section(table["sh_link"])
            strings = self._bytes(names["sh_offset"], names["sh_size"])
        return self._symbols(table["sh_offset"], table["sh_size"], strings)

    def _table_fits(self, prefix: str, entry_size: int) -> bool:
        """Whether the file has this header table; one that does not fit is damage."""
        header = self._elf.header
        offset, count = header[f"e_{prefix}off"], header[f"e_{prefix}num"]
        if offset == 0 or count == 0:
            return False
        if header[f"e_{prefix}entsize"] != entry_size:
            raise damaged(self.label, f"its header gives a wrong size for e_{prefix}entsize")
        self._inside(offset, count * entry_size, "a header table")
        return True

    def _inside(self, offset: int, length: int, what: str) -> None:
        size = len(self.data)
        if offset < 0 or length < 0 or offset + length > size:
            why = f"{what} should end at byte {offset + length}, but the file has {size} bytes"
            raise damaged(self.label, why)

    def _table(self, kind: str) -> Any:
        return next((section for section in self._sections if section["sh_type"] == kind), None)

    def _bytes(self, offset: int, length: int) -> bytes:
        self._inside(offset, length, "a table")
        return self.data[offset : offset + length]

    def _dynamic_tags(self) -> dict[int, list[int]]:
        tags: dict[int, list[int]] = {}
        if self._dynamic is None:
            return tags
        entry = struct.Struct(self._order + ("qQ" if self._elf.elfclass == _BITS_64 else "iI"))
        raw = self._bytes(self._dynamic["p_offset"], self._dynamic["p_filesz"])
        for tag, value in entry.iter_unpack(raw[: len(raw) // entry.size * entry.size]):
            if tag == _DT_NULL:
                break
            tags.setdefault(tag, []).append(value)
        return tags

    def _at(self, address: int) -> int:
        """Translate an address of the running program into a place in the file."""
        with _headers_of(self.label):
            place = next(self._elf.address_offsets(address), None)
        if place is None:
            raise damaged(self.label, f"address {address:#x} of its dynamic section is in no loaded segment")
        return int(place)

    def _string(self, strings: bytes, offset: int) -> str:
        end = strings.find(b"\0", offset)
        if offset >= len(strings) or end < 0:
            raise damaged(self.label, f"name {offset} is outside its string table")
        return strings[offset:end].decode("utf-8", "backslashreplace")

    def _dynamic_symbols(self, tags: Mapping[int, list[int]], strings: bytes) -> Symbols:
        table = self._table("SHT_DYNSYM")
        if table is not None:
            return self._symbols(table["sh_offset"], table["sh_size"], strings)
        if _DT_SYMTAB not in tags:
            return Symbols()
        with _headers_of(self.label):  # only a file without section headers needs its hash table
            count = self._dynamic.num_symbols()
        return self._symbols(self._at(tags[_DT_SYMTAB][0]), count * self._symbol_format().size, strings)

    def _symbol_format(self) -> struct.Struct:
        # Elf64_Sym: name, info, other, section, value, size.
        # Elf32_Sym: name, value, size, info, other, section.
        # Padding skips what is not used, so that both give (name, info, section).
        return struct.Struct(self._order + ("IBxH16x" if self._elf.elfclass == _BITS_64 else "I8xBxH"))

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
                raise damaged(self.label, f"symbol name {name} is outside its string table")
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

    def _versions(self, kind: str) -> list[tuple[Any, list[Any]]]:
        """Return each version record with its entries, as pyelftools has them."""
        section = self._table(kind)
        if section is None:
            return []
        with _headers_of(self.label):
            if section.num_versions() > _MOST_RECORDS:
                raise damaged(self.label, f"it claims {section.num_versions()} version records")
            return [(record, list(items)) for record, items in section.iter_versions()]


def _split(values: list[str]) -> tuple[str, ...]:
    return tuple(entry for value in values for entry in value.split(":"))
