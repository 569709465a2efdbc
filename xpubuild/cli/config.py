"""``xpubuild config``: what holds and why, a new file, completion; the schema of files."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import click
from click.shell_completion import get_completion_class
from typing_extensions import TypedDict

from xpubuild.cli import configuration, options
from xpubuild.cli.configuration import PROJECT_FILE, SHARED, Configuration, Key, places, settings
from xpubuild.cli.table import TABLES, Option, key_of, variable_of
from xpubuild.engine.redact import Redactor
from xpubuild.errors import UsageError
from xpubuild.ui.console import print_json, write_out
from xpubuild.ui.views import config_view, config_written_view


class ConfigFile(TypedDict):
    """A place of a configuration file."""

    layer: Literal["site", "user", "project"]
    path: str
    exists: bool


class SettingRow(TypedDict):
    """A setting that something sets."""

    key: str
    """Table and name, such as options.jobs."""
    value: Any
    """As the option takes it; null with --all where nothing sets it."""
    layer: Literal["site", "user", "project", "environment", "nothing"]
    source: str
    """File and line, or the variable."""
    overridden_by: str
    """File and line, or the variable, that is used instead; empty if this value is used."""


class ConfigDocument(TypedDict):
    """What configuration files and the environment set."""

    schema: Literal["xpubuild.config/1"]
    """Name and version."""
    files: list[ConfigFile]
    settings: list[SettingRow]


class ConfigInitDocument(TypedDict):
    """The file that was written."""

    schema: Literal["xpubuild.config-init/1"]
    """Name and version."""
    file: str


class CompletionDocument(TypedDict):
    """What completes command lines in a shell."""

    schema: Literal["xpubuild.completion/1"]
    """Name and version."""
    shell: Literal["bash", "zsh", "fish"]
    script: str


Tables = Mapping[Key, Mapping[str, Option]]
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
# Configuration of xpubuild. 'xpubuild config' shows what holds, or names errors.
# The site's file, then yours, then the project's beside a recipe, then XPUBUILD_<OPTION>, then options: the
# later wins. In one file the table of a command wins over [options]. Remove the # before a line to set it.
"""
_PLACES = "# Paths may begin with ~ and have $VARIABLES; they are relative to the folder of this file.\n"


def config_document(
    found: Configuration, environ: Mapping[str, str], recipe: str | None, *, everything: bool
) -> ConfigDocument:
    """Return a row for each value of a file or variable, and what it is overridden by."""
    tables = settings()
    rows = [*_of_files(found, tables, environ)]
    every = [(*table, name) for table, named in tables.items() for name in named]
    rows += [
        _row(key, environ[name], "environment", name)
        for key in every
        if (key[:-1] == (SHARED,) or key[:-1] in TABLES) and (name := _variable(key, tables, environ))
    ]
    known = {row["key"] for row in rows}
    unset = [key for key in every if not _is_repeated(key) and ".".join(key) not in known]
    rows += [_row(key, None, "nothing") for key in unset if everything]
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
    own = key[:-1] not in TABLES and key[0] != SHARED
    return own and bool(variable_of(key_of(" ".join(key[:-1]), key[-1])))


def _of_files(found: Configuration, tables: Tables, environ: Mapping[str, str]) -> Iterator[SettingRow]:
    for number, file in enumerate(found.files):
        for key, value in file.values.items():
            same = (key, (SHARED, key[-1])) if _is_repeated(key) else (key,)
            later = (
                one.place(other) for one in found.files[number + 1 :] for other in same if other in one.values
            )
            winner = _variable(key, tables, environ) or next(later, "")
            yield _row(key, value, file.layer, file.place(key), winner)


def _variable(key: Key, tables: Tables, environ: Mapping[str, str]) -> str:
    """Return the variable that is set and decides this."""
    own = () if key[:-1] in TABLES else (variable_of(key_of(" ".join(key[:-1]), key[-1])),)
    variables = (*tables[key[:-1]][key[-1]].variables, *own)
    return next((name for name in variables if name and configuration.is_given(environ, name)), "")


def _row(key: Key, value: Any, layer: Any, source: str = "", overridden_by: str = "") -> SettingRow:
    name = ".".join(key)
    return {"key": name, "value": value, "layer": layer, "source": source, "overridden_by": overridden_by}


def json_schema() -> dict[str, Any]:
    """Return the schema of a configuration file (draft 2020-12), for editors that know TOML."""
    tables: dict[str, Any] = {}
    for key, named in settings().items():
        here = tables
        for part in key[:-1]:
            here = here.setdefault(part, _table({}))["properties"]
        here.setdefault(key[-1], _table({}))["properties"].update(
            {name: _one(row) for name, row in named.items()}
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
    for key, named in settings().items():
        rows = {
            name: row
            for name, row in named.items()
            if not _is_repeated((*key, name))
            and (not project or (key not in TABLES and name in configuration.PROJECT_OPTIONS))
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
            commands=("xpubuild config",) if exists else (),
        ) from error


def _config(recipe: str | None, all_: bool) -> int:
    """Show each setting in files and the environment, with its value and where it comes from.

    Files, the later one wins: the site's (xpubuild/config.toml in XDG_CONFIG_DIRS), yours (in
    XDG_CONFIG_HOME), the project's (xpubuild.toml beside a recipe). The environment (XPUBUILD_<OPTION>) and
    options win over all of them. Where a file has errors, they are all named, and the exit code is 20.
    """
    if click.get_current_context().invoked_subcommand is not None:
        return 0
    files = configuration.load(os.environ, recipe, sys.maxsize)
    found = config_document(files, os.environ, recipe, everything=all_)
    return options.answer(Redactor.from_environment(os.environ).tree(found), config_view)


config = options.group("config", _config, invoke_without_command=True)


@options.command("config init", parent=config)
def init(output: Path | None) -> int:
    """Write a configuration file that lists every setting as a comment, and changes nothing by itself."""
    path = output or configuration.user_file(os.environ)
    write_new(path, template(project=path.name == PROJECT_FILE))
    return options.answer({"schema": "xpubuild.config-init/1", "file": str(path)}, config_written_view)


@options.command("config completion", parent=config)
def completion(shell: str) -> int:
    """Print a script that completes commands, options, recipes, workspaces and checks in SHELL.

    \b
    bash: eval "$(xpubuild config completion bash)"                 in ~/.bashrc
    zsh:  eval "$(xpubuild config completion zsh)"                  in ~/.zshrc, after compinit
    fish: xpubuild config completion fish > ~/.config/fish/completions/xpubuild.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - click has all three
    maker = kind(click.get_current_context().find_root().command, {}, "xpubuild", "_XPUBUILD_COMPLETE")
    text = maker.source_template % maker.source_vars() + "\n"
    if options.speech().as_json:
        print_json({"schema": "xpubuild.completion/1", "shell": shell, "script": text})
    else:
        write_out(text)
    return 0
