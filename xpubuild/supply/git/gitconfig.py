"""Settings of a repository that was just made, written in one go instead of one git process for each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_VARIABLE = re.compile(r"[A-Za-z][A-Za-z0-9-]*")


def add_settings(git_dir: Path, pairs: Iterable[tuple[str, str]]) -> None:
    """Append ``section.variable`` or ``section.name.variable`` settings to a repository's ``config``.

    For a repository that no other process knows yet: git's lock on the file is not taken.

    Raises:
        ValueError: a key or value that the format cannot hold.
    """
    text = "".join(setting(key, value) for key, value in pairs)
    with (git_dir / "config").open("a", encoding="utf-8", errors="surrogateescape", newline="") as stream:
        stream.write(text)


def setting(key: str, value: str) -> str:
    """Return the lines of one setting for a git configuration file.

    Raises:
        ValueError: a key or value that the format cannot hold.
    """
    section, _, rest = key.partition(".")
    name, _, variable = rest.rpartition(".")
    if not (_VARIABLE.fullmatch(section) and _VARIABLE.fullmatch(variable)):
        raise ValueError(f"'{key}' is not the name of a setting")
    if any(character in text for text in (name, value) for character in "\n\0"):
        raise ValueError(f"'{key}' cannot be set to {value!r}")
    header = f'{section} "{_escaped(name)}"' if name else section
    return f'[{header}]\n\t{variable} = "{_escaped(value)}"\n'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
