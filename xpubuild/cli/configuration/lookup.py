"""The value of an option by all files: the later file wins, and in one file a command's own table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping

from xpubuild.cli.configuration.checking import Checked, check, failure
from xpubuild.cli.configuration.files import sources
from xpubuild.cli.configuration.model import SHARED, TABLES, Commands, Item, Key, Value
from xpubuild.frozen import frozen

#: A command that shows or does a part of what another one does has its settings too, below its own.
_LIKE: Mapping[Key, tuple[Key, ...]] = {("plan",): (("install",),), ("rehearse",): (("install",),)}
#: In a shell that entered a workspace, that one is meant: the environment wins over files.
_OF_ENTERED = frozenset({"recipe", "workspace"})
_ENTERED = "XPUBUILD_ENTERED"
#: Variables that files have set in this process: a command that is run for a user does not get them.
_applied: set[str] = set()


@frozen
class Configuration:
    """The files that hold for one command line, that which wins last."""

    files: tuple[Checked, ...]

    def item(self, command: Key, name: str) -> Item | None:
        """Return what decides an option of a command; a project's file never decides the recipe."""
        for file in reversed(self.files):
            found = {item.key: item for item in file.items}
            for table in (command, *_LIKE.get(command, ()), (SHARED,)):
                if (item := found.get((*table, name))) is not None:
                    return item
        return None

    def value(self, command: Key, name: str, environ: Mapping[str, str]) -> Value | None:
        """Return the value of an option, None where no file sets it."""
        if name in _OF_ENTERED and environ.get(_ENTERED):
            return None
        item = self.item(command, name)
        return None if item is None else item.value

    def nodes(self, kind: str) -> dict[str, Value]:
        """Return the settings of a kind of nodes; what [jobs] says is for every kind."""
        tables = (("jobs", kind), ("jobs",))
        found: dict[str, Value] = {}
        for file in self.files:
            items = {item.key: item.value for item in file.items}
            for table in reversed(tables):
                for name in TABLES["jobs"]:
                    if (value := items.get((*table, name))) is not None:
                        found[name] = value
        return found

    def variables(self) -> Iterator[tuple[tuple[str, ...], Item]]:
        """Yield the variables that settings stand for, each with what decides it."""
        for table, settings in TABLES.items():
            for name, setting in settings.items():
                item = self.item(tuple(table.split(".")), name)
                if item is not None and setting.variables:
                    yield setting.variables, item

    def apply(self, environ: MutableMapping[str, str]) -> None:
        """Set the variables that settings stand for, where the environment does not say otherwise."""
        for names, item in self.variables():
            if not any(environ.get(name) for name in names):
                value = item.value
                environ[names[0]] = ",".join(value) if isinstance(value, list) else str(value)
                _applied.add(names[0])


def load(commands: Commands, environ: Mapping[str, str], recipe: str | None) -> Configuration:
    """Read the files that hold for a recipe.

    Raises:
        RecipeError: one has an error; file, line and value are named.
    """
    files = []
    for source in sources(environ, recipe):
        checked = check(source, commands, environ)
        if (error := failure(checked)) is not None:
            raise error
        files.append(checked)
    return Configuration(tuple(files))


def of_caller(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what configuration files and ``__main__`` have added to this process."""
    return {
        name: value
        for name, value in environ.items()
        if name not in _applied and (name, value) != ("PYDANTIC_DISABLE_PLUGINS", "__all__")
    }
