"""Configuration files of sites, users and projects: TOML, checked against the table of options.

The later file wins: the site's, the user's, the project's beside a recipe. In one file the table of a command
wins over [options]. click gets the result as a command's defaults; what belongs to none becomes variables.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Collection, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from xpubuild.cli.commands import COMMANDS, sections
from xpubuild.cli.table import DEEDS, OPTIONS, TABLES, Option, key_of, variable_of
from xpubuild.errors import RecipeError, did_you_mean
from xpubuild.untrusted import UntrustedError, read_bytes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Layer = Literal["site", "user", "project"]
#: A value as options take it, and the place of one: ("install", "jobs"), ("recipes", "check", "tree").
Value = str | bool | float | list[str]
Key = tuple[str, ...]

#: The table of options for every command that has them; the name of a project's file.
SHARED, PROJECT_FILE = "options", "xpubuild.toml"
#: The options that a project may set: what is built and how it is shown. Its file may be a stranger's, so it
#: names no place to take programs, packages or sources from, and loosens no check.
_PROJECT = (
    "with without packages cxx11-abi target variant arch jobs editable oneapi-mode python until profile suite"
    " device for-python quiet verbose log-format format"
)
PROJECT_OPTIONS = frozenset(_PROJECT.split())
#: Commands that show or do a part of what install does have its settings too, below their own.
_LIKE: Mapping[str, Key] = {"plan": ("install",), "rehearse": ("install",)}
_FILE, _MOST_BYTES, _MOST_TOLD = "xpubuild/config.toml", 256 << 10, 5
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
#: The login of a URL: a mistyped line about a proxy is shown, its password is not.
_LOGIN = re.compile(r"//[^/@\s]+@")
#: Variables that files have set in this process: a command that is run for a user does not get them.
_applied: set[str] = set()


class Problem(NamedTuple):
    """Something wrong in a file; ``line`` counts from 1, 0 where the file as a whole is meant."""

    path: Path
    line: int
    key: str
    value: str
    what: str
    fix: str

    def text(self) -> str:
        """Return it on one line, as compilers do."""
        place = f"{self.path}:{self.line}" if self.line else str(self.path)
        about = f"{self.key} = {self.value}: " if self.value else f"{self.key}: " if self.key else ""
        return f"{place}: {about}{self.what}"


class File(NamedTuple):
    """A configuration file: whose it is, what it sets, and what is wrong with it."""

    layer: Layer
    path: Path
    text: str
    values: Mapping[Key, Value]
    problems: tuple[Problem, ...]

    def place(self, key: Key) -> str:
        """Return FILE:LINE of a key."""
        return f"{self.path}:{line_of(self.text, key)}"


class Configuration(NamedTuple):
    """The files that hold for one command line, that which wins last."""

    files: tuple[File, ...]

    def merged(self, *tables: Key, own: Collection[str] = ()) -> dict[str, Value]:
        """Return name -> value of tables: in one file the later table wins, and the later file over all.

        The names in ``own`` mean something else in the table for all commands.
        """
        return {
            key[-1]: value
            for file in self.files
            for table in tables
            for key, value in file.values.items()
            if key[:-1] == table and not (table == (SHARED,) and key[-1] in own)
        }

    def defaults(self, command: str, environ: Mapping[str, str]) -> dict[str, Value]:
        """Return what click takes for the options of a command that are given nowhere else."""
        own = {name for name in _settings(command) if not variable_of(key_of(command, name))}
        like = [_LIKE[command]] if command in _LIKE else []
        found = self.merged((SHARED,), *like, tuple(command.split()), own=own)
        if environ.get("XPUBUILD_ENTERED"):
            # In a shell that entered a workspace, that one is meant.
            found = {name: value for name, value in found.items() if name not in ("recipe", "workspace")}
        return {
            row.to or name.replace("-", "_"): found[name]
            for name, row in _settings(command).items()
            if name in found and not is_given(environ, variable_of(key_of(command, name)) or "")
        }

    def layer(self, command: str, name: str) -> Layer | None:
        """Return whose file sets an option of a command; None where none does."""
        tables = ((SHARED,), tuple(command.split()))
        found = [file.layer for file in self.files for table in tables if (*table, name) in file.values]
        return found[-1] if found else None

    def apply(self, environ: MutableMapping[str, str]) -> None:
        """Set the variables that settings stand for, where the environment does not say otherwise."""
        for table, rows in TABLES.items():
            found = self.merged(table)
            for name, row in rows.items():
                is_set = any(is_given(environ, variable) for variable in row.variables)
                if name in found and row.variables and not is_set:
                    value = found[name]
                    environ[row.variables[0]] = ",".join(value) if isinstance(value, list) else str(value)
                    _applied.add(row.variables[0])


def is_given(environ: Mapping[str, str], name: str) -> bool:
    """Whether a variable decides. Empty, it switches a setting off; those of XDG are unset then."""
    return name in environ and (environ[name] != "" or not name.startswith("XDG_"))


def of_caller(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what configuration files and ``__main__`` have added to this process."""
    return {
        name: value
        for name, value in environ.items()
        if name not in _applied and (name, value) != ("PYDANTIC_DISABLE_PLUGINS", "__all__")
    }


