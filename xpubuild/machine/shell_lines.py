"""Environment assignments as shell text that can be evaluated, quoted exactly.

Bytes that are not UTF-8 are carried as surrogates: write the text with ``errors="surrogateescape"``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# fish of every version splits these, and only these, into lists at colons.
_FISH_LISTS = frozenset({"PATH", "MANPATH", "CDPATH"})


def _check(name: str, value: str | None) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"'{name}' cannot be a shell variable")
    if value is not None and "\0" in value:
        raise ValueError(f"the value of {name} has a NUL character")


def bash_lines(assignments: Mapping[str, str | None]) -> str:
    """Return one ``export`` or ``unset`` per variable, for bash, zsh and other Bourne shells.

    Raises:
        ValueError: a name that a shell does not take, or a NUL in a value.
    """
    lines = []
    for name, value in sorted(assignments.items()):
        _check(name, value)
        lines.append(f"unset {name}" if value is None else f"export {name}={_quote(value)}")
    return "".join(line + "\n" for line in lines)


def _quote(text: str) -> str:
    # shlex.quote leaves '=' bare, which zsh expands at the beginning of a value: =ls is the path of ls.
    quoted = shlex.quote(text)
    return f"'{text}'" if quoted == text and "=" in text else quoted


def _fish_quote(text: str) -> str:
    # Between single quotes fish knows two escapes: of the backslash and of the quote.
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish_lines(assignments: Mapping[str, str | None]) -> str:
    """Return one ``set -gx`` or ``set -e`` per variable, for fish.

    Raises:
        ValueError: a name that a shell does not take, or a NUL in a value.
    """
    lines = []
    for name, value in sorted(assignments.items()):
        _check(name, value)
        if value is None:
            lines.append(f"set -e {name}")
        else:
            parts = value.split(":") if name in _FISH_LISTS else [value]
            lines.append(f"set -gx {name} " + " ".join(map(_fish_quote, parts)))
    return "".join(line + "\n" for line in lines)


def _csh_quote(text: str) -> str:
    # Between single quotes csh still expands '!' and ends at a line's end; a backslash keeps both.
    quoted = text.replace("'", "'\\''").replace("!", "\\!").replace("\n", "\\\n")
    return f"'{quoted}'"


def csh_lines(assignments: Mapping[str, str | None]) -> str:
    """Return one ``setenv`` or ``unsetenv`` per variable, for csh and tcsh.

    Each ends with a semicolon: csh joins the lines of a command substitution.

    Raises:
        ValueError: a name that a shell does not take, or a NUL in a value.
    """
    lines = []
    for name, value in sorted(assignments.items()):
        _check(name, value)
        told = f"unsetenv {name}" if value is None else f"setenv {name} {_csh_quote(value)}"
        lines.append(told + ";\n")
    return "".join(lines)
