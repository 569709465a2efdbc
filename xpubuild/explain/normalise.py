"""Takes from a line what its tool did not write: colours, timestamps, labels of CI systems and launchers."""

from __future__ import annotations

import re
from pathlib import Path

from xpubuild.engine.redact import Redactor
from xpubuild.engine.unprintable import without_unprintable
from xpubuild.safe_yaml import read_yaml

#: Longest text that patterns see, in characters; of longer lines the beginning and the end are kept.
LONGEST = 4096
_KEEP = 2000
# More is looked at: a secret must not be cut in two, half of it would be shown.
_SEEN = _KEEP + 2000
_REDACT = Redactor()

_ESCAPE = re.compile(
    rb"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b\r\n]{0,4096}(?:\x07|\x1b\\)?|[ -/]{0,8}[0-~])"
)

#: What launchers, CI systems and loggers write before a line; all are anchored and bounded.
_PREFIX = re.compile("|".join(read_yaml(Path(__file__).with_name("prefixes.yaml").read_text("utf-8"))))
_MOST_PREFIXES = 4
# What pip draws round the output of a build backend.
_DRAWN = re.compile(r"[ ]{0,12}[\u2502\u2570\u2500\u00d7>]{1,4}[ ]{0,4}")
# Curved, low, reversed, doubled and angled quotes, the acute accent, the backquote, and "; the wide colon.
_QUOTES = dict.fromkeys((0x2018, 0x2019, 0x201A, 0x201B, 0x201C, 0x201D, 0xB4, 0xAB, 0xBB, 0x60, 0x22), "'")
_QUOTES[0xFF1A] = ": "
_BLANKS = re.compile(r"\s{1,4096}")


def without_escapes(data: bytes) -> bytes:
    """Return bytes without colours, window titles and NULs; other bytes stay."""
    if b"\x1b" in data:
        data = _ESCAPE.sub(b"", data)
    return data.replace(b"\0", b"") if b"\0" in data else data


def plain(raw: bytes) -> str:
    """Return one line as its tool wrote it, indented, without secrets, of at most ``LONGEST`` characters."""
    text = (
        _shown(raw)
        if len(raw) <= LONGEST
        else f"{_shown(raw[:_SEEN])[:_KEEP]} ... {_shown(raw[-_SEEN:])[-_KEEP:]}"
    )
    for _ in range(_MOST_PREFIXES):
        found = _PREFIX.match(text)
        if not found:
            break
        text = text[found.end() :]
    return without_unprintable(text).rstrip()


def _shown(raw: bytes) -> str:
    return _REDACT(raw.decode("utf-8", "replace"))


def undrawn(text: str) -> str:
    """Return a line without its indentation and the frame pip draws."""
    found = _DRAWN.match(text)
    return text[found.end() :] if found else text.lstrip()


def canonical(text: str) -> str:
    """Return what signatures are searched in: one kind of quotes, single blanks, no indentation."""
    return _BLANKS.sub(" ", undrawn(text).translate(_QUOTES))