def user_file(environ: Mapping[str, str]) -> Path:
    """Return the place of the user's file, by XDG_CONFIG_HOME."""
    given = environ.get("XDG_CONFIG_HOME", "")
    home = environ.get("HOME") or "~"
    return (Path(given) if given.startswith("/") else Path(home).expanduser() / ".config") / _FILE


def places(environ: Mapping[str, str], recipe: str | None = None) -> Iterator[tuple[Layer, Path]]:
    """Yield where files may be, that which wins last; a project's is beside a recipe that is a file."""
    folders = environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    for item in reversed(folders.split(os.pathsep)):
        if item.startswith("/"):
            yield "site", Path(item) / _FILE
    yield "user", user_file(environ)
    if recipe is not None and (os.sep in recipe or recipe.endswith((".yaml", ".yml"))):
        yield "project", Path(recipe).expanduser().absolute().parent / PROJECT_FILE


def load(environ: Mapping[str, str], recipe: str | None = None, most: int = _MOST_TOLD) -> Configuration:
    """Read the files that hold for a recipe.

    Raises:
        RecipeError: some have errors; each is named with file, line and value, ``most`` of them in the text.
    """
    # In a folder that may not be entered (another's home) there is none for this user, and no error.
    found = [item for item in places(environ, recipe) if os.path.isfile(item[1])]  # noqa: PTH113
    files = tuple(read(layer, path, environ) for layer, path in found)
    problems = [problem for file in files for problem in file.problems]
    if problems:
        more = f" (and {len(problems) - most} more)" if len(problems) > most else ""
        wrong = ", ".join(dict.fromkeys(str(problem.path) for problem in problems))
        raise RecipeError(
            f"the configuration {wrong} has {len(problems)} " + ("error" if len(problems) == 1 else "errors"),
            why="; ".join(problem.text() for problem in problems[:most]) + more,
            fix=problems[0].fix if len(problems) == 1 else "correct these lines",
            commands=("xpubuild config",) if more else (),
            evidence={"problems": [{**item._asdict(), "path": str(item.path)} for item in problems]},
        )
    return Configuration(files)


