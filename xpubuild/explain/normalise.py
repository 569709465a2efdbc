"""Takes from a line what its tool did not write: colours, timestamps, labels of CI systems and launchers."""

from __future__ import annotations

import re

from xpubuild.engine.redact import Redactor
from xpubuild.engine.unprintable import without_unprintable

#: Longest text that patterns see, in characters; of longer lines the beginning and the end are kept.
LONGEST = 4096
_KEEP = 2000
# More is looked at: a secret must not be cut in two, half of it would be shown.
_SEEN = _KEEP + 2000
_REDACT = Redactor()

_ESCAPE = re.compile(
    rb"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b\r\n]{0,4096}(?:\x07|\x1b\\)?|[ -/]{0,8}[0-~])"
)

# Each alternative names who writes it. All are anchored and bounded.
_PREFIX = re.compile(
    r"""
    \ufeff
    | [^\t]{1,100}\t[^\t]{1,100}\t(?=\ufeff?\d{4}-\d\d-\d\dT)            # gh run view --log
    | \d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|\ ?[+-]\d\d:?\d\d)?
      (?:\ \d\d[OE]\+?|\ std(?:out|err)\ [FP]|:|\ [-|](?=\ ))?[ \t]?    # GitHub, GitLab, kubernetes, logging
    | \[\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^\]]{0,12}\]:?[ ]?             # Jenkins
    | \[?\d\d:\d\d:\d\d(?:[.,]\d{1,6})?\]?:?[ ]                          # Jenkins, ts
    | \[[ ]{0,8}\d{1,8}\.\d{3,9}\]:?[ ]                                  # the kernel, meson
    | (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[ ]{1,2}\d{1,2}[ ]\d\d:\d\d:\d\d[ ]
      (?:[\w.-]{1,64}[ ](?:kernel|[\w./@-]{1,64}\[\d{1,8}\]):[ ])?             # syslog, ts
    | \#\d{1,5}[ ]\d{1,6}\.\d{1,4}[ ]                                    # docker build
    | \d{1,6}\.\d{2,4}[ ](?=[A-Za-z\[(/'])                               # its summary of an error
    | Step[ ]\#\d{1,4}(?:[ ]-[ ]'[^']{1,60}')?:[ ]                            # Cloud Build
    | \[(?!(?i:error|fatal)\]|(?:ext_oneapi_)?(?:opencl|level_zero|cuda|host)\b)   # labels: [build]
      [A-Za-z][\w./:-]{0,40}\]:?[ ]
    | [\w.-]{1,40}[ ]{1,20}\|[ ]                                         # docker compose, foreman
    | \[\d{1,6}(?:,\d{1,6})?\](?:<std(?:out|err)>:|:?[ ])                  # mpirun
    | \d{1,6}:[ ]                                                        # srun --label
    | \((?:[\w.:-]{1,60}[ ])?pid=\d{1,8}[^)]{0,60}\)[ ]                  # ray
    | [A-Za-z][\w.+-]{2,60}>[ ]                                          # nix
    | \#\#\[[a-z]{1,12}\]                                                # GitHub commands
    | ::error(?:[ ][^:]{0,200})?::
    | E[ ]{3}(?=[ ]{0,8}\w)                                              # pytest
    | [ ]{2}>>[ ]\d{1,8}[ ]{4}                                           # spack
    | (?:INFO|DEBUG|WARNING)(?::[\w.]{1,60})?:[ ]                        # logging
    | ERROR[ ]\d\d-\d\d[ ]\d\d:\d\d:\d\d[ ]\[[^\]]{1,80}\][ ]{0,8}          # vLLM
    """,
    re.VERBOSE,
)
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
