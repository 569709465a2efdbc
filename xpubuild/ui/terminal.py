"""What a stream can show (a live picture, colour, non-ASCII characters), and text that is safe to write to
it."""

from __future__ import annotations

import errno
import os
import re
import shutil
import textwrap
from collections.abc import Mapping
from typing import TextIO

from xpubuild.engine.unprintable import without_unprintable
from xpubuild.frozen import frozen

_FALSE = frozenset({"", "0", "false", "no"})
# CSI, OSC and two-character escape sequences, as ECMA-48 defines them.
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
#: Nobody reads any more: the pipe was closed (| head), the terminal or its connection is gone.
READER_GONE = frozenset({errno.EPIPE, errno.EIO, errno.ENXIO, errno.ECONNRESET, errno.ENOTCONN})
# The kernel's own console has no glyphs for spinners and marks.
_POOR_TERMINALS = frozenset({"linux", "vt100", "vt220", "ansi"})
_FALLBACK_SIZE = (80, 24)
_SGR = {"red": "31", "green": "32", "yellow": "33", "cyan": "36", "bold": "1", "dim": "2"}


def flag(env: Mapping[str, str], name: str) -> bool:
    """Whether a variable such as CI or FORCE_COLOR is set to something that means yes."""
    return env.get(name, "").strip().lower() not in _FALSE


def clean(text: str) -> str:
    """Return text of a foreign program without escape sequences and control characters.

    Newlines are kept, carriage returns become newlines, tabs four spaces.
    """
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    return without_unprintable(text.replace("\t", "    ").replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str) -> str:
    """Return ``text`` cleaned, its lines joined by spaces."""
    return " ".join(clean(text).split("\n"))


def escape_data(text: str) -> str:
    """Escape the message of a workflow command (percent first, or the others would be escaped twice)."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """Escape a property such as ``title``, where colon and comma separate."""
    return escape_data(text).replace(":", "%3A").replace(",", "%2C")


def harmless(text: str) -> str:
    """Return foreign output in a form the runner does not take for a command of the old style, ``##[name]``.

    Commands of the new style count at the start of a line only, where this sink puts the time.
    """
    return text.replace("##[", "## [")


def annotation(kind: str, message: str, title: str = "") -> str:
    """Return the workflow command that makes an annotation; ``kind`` is error, warning or notice."""
    head = f"{kind} title={escape_property(clean(title))}" if title else kind
    return f"::{head}::{escape_data(clean(message))}\n"


def fold(title: str, body: str) -> str:
    """Return the workflow commands that fold lines under a title; no line of ``body`` may be one."""
    return f"::group::{escape_data(one_line(title))}\n{body}::endgroup::\n"


def is_gone(stream: TextIO) -> bool:
    """Whether nobody can read what is written to the stream any more."""
    try:
        stream.flush()
        # Python dropped what it could not write; a terminal that is gone refuses nothing at all, too.
        os.write(stream.fileno(), b"")
    except OSError as error:
        return error.errno in READER_GONE
    except ValueError:  # closed, or a stream in memory
        return False
    return False


def disconnect(stream: TextIO) -> None:
    """Point a stream whose reader is gone at the null device.

    What Python still holds in its buffer would fail again when the interpreter ends, and turn a good
    exit status into 120.
    """
    try:
        target = stream.fileno()
    except (OSError, ValueError, AttributeError):
        return
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, target)
    finally:
        os.close(null)


@frozen
class Terminal:
    """A stream and what may be written to it.

    ``live`` allows moving the cursor, ``color`` allows colours, ``unicode`` non-ASCII characters.
    """

    stream: TextIO
    live: bool
    color: bool
    unicode: bool

    @classmethod
    def detect(cls, stream: TextIO, env: Mapping[str, str]) -> Terminal:
        """Look at the stream and at NO_COLOR, FORCE_COLOR, CI, TERM and the locale variables.

        NO_COLOR (any value) wins over FORCE_COLOR; TERM=dumb forbids both colour and a live picture.
        """
        terminal = not stream.closed and stream.isatty()
        dumb = env.get("TERM", "") in ("dumb", "unknown")
        # A terminal without TERM is one we know nothing about.
        able = terminal and not dumb and "TERM" in env
        color = not env.get("NO_COLOR") and not dumb and (able or flag(env, "FORCE_COLOR"))
        return cls(stream, able, color, _speaks_unicode(stream, env))

    def size(self) -> tuple[int, int]:
        """Return columns and rows as they are now; 80 x 24 where the stream does not know."""
        try:
            columns, rows = os.get_terminal_size(self.stream.fileno())
        except (OSError, ValueError):
            return shutil.get_terminal_size(_FALLBACK_SIZE) if self.live else _FALLBACK_SIZE
        return columns or _FALLBACK_SIZE[0], rows or _FALLBACK_SIZE[1]

    def printable(self, text: str) -> str:
        """Return ``text`` with what the stream's encoding cannot carry written as backslash escapes."""
        # In a file or pipe the encoding is all that counts; a terminal also has to know the characters.
        known = self.unicode or not self.live
        encoding = _encoding(self.stream) if known else "ascii"
        return text.encode(encoding, "backslashreplace").decode(encoding)

    def paint(self, text: str, *styles: str) -> str:
        """Return ``text`` in the named styles (the keys of ``_SGR``) where colour is wanted."""
        if not self.color or not styles or not text:
            return text
        return f"\x1b[{';'.join(_SGR[style] for style in styles)}m{text}\x1b[0m"

    def write(self, text: str) -> None:
        """Write and flush ``text``, whatever characters it holds."""
        self.stream.write(self.printable(text))
        self.stream.flush()

    def try_write(self, text: str) -> bool:
        """Write ``text`` and return True, or return False where nobody can read it any more."""
        if self.stream.closed:
            return False
        try:
            self.write(text)
        except OSError:
            disconnect(self.stream)
            return False
        return True


def _encoding(stream: TextIO) -> str:
    # A stream in memory holds text, not bytes, and names no encoding.
    return getattr(stream, "encoding", None) or "utf-8"


def _speaks_unicode(stream: TextIO, env: Mapping[str, str]) -> bool:
    if _encoding(stream).lower().replace("_", "-") not in ("utf-8", "utf8", "utf-8-sig"):
        return False
    if env.get("TERM") in _POOR_TERMINALS:
        return False
    # Python writes UTF-8 under LC_ALL=C too, but the terminal was declared to know ASCII only.
    locale = next((env[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if env.get(name)), "")
    return not locale or "utf-8" in locale.lower() or "utf8" in locale.lower()


def paragraph(terminal: Terminal, head: str, text: str, *styles: str, indent: int | None = None) -> list[str]:
    """Return text behind a head that is painted, further lines indented, by the width of the head by default.

    A terminal gets lines that fit into it, of whole words: paths, options and commands are not broken.
    """
    head, gap = one_line(head), " " * (len(head) if indent is None else indent)
    width = min(max(terminal.size()[0] - 1, 40), 100)
    lines: list[str] = []
    for part in clean(text).strip("\n").split("\n"):
        begin = gap if lines else head
        wrapped = textwrap.wrap(
            part, width, initial_indent=begin, subsequent_indent=gap,
            break_long_words=False, break_on_hyphens=False,
        ) if terminal.live else []  # fmt: skip
        lines += wrapped or [begin + part]
    return [terminal.paint(head, *styles) + lines[0][len(head) :], *lines[1:]]
