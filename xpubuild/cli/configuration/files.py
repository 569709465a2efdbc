"""Where configuration files are, and what is in them as TOML."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from xpubuild.cli.configuration.model import PROJECT_FILE, Problem, Source
from xpubuild.untrusted import UntrustedError, read_bytes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FILE = "xpubuild/config.toml"
_MOST_BYTES = 256 << 10


def user_file(environ: Mapping[str, str]) -> Path:
    """Return the place of the user's file, by XDG_CONFIG_HOME."""
    given = environ.get("XDG_CONFIG_HOME", "")
    home = environ.get("HOME") or "~"
    return (Path(given) if given.startswith("/") else Path(home).expanduser() / ".config") / _FILE


def site_files(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the places of the site's files by XDG_CONFIG_DIRS, that which wins last."""
    folders = environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    return tuple(Path(item) / _FILE for item in reversed(folders.split(os.pathsep)) if item.startswith("/"))


def is_file_of_recipe(recipe: str | None) -> bool:
    """Whether a recipe is given as a file: only then there may be a project's file beside it."""
    return recipe is not None and (os.sep in recipe or recipe.endswith((".yaml", ".yml")))


def sources(environ: Mapping[str, str], recipe: str | None) -> Iterator[Source]:
    """Yield the files that exist, that which wins last."""
    for path in site_files(environ):
        if _is_there(path):
            yield Source("site", path)
    if _is_there(path := user_file(environ)):
        yield Source("user", path)
    if recipe is not None and is_file_of_recipe(recipe):
        path = Path(recipe).expanduser().absolute().parent / PROJECT_FILE
        if _is_there(path):
            yield Source("project", path)


def _is_there(path: Path) -> bool:
    """Whether there is a file for this user; in a folder that it may not enter (another's home) is none."""
    try:
        return path.is_file()
    except OSError:
        return False


def read(source: Source) -> tuple[dict[str, Any], str, tuple[Problem, ...]]:
    """Return the document of a file, its text, and why it cannot be read."""
    path = source.path
    try:
        text = read_bytes(path, _MOST_BYTES).decode("utf-8")
        if source.layer != "project" and stat.S_IMODE(path.stat().st_mode) & stat.S_IWOTH:
            told = "everybody can write to it, so it may not decide whom to trust"
            return {}, text, (Problem(path, 0, "", "", told, f"run: chmod o-w {path}"),)
        return tomllib.loads(text), text, ()
    except tomllib.TOMLDecodeError as error:
        told, line = _place(str(error))
        return {}, text, (Problem(path, line, "", "", f"not valid TOML: {told}", "correct this line"),)
    except (OSError, UnicodeDecodeError, UntrustedError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        return {}, "", (Problem(path, 0, "", "", f"cannot be read: {why}", "check the file"),)


def _place(message: str) -> tuple[str, int]:
    """Split 'Invalid value (at line 3, column 5)'."""
    told, _, place = message.partition(" (at ")
    words = place.replace(",", " ").split()
    number = words[1] if words[:1] == ["line"] else ""
    return told, int(number) if number.isdigit() else 0


def line_of(text: str, key: tuple[str, ...]) -> int:
    """Return the line, counted from 1, on which a key of a valid file stands; 0 where it is not found.

    It is behind the longest beginning of the file that can be read and does not have the key: beginnings
    that end inside a value cannot be read, and are passed over.
    """
    lines = text.splitlines(keepends=True)
    without = 0
    for count in range(1, len(lines) + 1):
        try:
            document = tomllib.loads("".join(lines[:count]))
        except tomllib.TOMLDecodeError:
            continue
        if _has(document, key):
            return without + 1
        without = count
    return 0


def _has(document: Mapping[str, Any], key: tuple[str, ...]) -> bool:
    here: Any = document
    for part in key:
        if not isinstance(here, Mapping) or part not in here:
            return False
        here = here[part]
    return True
