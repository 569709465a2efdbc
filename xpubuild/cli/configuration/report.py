"""The documents of ``xpubuild config``: what holds and where it comes from, and what is wrong in files."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from xpubuild.cli.configuration.checking import check, settings_at
from xpubuild.cli.configuration.files import site_files, sources, user_file
from xpubuild.cli.configuration.lookup import Configuration
from xpubuild.cli.configuration.model import (
    PROJECT_FILE,
    SHARED,
    Commands,
    Key,
    Problem,
    Setting,
    Source,
)


def config_document(
    found: Configuration, commands: Commands, environ: Mapping[str, str], *, everything: bool
) -> dict[str, Any]:
    """Return ``xpubuild.config/1``: a row for each value, and which one it is overridden by."""
    rows = [*_of_files(found, commands, environ), *_of_environment(commands, environ)]
    if everything:
        set_ = {tuple(row["key"].split(".")) for row in rows}
        tables = settings_at(commands)
        rows += [
            _row((*table, name), None, "nothing")
            for table, settings in tables.items()
            for name, setting in settings.items()
            if (*table, name) not in set_ and (table == (SHARED,) or not setting.shared)
        ]
    return {
        "schema": "xpubuild.config/1",
        "files": [
            {"layer": file.source.layer, "path": str(file.source.path), "exists": True}
            for file in found.files
        ]
        + _missing(found, environ),
        "settings": rows,
    }


def _missing(found: Configuration, environ: Mapping[str, str]) -> list[dict[str, Any]]:
    there = {file.source.path for file in found.files}
    places = [("site", path) for path in site_files(environ)] + [("user", user_file(environ))]
    return [
        {"layer": layer, "path": str(path), "exists": False} for layer, path in places if path not in there
    ]


def _of_files(
    found: Configuration, commands: Commands, environ: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    tables = settings_at(commands)
    for number, file in enumerate(found.files):
        for item in file.items:
            setting = tables[item.key[:-1]][item.key[-1]]
            winner = _variable(item.key[-1], setting, environ) or _later(found, number, item.key, setting)
            place = f"{file.source.path}:{file.line(item.key)}"
            yield _row(item.key, item.value, file.source.layer, place, winner)


def _later(found: Configuration, number: int, key: Key, setting: Setting) -> str:
    """Return the place of a later file that decides this wherever the file of that number would."""
    keys = {key, (SHARED, key[-1])} if setting.shared else {key}
    for later in found.files[number + 1 :]:
        for other in later.items:
            if other.key in keys:
                return f"{later.source.path}:{later.line(other.key)}"
    return ""


def _variable(name: str, setting: Setting, environ: Mapping[str, str]) -> str:
    return next((variable for variable in _variables(name, setting) if environ.get(variable)), "")


def _variables(name: str, setting: Setting) -> Sequence[str]:
    own = ("XPUBUILD_" + name.upper().replace("-", "_"),) if setting.shared else ()
    return (*setting.variables, *own)


def _of_environment(commands: Commands, environ: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for table, settings in settings_at(commands).items():
        for name, setting in settings.items():
            variable = _variable(name, setting, environ)
            if table not in commands and variable:
                yield _row((*table, name), environ[variable], "environment", variable)


def _row(key: Key, value: Any, layer: str, source: str = "", overridden_by: str = "") -> dict[str, Any]:
    return {
        "key": ".".join(key), "value": value, "layer": layer, "source": source,
        "overridden_by": overridden_by,
    }  # fmt: skip


def check_document(files: Sequence[Path], commands: Commands, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return ``xpubuild.config-check/1`` of these files, or of those that hold without a recipe."""
    given = [_source(path.absolute()) for path in files] if files else list(sources(environ, None))
    checked = [check(source, commands, environ) for source in given]
    problems = [problem for item in checked for problem in item.problems]
    return {
        "schema": "xpubuild.config-check/1",
        "status": "error" if problems else "ok",
        "files": [str(source.path) for source in given],
        "problems": [_problem(problem) for problem in problems],
    }


def _source(path: Path) -> Source:
    return Source("project" if path.name == PROJECT_FILE else "user", path)


def _problem(problem: Problem) -> dict[str, Any]:
    return {**dataclasses.asdict(problem), "path": str(problem.path)}
