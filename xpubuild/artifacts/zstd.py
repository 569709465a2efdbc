"""Unpacks zstd, which Python has from 3.14 on; before, the backport of that module."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdDecompressor, ZstdError
else:
    from backports.zstd import ZstdDecompressor, ZstdError

MAGIC = b"\x28\xb5\x2f\xfd"
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