def read(layer: Layer, path: Path, environ: Mapping[str, str]) -> File:
    """Read a file and check all of it."""

    def broken(what: str, fix: str, line: int = 0) -> File:
        return File(layer, path, "", {}, (Problem(path, line, "", "", what, fix),))

    try:
        text = read_bytes(path, _MOST_BYTES).decode("utf-8")
        if layer != "project" and stat.S_IMODE(path.stat().st_mode) & stat.S_IWOTH:
            what = "everybody can write to it, so it may not decide whom to trust"
            return broken(what, f"run: chmod o-w {path}")
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, _, place = str(error).partition(" (at ")
        line = re.match(r"line (\d+)", place)
        return broken(f"not valid TOML: {what}", "correct this line", int(line[1]) if line else 0)
    except (OSError, UnicodeDecodeError, UntrustedError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        return broken(f"cannot be read: {why}", "check the file")
    values: dict[Key, Value] = {}
    problems = []
    for key, value, row, wrong, fix in _walk(document, (), settings()):
        if row is not None:
            try:
                if layer == "project":
                    _require_project(key, value)
                values[key] = _converted(row, value, path.parent, environ)
                continue
            except _WrongError as error:
                wrong, fix = str(error), error.fix  # noqa: PLW2901
        shown = "" if isinstance(value, Mapping) else json.dumps(value, ensure_ascii=False, default=str)
        shown = _LOGIN.sub("//***@", shown)
        problems.append(Problem(path, line_of(text, key), ".".join(key), shown, wrong, fix))
    return File(layer, path, text, values, tuple(problems))


def line_of(text: str, key: Key) -> int:
    """Return the line, counted from 1, on which a key of a valid file stands; 0 where it is not found.

    It is behind the longest beginning of the file that can be read and does not have the key: beginnings
    that end inside a value cannot be read, and are passed over.
    """
    lines = text.splitlines(keepends=True)
    without = 0
    for count in range(1, len(lines) + 1):
        try:
            here: Any = tomllib.loads("".join(lines[:count]))
        except tomllib.TOMLDecodeError:
            continue
        for part in key:
            here = here.get(part) if isinstance(here, Mapping) else None
        if here is not None:
            return without + 1
        without = count
    return 0


def _settings(command: str) -> dict[str, Option]:
    """Return name -> row of what files may set of a command."""
    found = [name for names in sections(command).values() for name in names]
    found += [name for name in COMMANDS[command].argument.split() if name == "recipe"]
    keys = {name: key_of(command, name) for name in found}
    return {
        name: OPTIONS[key]._replace(help=OPTIONS[key].of.get(command, OPTIONS[key].help))
        for name, key in keys.items()
        if name not in DEEDS and key not in DEEDS
    }


def settings() -> dict[Key, Mapping[str, Option]]:
    """Return table -> what it may hold: the shared one, those of no command, those of commands."""
    commands = {
        tuple(name.split()): _settings(name)
        for name in COMMANDS
        if name.partition(" ")[0] not in ("config", "plumbing")
        and not any(other.startswith(f"{name} ") for other in COMMANDS)
    }
    # Commands say differently what an option does for them; what it does for install comes last.
    shared = {
        name: row
        for table in (*commands, ("install",))
        for name, row in commands[table].items()
        if variable_of(key_of(" ".join(table), name))
    }
    return {(SHARED,): shared, **TABLES, **commands}


def _walk(
    table: Mapping[str, Any], at: Key, known: Mapping[Key, Mapping[str, Option]]
) -> Iterator[tuple[Key, Any, Option | None, str, str]]:
    """Yield each key with its value and row; of an unknown one no row, but what is wrong and what to do."""
    rows = known.get(at, {})
    below = {path[len(at)] for path in known if len(path) > len(at) and path[: len(at)] == at}
    for name, value in table.items():
        key = (*at, name)
        if name in rows:
            yield key, value, rows[name], "", ""
        elif name in below and isinstance(value, Mapping):
            yield from _walk(value, key, known)
        elif name in below:
            yield key, value, None, "must be a table", f"write [{'.'.join(key)}], and its keys below"
        elif name in DEEDS:
            what = "is given when a command is called, not in a file"
            yield key, value, None, what, f"remove it, and pass --{name} where it is meant"
        else:
            meant = did_you_mean(name, (*rows, *below))
            if not meant and not at and name in known[SHARED,]:
                meant = f"; did you mean '{name}' under [{SHARED}]?"
            kind = "a table" if isinstance(value, Mapping) else "a key"
            where = f"[{'.'.join(at)}]" if at else "the configuration"
            yield key, value, None, f"is not {kind} of {where}{meant}", "'xpubuild config init' lists all"


class _WrongError(ValueError):
    """The value is not what the setting takes; the message says what it takes."""

    fix = "correct this value"


def _require_project(key: Key, value: Any) -> None:
    """Refuse what a project's file may not set; its author is not always the one who builds."""
    wrong = ""
    if key[:-1] in TABLES or key[-1] not in PROJECT_OPTIONS:
        wrong = "a file beside a recipe may not set it, because it may be a stranger's"
    elif key[-1] == "python" and os.sep in str(value):
        wrong = "a file beside a recipe may name an interpreter of PATH, such as python3.12, but no path"
    if wrong:
        error = _WrongError(wrong)
        error.fix = "set it in your own configuration, or as an option"
        raise error


def _converted(row: Option, value: Any, folder: Path, environ: Mapping[str, str]) -> Value:
    """Return a value as click takes it. Paths are relative to ``folder``, that of the file."""
    match row.kind:
        case "flag":
            if not isinstance(value, bool):
                raise _WrongError("must be true or false, without quotes")
            return value
        case "number":
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise _WrongError("must be a number, without quotes")
            return float(value)
        case "list" | "names" | "paths" | "folders" | "stores" | "trees":
            texts = [_text(item, row) for item in (value if isinstance(value, list) else [value])]
            between = {"list": None, "folders": os.pathsep, "paths": None}.get(str(row.kind), ",")
            parts = [part.strip() for text in texts for part in (text.split(between) if between else [text])]
            return [_place(part, row, folder, environ) for part in parts if part]
    return _place(_text(value, row), row, folder, environ)


def _text(value: Any, row: Option) -> str:
    is_path = row.kind in ("path", "paths", "folders", "place", "stores")
    # Numbers are welcome where an option takes text: jobs = 8, cxx11-abi = 1.
    if isinstance(value, bool) or not isinstance(value, str if is_path else (str, int)):
        raise _WrongError("must be text in quotes")
    text = str(value)
    if not text.strip():
        raise _WrongError("is empty; remove the line, or give it a value")
    if not text.isprintable():
        raise _WrongError("has a line break or a control character")
    if row.form is not None and not re.fullmatch(row.form[0], text):
        raise _WrongError(f"must be {row.form[1]}")
    if isinstance(row.kind, tuple) and text not in row.kind:
        raise _WrongError(f"must be one of {', '.join(row.kind)}{did_you_mean(text, row.kind)}")
    if row.kind == "jobs" and text != "auto" and not (text.isdecimal() and int(text) > 0):
        raise _WrongError("must be a number of at least 1, or auto")
    return text


def _place(text: str, row: Option, folder: Path, environ: Mapping[str, str]) -> str:
    """Return a path as an absolute one: a site's file says /scratch/$USER for everybody."""
    if row.kind not in ("path", "paths", "folders", "place", "stores") or "://" in text:
        return text

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if not environ.get(name):
            raise _WrongError(f"the environment has no variable {name}")
        return environ[name]

    return str(folder / Path(_VARIABLE.sub(value, text)).expanduser())
