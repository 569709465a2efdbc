"""Libraries with device images as a SYCL compiler registers them, linked by gcc: the images are made up.

A descriptor in C, in the layout of sycl/source/detail/compiler.hpp of intel/llvm; native code is an ELF file
with nothing but the notes that name its GPU.
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SPIRV = b"\x03\x02\x23\x07" + bytes(60)
SECTION = "__CLANG_OFFLOAD_BUNDLE__sycl-"
_SOURCE = """
#include <stdint.h>
#include <stddef.h>
struct entry {{ {entry} }};
struct image {{
  uint16_t version; uint8_t kind, format; const char *target, *compile, *link; {manifest}
  const unsigned char *begin, *end; const struct entry *entries, *entries_end; const void *sets, *sets_end;
}};
struct all {{ uint16_t version, count; const struct image *images; const void *host, *host_end; }};
void __sycl_register_lib(const struct all *);
{images}
static const struct image images[] = {{ {table} }};
static const struct all everything = {{ 1, {count}, images, 0, 0 }};
__attribute__((constructor)) static void hand_over(void) {{ __sycl_register_lib(&everything); }}
"""
_NEW_ENTRY = """uint64_t reserved; uint16_t version, kind; uint32_t flags; void *address; const char *name;
  uint64_t size, data; void *aux;"""
_ENTRIES = {
    False: (
        "void *address; const char *name; size_t size; int32_t flags, reserved;",
        '{{ 0, "{}", 0, 0, 0 }}',
    ),
    True: (
        _NEW_ENTRY,
        '{{ 0, 1, 8, 0, 0, "{}", 0, 0, 0 }}',
    ),
}
_ONE = """
extern const unsigned char begin{n}[], end{n}[];
__asm__(".section {section},\\"a\\",@progbits\\n.balign 16\\nbegin{n}: .incbin \\"{file}\\"\\nend{n}:\\n"
        ".previous\\n");
static const struct entry entries{n}[] = {{ {entries} {none} }};
"""


@dataclass(frozen=True)
class Image:
    target: str
    data: bytes
    kernels: tuple[str, ...] = ()


def sycl_library(
    path: Path,
    images: Sequence[Image],
    *,
    version: int = 2,
    new_entries: bool = False,
    sections: str = SECTION + "{}",
    program: bool = False,
    flags: Sequence[str] = (),
) -> Path:
    """Link a library, or a program at a fixed address, that registers these images; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fields, form = _ENTRIES[new_entries]
    parts, table = [], []
    for n, image in enumerate(images):
        file = path.with_suffix(f".{n}.image")
        file.write_bytes(image.data)
        section = sections.format(image.target)
        entries = "".join(form.format(name) + "," for name in image.kernels)
        none = "{ 0 }" if not image.kernels else ""
        parts.append(_ONE.format(n=n, section=section, file=file, entries=entries, none=none))
        manifest = "" if version > 2 else "0, 0,"
        span = f"begin{n}, end{n}, entries{n}, entries{n} + {len(image.kernels)}"
        table.append(f'{{ {version}, 4, 2, "{image.target}", "", "", {manifest} {span}, 0, 0 }}')
    manifest = "" if version > 2 else "const char *manifest, *manifest_end;"
    source = _SOURCE.format(
        entry=fields, manifest=manifest, images="".join(parts), table=",\n".join(table), count=len(images)
    )
    fixed = ["-no-pie", "-nostartfiles", "-Wl,--unresolved-symbols=ignore-all"]
    kind = fixed if program else ["-shared", "-fPIC"]
    argv = ["gcc", *kind, "-O1", "-x", "c", "-", "-o", str(path), *flags]
    subprocess.run(argv, input=source, text=True, check=True, capture_output=True, timeout=60)
    return path


def native(version: str, core: int) -> bytes:
    """Return what ocloc makes for a GPU of a version (12.60.7), as far as the notes go."""
    architecture, release, revision = map(int, version.split("."))
    config = architecture << 22 | release << 14 | revision
    notes = b"".join(
        struct.pack("<III8sI", 8, 4, kind, b"IntelGT", value) for kind, value in ((2, core), (6, config))
    )
    names = b"\0.note.intelgt.compat\0.shstrtab\0"
    header = 64
    at_names = header + len(notes)
    at_table = at_names + len(names)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    data = (
        ident
        + struct.pack("<HHIQQQIHHHHHH", 0xFF12, 205, 1, 0, 0, at_table, 0, 64, 0, 0, 64, 3, 2)
        + notes
        + names
    )
    sections = [(0, 0, 0, 0), (1, 7, header, len(notes)), (22, 3, at_names, len(names))]
    for name, kind, offset, size in sections:
        data += struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, offset, size, 0, 0, 1, 0)
    return data


def patch_tokens(core: int) -> bytes:
    """Return the beginning of the format before zebin."""
    return b"CTNI" + struct.pack("<IIIIII", 1081, core, 8, 1, 7, 0) + bytes(32)


def archive(members: Sequence[tuple[str, bytes]]) -> bytes:
    """Return an ar archive as ocloc makes it for several GPUs."""
    data = b"!<arch>\n"
    for name, content in members:
        data += f"{name + '/':<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(content):<10}`\n".encode() + content
        data += b"\n" * (len(content) % 2)
    return data
