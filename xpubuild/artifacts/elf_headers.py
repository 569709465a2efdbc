"""The headers of an ELF file, read with pyelftools and checked against the size of the file."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, BinaryIO

from elftools.common.exceptions import ELFError

from xpubuild.errors import AuditError
from xpubuild.frozen import frozen

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

# pyelftools answers damaged headers with any of these, not with ELFError alone (found by mutating files).
DAMAGE = (
    ELFError,
    struct.error,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    OverflowError,
    OSError,
)
_SHF_WRITE, _SHF_ALLOC = 1, 2


@frozen
class Layout:
    """Where things are in the file, taken from the headers and checked against its size."""

    kind: str
    machine: str
    bits: int
    order: str
    loads: tuple[tuple[int, int, int], ...]
    dynamic: tuple[int, int] | None
    dynsym: tuple[int, int] | None
    symtab: tuple[int, int, int, int] | None
    dynsym_count: int


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


def damaged(label: str, why: str) -> AuditError:
    """Return the error for a file that is no proper ELF object."""
    return AuditError(
        f"{label} is damaged or not an ELF object",
        why=why,
        fix="build or download the file again; the cause may be a full disk or an interrupted download",
        evidence={"object": label},
    )


def read_layout(stream: BinaryIO, size: int, label: str) -> Layout:
    """Read the headers of an open ELF file of ``size`` bytes.

    Raises:
        AuditError: they are damaged, or point behind the end of the file.
    """
    try:
        return _read_headers(_open(stream), size, label)
    except DAMAGE as error:
        raise damaged(label, f"its headers cannot be read: {type(error).__name__}: {error}") from error


def read_sections(stream: BinaryIO, size: int, label: str) -> tuple[Section, ...]:
    """Return the sections of an open ELF file of ``size`` bytes, but those without bytes in it.

    Raises:
        AuditError: they are damaged, or point behind the end of the file.
    """
    found = []
    try:
        for section in _open(stream).iter_sections():
            kind, flags = str(section["sh_type"]), section["sh_flags"]
            if kind not in ("SHT_NOBITS", "SHT_NULL"):
                place = (section["sh_addr"], section["sh_offset"], section["sh_size"])
                inside(section["sh_offset"], section["sh_size"], size, label, "a section")
                loaded, writable = bool(flags & _SHF_ALLOC), bool(flags & _SHF_WRITE)
                found.append(Section(section.name, kind, *place, loaded, writable))
    except DAMAGE as error:
        raise damaged(label, f"its sections cannot be read: {type(error).__name__}: {error}") from error
    return tuple(found)


def _open(stream: BinaryIO) -> ELFFile:
    # A twentieth of the time of a plan to import, which opens no such file.
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415

    return ELFFile(stream)


def _read_headers(elf: ELFFile, size: int, label: str) -> Layout:
    header = elf.header
    sections = _table_fits(header, "sh", elf.structs.Elf_Shdr.sizeof(), size, label)
    _table_fits(header, "ph", elf.structs.Elf_Phdr.sizeof(), size, label)
    loads: list[tuple[int, int, int]] = []
    dynamic: Any = None
    for segment in elf.iter_segments():
        if segment["p_type"] in ("PT_LOAD", "PT_DYNAMIC"):
            inside(segment["p_offset"], segment["p_filesz"], size, label, "a segment")
        if segment["p_type"] == "PT_LOAD":
            loads.append((segment["p_vaddr"], segment["p_offset"], segment["p_filesz"]))
        elif segment["p_type"] == "PT_DYNAMIC":
            dynamic = segment
    dynsym, symtab = _symbol_sections(elf, size, label) if sections else (None, None)
    return Layout(
        kind=str(header["e_type"]),
        machine=str(header["e_machine"]),
        bits=elf.elfclass,
        order="<" if elf.little_endian else ">",
        loads=tuple(loads),
        dynamic=(dynamic["p_offset"], dynamic["p_filesz"]) if dynamic is not None else None,
        dynsym=dynsym,
        symtab=symtab,
        # Only a file without section headers needs the count from its hash table.
        dynsym_count=dynamic.num_symbols() if dynamic is not None and dynsym is None else 0,
    )


def _symbol_sections(
    elf: ELFFile, size: int, label: str
) -> tuple[tuple[int, int] | None, tuple[int, int, int, int] | None]:
    dynsym, symtab = None, None
    for section in elf.iter_sections():
        kind = section["sh_type"]
        if kind not in ("SHT_DYNSYM", "SHT_SYMTAB"):
            continue
        offset, length = section["sh_offset"], section["sh_size"]
        inside(offset, length, size, label, "a symbol table")
        if kind == "SHT_DYNSYM":
            dynsym = (offset, length)
        else:
            names = elf.get_section(section["sh_link"])
            inside(names["sh_offset"], names["sh_size"], size, label, "a string table")
            symtab = (offset, length, names["sh_offset"], names["sh_size"])
    return dynsym, symtab


def _table_fits(header: Any, prefix: str, entry_size: int, size: int, label: str) -> bool:
    """Whether the file has this header table; one that does not fit is damage."""
    offset, count = header[f"e_{prefix}off"], header[f"e_{prefix}num"]
    if offset == 0 or count == 0:
        return False
    if header[f"e_{prefix}entsize"] != entry_size:
        raise damaged(label, f"its header gives a wrong size for e_{prefix}entsize")
    inside(offset, count * entry_size, size, label, "a header table")
    return True


def inside(offset: int, length: int, size: int, label: str, what: str) -> None:
    """Hold a place in the file against its size.

    Raises:
        AuditError: it is not inside.
    """
    if offset < 0 or length < 0 or offset + length > size:
        raise damaged(label, f"{what} should end at byte {offset + length}, but the file has {size} bytes")
