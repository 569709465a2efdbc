"""Calls ``compileSYCL`` of libsycl-jit.so, a private interface that was the same from 2025.2 to 2026.2."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SPIRV = 2
# The result is returned in memory: a later release may return more than is read here.
_SPARE = 256


class _Array(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("count", ctypes.c_size_t))

    def items(self, kind: Any) -> list[Any]:
        return list((kind * self.count).from_address(self.data)) if self.count else []

    def raw(self) -> bytes:
        return ctypes.string_at(self.data, self.count) if self.count else b""


class _File(ctypes.Structure):
    _fields_ = (("path", ctypes.c_char_p), ("text", ctypes.c_char_p))


class _Property(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("is_number", ctypes.c_bool),
        ("number", ctypes.c_uint32),
        ("content", _Array),
    )


class _PropertySet(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("properties", _Array))


class _Image(ctypes.Structure):
    _fields_ = (
        ("format", ctypes.c_uint32),
        ("bits", ctypes.c_uint64),
        ("start", ctypes.c_void_p),
        ("size", ctypes.c_uint64),
        ("kernels", _Array),
        ("property_sets", _Array),
    )


class _Result(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_int),
        ("images", _Array),
        ("options", ctypes.c_char_p),
        ("ir", _Array),
        ("log", ctypes.c_char_p),
        ("spare", ctypes.c_char * _SPARE),
    )


@dataclass(frozen=True)
class Image:
    """A device image: its SPIR-V, its kernels, its properties by set (a number, or bytes)."""

    data: bytes
    kernels: tuple[str, ...]
    properties: dict[str, dict[str, int | bytes]]


class FrontEndError(Exception):
    """The front end refused the source; the message is what it said."""


def compile_device(library: Path, source: Path, options: Sequence[str]) -> tuple[list[Image], str]:
    """Compile the kernels of a source; return the images and the warnings."""
    compile_sycl = ctypes.CDLL(str(library)).compileSYCL
    compile_sycl.argtypes = (_File, _Array, _Array, _Array, ctypes.c_bool, ctypes.c_uint32)
    compile_sycl.restype = _Result
    words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    given = _Array(ctypes.addressof(words), len(options))
    result = compile_sycl(
        _File(str(source).encode(), source.read_bytes()), _Array(), given, _Array(), False, _SPIRV
    )
    log = (result.log or b"").decode("utf-8", "replace").strip()
    if result.code != 0:
        raise FrontEndError(log or f"compileSYCL returned {result.code}")
    return [_image(image) for image in result.images.items(_Image)], log


def _image(image: _Image) -> Image:
    return Image(
        data=ctypes.string_at(image.start, image.size),
        kernels=tuple(name.decode() for name in image.kernels.items(ctypes.c_char_p)),
        properties={
            group.name.decode(): {
                item.name.decode(): item.number if item.is_number else item.content.raw()
                for item in group.properties.items(_Property)
            }
            for group in image.property_sets.items(_PropertySet)
        },
    )
