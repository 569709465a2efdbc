"""Holds a document against what there is to set: each error with file, line, value and what was meant."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from xpubuild.cli.configuration.files import line_of, read
from xpubuild.cli.configuration.model import (
    NEVER,
    PROJECT_OPTIONS,
    SHARED,
    TABLES,
    Commands,
    Item,
    Key,
    Problem,
    Setting,
    Source,
)
from xpubuild.cli.configuration.values import WrongValueError, converted
from xpubuild.errors import RecipeError, did_you_mean
from xpubuild.frozen import frozen

_MOST_TOLD = 5
#: The login of a URL: a mistyped line about a proxy is shown, its password is not.
_LOGIN = re.compile(r"//[^/@\s]+@")


@frozen
class Checked:
    """What a file sets, and what is wrong with it; lines of values are found with ``line``."""

    source: Source
    text: str
    items: tuple[Item, ...]
    problems: tuple[Problem, ...]

    def line(self, key: Key) -> int:
        """Return the line on which a key stands."""
        return line_of(self.text, key)


@frozen
class _Wrong:
    key: Key
    value: Any
    what: str
    fix: str


def settings_at(commands: Commands) -> dict[Key, Mapping[str, Setting]]:
    """Return table -> its settings: the shared one, those of the commands, those that belong to none."""
    # Commands say differently what an option does for them; what it does for install is said here.
    ordered = sorted(commands.items(), key=lambda item: item[0] == ("install",))
    shared = {name: setting for _, of in ordered for name, setting in of.items() if setting.shared}
    own: Commands = {tuple(name.split(".")): settings for name, settings in TABLES.items()}
    return {(SHARED,): shared, **commands, **own}


def check(source: Source, commands: Commands, environ: Mapping[str, str]) -> Checked:
    """Read a file and check all of it."""
    document, text, problems = read(source)
    tables = settings_at(commands)
    found = list(_walk(document, (), tables, source, environ))
    items = tuple(item for item in found if isinstance(item, Item))
    wrong = (item for item in found if isinstance(item, _Wrong))
    told = (_problem(item, source, text) for item in wrong)
    return Checked(source, text, items, (*problems, *told))


def _problem(item: _Wrong, source: Source, text: str) -> Problem:
    line = line_of(text, item.key)
    return Problem(source.path, line, ".".join(item.key), _shown(item.value), item.what, item.fix)


def failure(checked: Checked) -> RecipeError | None:
    """Return the error of a file with problems."""
    problems = checked.problems
    if not problems:
        return None
    more = f" (and {len(problems) - _MOST_TOLD} more)" if len(problems) > _MOST_TOLD else ""
    return RecipeError(
        f"the configuration {checked.source.path} has {len(problems)} "
        + ("error" if len(problems) == 1 else "errors"),
        why="; ".join(problem.told() for problem in problems[:_MOST_TOLD]) + more,
        fix=problems[0].fix if len(problems) == 1 else "correct these lines",
        commands=("xpubuild config check",),
        evidence={"problems": [problem.told() for problem in problems]},
    )


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return _LOGIN.sub("//***@", f'"{value}"' if isinstance(value, str) else str(value))


def _walk(
    table: Mapping[str, Any], at: Key, tables: Mapping[Key, Mapping[str, Setting]], source: Source,
    environ: Mapping[str, str],
) -> Iterator[Item | _Wrong]:  # fmt: skip
    settings = tables.get(at, {})
    below = {path[len(at)] for path in tables if len(path) > len(at) and path[: len(at)] == at}
    for name, value in table.items():
        key = (*at, name)
        if name in settings:
            yield _item(key, value, settings[name], source, environ)
        elif name in below and isinstance(value, Mapping):
            yield from _walk(value, key, tables, source, environ)
        else:
            yield _unknown(key, value, settings, below, tables)


def _item(
    key: Key, value: Any, setting: Setting, source: Source, environ: Mapping[str, str]
) -> Item | _Wrong:
    if source.layer == "project" and (refused := _of_strangers(key, value)):
        return _Wrong(key, value, refused, "set it in your own configuration, or as an option")
    try:
        return Item(key, converted(setting, value, source.path.parent, environ), source)
    except WrongValueError as error:
        return _Wrong(key, value, str(error), "correct this value")


def _of_strangers(key: Key, value: Any) -> str:
    """Return why a project's file may not set this; its author is not always the one who builds."""
    if key[0] in TABLES or key[-1] not in PROJECT_OPTIONS:
        return "a file beside a recipe may not set it, because it may be a stranger's"
    if key[-1] == "python" and os.sep in str(value):
        return "a file beside a recipe may name an interpreter of PATH, such as python3.12, but no path"
    return ""


def _unknown(
    key: Key, value: Any, settings: Mapping[str, Setting], below: set[str],
    tables: Mapping[Key, Mapping[str, Setting]],
) -> _Wrong:  # fmt: skip
    name = key[-1]
    if name in below:
        return _Wrong(key, value, "must be a table", f"write [{'.'.join(key)}], and its keys below")
    if name in NEVER:
        what = "is given when a command is called, not in a file"
        return _Wrong(key, value, what, f"remove it, and pass --{name} where it is meant")
    meant = did_you_mean(name, (*settings, *below))
    if not meant and len(key) == 1 and name in tables[SHARED,]:
        meant = f"; did you mean '{name}' under [{SHARED}]?"
    known = "a table" if isinstance(value, Mapping) else "a key"
    where = f"[{'.'.join(key[:-1])}]" if len(key) > 1 else "the configuration"
    return _Wrong(key, value, f"is not {known} of {where}{meant}", "'xpubuild config init' lists all")
