"""Environment assignments as shell text that can be evaluated, quoted exactly.

Bytes that are not UTF-8 are carried as surrogates: write the text with ``errors="surrogateescape"``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# fish of every version splits these, and only these, into lists at colons.
_FISH_LISTS = frozenset({"PATH", "MANPATH", "CDPATH"})


def bash_lines(assignments: Mapping[str, str | None]) -> str:
    """Return one ``export`` or ``unset`` per variable, for bash, zsh and other Bourne shells.

    Raises:
        ValueError: a name is invalid in a shell, or a value has a NUL; as in the other two functions.
    """
    return _lines(assignments, "unset {}\n", lambda name, value: f"export {name}={_quote(value)}\n")


def fish_lines(assignments: Mapping[str, str | None]) -> str:
    """Return one ``set -gx`` or ``set -e`` per variable, for fish."""

    def line(name: str, value: str) -> str:
        # Between single quotes fish knows two escapes: of the backslash and of the quote.
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        parts = escaped.split(":") if name in _FISH_LISTS else [escaped]
        return f"set -gx {name} " + " ".join(f"'{part}'" for part in parts) + "\n"

    return _lines(assignments, "set -e {}\n", line)


def csh_lines(assignments: Mapping[str, str | None]) -> str:
    """Return one ``setenv`` or ``unsetenv`` per variable, for csh and tcsh.

    Each ends with a semicolon: csh joins the lines of a command substitution.
    """

    def line(name: str, value: str) -> str:
        # Between single quotes csh still expands '!' and ends at a line's end; a backslash keeps both.
        quoted = value.replace("'", "'\\''").replace("!", "\\!").replace("\n", "\\\n")
        return f"setenv {name} '{quoted}';\n"

    return _lines(assignments, "unsetenv {};\n", line)


def _lines(assignments: Mapping[str, str | None], unset: str, line: Callable[[str, str], str]) -> str:
    for name, value in assignments.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"'{name}' cannot be a shell variable")
        if value is not None and "\0" in value:
            raise ValueError(f"the value of {name} has a NUL character")
    ordered = sorted(assignments.items())
    return "".join(unset.format(name) if value is None else line(name, value) for name, value in ordered)


def _quote(text: str) -> str:
    # shlex.quote leaves '=' unquoted, which zsh expands at the beginning of a value: =ls is the path of ls.
    quoted = shlex.quote(text)
    return f"'{text}'" if quoted == text and "=" in text else quoted
