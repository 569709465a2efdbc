"""A configuration file in which every setting is a comment."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

from xpubuild.cli.configuration.checking import settings_at
from xpubuild.cli.configuration.model import PROJECT_OPTIONS, SHARED, TABLES, Commands, Key, Setting
from xpubuild.errors import UsageError

_WIDTH = 100
_HEAD = """\
# Configuration of xpubuild. 'xpubuild config' shows what holds, 'xpubuild config check' names errors.
# The site's file, then yours, then the project's beside a recipe, then XPUBUILD_<OPTION>, then options: the
# later wins. In one file the table of a command wins over [options]. Remove the # before a line to set it.
"""
_PLACES = "# Paths may begin with ~ and have $VARIABLES; they are relative to the folder of this file.\n"
_EXAMPLES: dict[str, str] = {
    "flag": "true",
    "number": "1.0",
    "texts": '["…"]',
    "lines": '["…"]',
    "folders": '["/…"]',
}


def template(commands: Commands, *, project: bool) -> str:
    """Return the text of a new file; a project's lists only what a project may set."""
    tables = settings_at(commands)
    parts = [_HEAD if project else _HEAD + _PLACES]
    names = [(SHARED,), *([] if project else [tuple(name.split(".")) for name in TABLES]), *commands]
    for key in dict.fromkeys(names):
        settings = {
            name: setting
            for name, setting in tables[key].items()
            if (not project or name in PROJECT_OPTIONS) and (key == (SHARED,) or not setting.shared)
        }
        if settings:
            parts.append("\n".join(_table(key, settings)) + "\n")
    return "\n".join(parts)


def _table(key: Key, settings: Mapping[str, Setting]) -> Iterator[str]:
    # A table without keys changes nothing, so its head is no comment.
    yield f"[{'.'.join(key)}]"
    if key == (SHARED,):
        yield "# For every command that has the option. The table of a command may have all of them too."
    of_kind = key[:-1] == ("jobs",)
    if of_kind:
        yield f"# As in [jobs], for {key[-1]} jobs only."
    for name, setting in settings.items():
        told_above = of_kind and setting is TABLES["jobs"].get(name)
        yield from (
            ()
            if told_above
            else textwrap.wrap(setting.help, _WIDTH, initial_indent="# ", subsequent_indent="# ")
        )
        example = f'"{setting.choices[0]}"' if setting.choices else _EXAMPLES.get(setting.kind, '"…"')
        told = f"  # {' | '.join(setting.choices)}" if len(setting.choices) > 1 else ""
        yield f"#{name} = {example}{told}"


def write_new(path: Path, text: str) -> None:
    """Write a file that does not exist.

    Raises:
        UsageError: it exists, or its folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        if not path.exists():
            raise UsageError(
                f"{path} cannot be written",
                why=error.strerror or str(error),
                fix="write another file with --output FILE",
            ) from error
        raise UsageError(
            f"{path} exists",
            why="it is not overwritten",
            fix="edit it, or write another file with --output FILE",
            commands=("xpubuild config check",),
        ) from error
