"""What ``xpubuild config`` makes of settings: what holds and why, errors, a new file, the JSON Schema."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from xpubuild.cli.config_json import ConfigCheckDocument, ConfigDocument, ConfigFile, SettingRow
from xpubuild.cli.configuration import (
    PROJECT_FILE,
    PROJECT_OPTIONS,
    SHARED,
    Configuration,
    File,
    Key,
    is_there,
    places,
    read,
    settings,
)
from xpubuild.cli.table import TABLES, Option, key_of, variable_of
from xpubuild.errors import UsageError

_TEXT = {"type": ["string", "integer"]}
_LIST = {"anyOf": [{"type": "string"}, {"type": "array", "items": _TEXT}]}
_JOBS = [{"const": "auto"}, {"type": "integer", "minimum": 1}, {"type": "string", "pattern": "^[1-9]"}]
#: Kind -> its JSON Schema, and how a value is written.
_KINDS: Mapping[str, tuple[dict[str, Any], str]] = {
    "flag": ({"type": "boolean"}, "true"),
    "number": ({"type": "number"}, "1.0"),
    "text": (_TEXT, '"…"'),
    "jobs": ({"anyOf": _JOBS}, '"…"'),
    "path": ({"type": "string"}, '"…"'),
    "place": ({"type": "string"}, '"…"'),
    **dict.fromkeys(("list", "names", "trees"), (_LIST, '["…"]')),
    **dict.fromkeys(("paths", "folders", "stores"), (_LIST, '["/…"]')),
}
_WIDTH = 100
_HEAD = """\
# Configuration of xpubuild. 'xpubuild config' shows what holds, 'xpubuild config check' names errors.
# The site's file, then yours, then the project's beside a recipe, then XPUBUILD_<OPTION>, then options: the
# later wins. In one file the table of a command wins over [options]. Remove the # before a line to set it.
"""
_PLACES = "# Paths may begin with ~ and have $VARIABLES; they are relative to the folder of this file.\n"


def config_document(
    found: Configuration, environ: Mapping[str, str], recipe: str | None, *, everything: bool
) -> ConfigDocument:
    """Return a row for each value of a file or variable, and what it is overridden by."""
    tables = settings()
    rows = [*_of_files(found, environ)]
    for table, options in tables.items():
        if table == (SHARED,) or table in TABLES:
            keys = {(*table, name): _variable((*table, name), tables, environ) for name in options}
            rows += [_row(key, environ[name], "environment", name) for key, name in keys.items() if name]
    if everything:
        known = {row["key"] for row in rows}
        every = [(*table, name) for table, options in tables.items() for name in options]
        own = [key for key in every if not _is_repeated(key) and ".".join(key) not in known]
        rows += [_row(key, None, "nothing") for key in own]
    there = {file.path for file in found.files}
    files: list[ConfigFile] = [
        {"layer": layer, "path": str(path), "exists": path in there}
        for layer, path in places(environ, recipe)
        if path in there or layer != "project"
    ]
    files.sort(key=lambda file: not file["exists"])
    return {"schema": "xpubuild.config/1", "files": files, "settings": rows}


def _is_repeated(key: Key) -> bool:
    """Whether a table of a command repeats an option of the shared table."""
    return (
        key[:-1] not in TABLES and key[0] != SHARED and bool(variable_of(key_of(" ".join(key[:-1]), key[-1])))
    )


def _of_files(found: Configuration, environ: Mapping[str, str]) -> Iterator[SettingRow]:
    tables = settings()
    for number, file in enumerate(found.files):
        for key, value in file.values.items():
            winner = _variable(key, tables, environ)
            for later in found.files[number + 1 :] if not winner else ():
                same = [
                    other
                    for other in later.values
                    if other == key or (_is_repeated(key) and other == (SHARED, key[-1]))
                ]
                winner = winner or next(map(later.place, same), "")
            yield _row(key, value, file.layer, file.place(key), winner)


def _variable(key: Key, tables: Mapping[Key, Mapping[str, Option]], environ: Mapping[str, str]) -> str:
    """Return the variable that is set and decides this."""
    own = () if key[:-1] in TABLES else (variable_of(key_of(" ".join(key[:-1]), key[-1])),)
    variables = (*tables[key[:-1]][key[-1]].variables, *own)
    return next((name for name in variables if name and environ.get(name)), "")


def _row(key: Key, value: Any, layer: Any, source: str = "", overridden_by: str = "") -> SettingRow:
    return {
        "key": ".".join(key), "value": value, "layer": layer, "source": source,
        "overridden_by": overridden_by,
    }  # fmt: skip


def check_document(given: Sequence[Path], environ: Mapping[str, str]) -> ConfigCheckDocument:
    """Return what is wrong in these files, or in those that hold without a recipe."""
    files: list[File] = [
        read("project" if path.name == PROJECT_FILE else "user", path.absolute(), environ) for path in given
    ] or [read(layer, path, environ) for layer, path in places(environ) if is_there(path)]
    problems: list[Any] = [
        {**problem._asdict(), "path": str(problem.path)} for file in files for problem in file.problems
    ]
    return {
        "schema": "xpubuild.config-check/1",
        "status": "error" if problems else "ok",
        "files": [str(file.path) for file in files],
        "problems": problems,
    }


def json_schema() -> dict[str, Any]:
    """Return the schema of a configuration file (draft 2020-12), for editors that know TOML."""
    tables: dict[str, Any] = {}
    for key, options in settings().items():
        here = tables
        for part in key[:-1]:
            here = here.setdefault(part, _table({}))["properties"]
        here.setdefault(key[-1], _table({}))["properties"].update(
            {name: _one(row) for name, row in options.items()}
        )
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "xpubuild configuration"}
    return {**head, **_table(tables)}


def _table(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "additionalProperties": False}


def _one(row: Option) -> dict[str, Any]:
    kind = (
        {"enum": [*row.kind, *(int(item) for item in row.kind if item.isdigit())]}
        if isinstance(row.kind, tuple)
        else _KINDS[row.kind][0]
    )
    return {"description": row.help, **kind, **({"pattern": f"^(?:{row.form[0]})$"} if row.form else {})}


def template(*, project: bool) -> str:
    """Return the text of a new file, in which every setting is a comment; of a project's, what it may set."""
    parts = [_HEAD if project else _HEAD + _PLACES]
    for key, options in settings().items():
        rows = {
            name: row
            for name, row in options.items()
            if not _is_repeated((*key, name))
            and (not project or (key not in TABLES and name in PROJECT_OPTIONS))
        }
        if rows:
            parts.append("\n".join(_lines(key, rows)) + "\n")
    return "\n".join(parts)


def _lines(key: Key, rows: Mapping[str, Option]) -> Iterator[str]:
    # A table without keys changes nothing, so its head is no comment.
    yield f"[{'.'.join(key)}]"
    if key == (SHARED,):
        yield "# For every command that has the option. The table of a command may have all of them too."
    of_kind = key[:-1] == ("jobs",)
    if of_kind:
        yield f"# As in [jobs], for {key[-1]} jobs only."
    for name, row in rows.items():
        if not of_kind:
            yield from textwrap.wrap(row.help, _WIDTH, initial_indent="# ", subsequent_indent="# ")
        choices = row.kind if isinstance(row.kind, tuple) else ()
        example = f'"{choices[0]}"' if choices else _KINDS[str(row.kind)][1]
        yield f"#{name} = {example}" + (f"  # {' | '.join(choices)}" if choices else "")


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
        exists = isinstance(error, FileExistsError)
        raise UsageError(
            f"{path} {'exists' if exists else 'cannot be written'}",
            why="it is not overwritten" if exists else error.strerror or str(error),
            fix="edit it, or write another file with --output FILE",
            commands=("xpubuild config check",) if exists else (),
        ) from error
