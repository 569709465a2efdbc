"""Characters that make a terminal show something other than what stands in a text."""

from __future__ import annotations

import re

#: C0 without tab and newline, DEL and C1 (terminals obey U+009B like an escape), separators of lines, marks
#: that turn the direction of writing (U+202E), blanks without width, and tags.
_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)


def without_unprintable(text: str) -> str:
    """Return ``text`` without characters that no one can see; newlines and tabs stay."""
    return text if text.isascii() and text.isprintable() else _UNPRINTABLE.sub("", text)
