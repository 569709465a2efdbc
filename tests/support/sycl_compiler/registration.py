"""The source that hands device images to the SYCL runtime when the library is loaded.

The structures are those of sycl/source/detail/compiler.hpp of intel/llvm: libsycl.so.9 wants descriptors of
version 3, earlier ones version 1, with two pointers more, and each dies at load of the other's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .frontend import Image

_HEAD = """
#include <stdint.h>
#include <stddef.h>
struct entry { void *address; const char *name; size_t size; int32_t flags, reserved; };
struct property { const char *name; const void *value; uint32_t kind; uint64_t size; };
struct property_set { const char *name; const struct property *begin, *end; };
struct image {
  uint16_t version; uint8_t offload, format; const char *target, *compile, *link; MANIFEST
  const unsigned char *begin, *end; const struct entry *entries, *entries_end;
  const struct property_set *sets, *sets_end;
};
struct all { uint16_t version, count; const struct image *images; const void *host, *host_end; };
void __sycl_register_lib(const struct all *);
void __sycl_unregister_lib(const struct all *);
"""
_TAIL = """
static const struct image images[] = {{ {images} }};
static const struct all parts[] = {{ {parts} }};
enum {{ count = sizeof parts / sizeof *parts }};
__attribute__((constructor)) static void hand_over(void) {{
  for (int n = 0; n < count; n++) __sycl_register_lib(&parts[n]);
}}
__attribute__((destructor)) static void take_back(void) {{
  for (int n = 0; n < count; n++) __sycl_unregister_lib(&parts[n]);
}}
"""
#: The number of images of one registration has 16 bits.
_MOST = 0xFFFF
_DATA = """
extern const unsigned char begin{n}[] __asm__(".Lbegin{n}"), end{n}[] __asm__(".Lend{n}");
__asm__(".section __CLANG_OFFLOAD_BUNDLE__sycl-{target},\\"a\\",@progbits\\n.balign 16\\n"
        ".Lbegin{n}: .incbin \\"{file}\\"\\n.Lend{n}:\\n.previous\\n");
static const struct entry entries{n}[] = {{ {entries} {{ 0 }} }};
"""
_NATIVE, _SPIRV = 1, 2
_FORMATS = {"spir64": _SPIRV, "spir64_gen": _NATIVE}
_NUMBER, _BYTES = 1, 2
_SYCL = 4


@dataclass(frozen=True)
class Linked:
    """An image as it goes into the library: for one target, from a file."""

    target: str
    file: Path
    image: Image


def source(linked: Sequence[Linked], version: int) -> str:
    """Return a C source that contains and registers these images with descriptors of a version."""
    old = version < 3
    text = _HEAD.replace("MANIFEST", "const char *manifest, *manifest_end;" if old else "")
    table = []
    for n, item in enumerate(linked):
        entries = "".join(f"{{ 0, {_quoted(name)}, 0, 0, 0 }}, " for name in item.image.kernels)
        text += _DATA.format(n=n, target=item.target, file=item.file, entries=entries)
        text += _properties(n, item.image)
        head = (
            f'{version}, {_SYCL}, {_FORMATS[item.target]}, "{item.target}", "", "", {"0, 0, " if old else ""}'
        )
        last = f"entries{n} + {len(item.image.kernels)}"
        sets = f"sets{n}, sets{n} + {len(item.image.properties)}"
        table.append(f"{{ {head} begin{n}, end{n}, entries{n}, {last}, {sets} }}")
    starts = range(0, max(len(linked), 1), _MOST)
    parts = [f"{{ 1, {len(linked[start : start + _MOST])}, images + {start}, 0, 0 }}" for start in starts]
    return text + _TAIL.format(images=",\n".join(table), parts=", ".join(parts))


def _properties(n: int, image: Image) -> str:
    text, sets = "", []
    for number, (name, properties) in enumerate(image.properties.items()):
        own, rows = f"p{n}_{number}", []
        for index, (key, value) in enumerate(properties.items()):
            if isinstance(value, int):
                rows.append(f"{{ {_quoted(key)}, 0, {_NUMBER}, {value} }}, ")
            else:
                # A zero more: an array without elements is no C.
                numbers = ", ".join(map(str, (*value, 0)))
                text += f"static const unsigned char {own}_{index}[] = {{ {numbers} }};\n"
                rows.append(f"{{ {_quoted(key)}, {own}_{index}, {_BYTES}, {len(value)} }}, ")
        text += f"static const struct property {own}[] = {{ {''.join(rows)} {{ 0 }} }};\n"
        sets.append(f"{{ {_quoted(name)}, {own}, {own} + {len(properties)} }}, ")
    return text + f"static const struct property_set sets{n}[] = {{ {''.join(sets)} {{ 0 }} }};\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
