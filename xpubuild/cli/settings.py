"""The options of commands as settings of configuration files, and the map through which click asks them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from xpubuild.cli.configuration.lookup import Configuration
    from xpubuild.cli.configuration.model import Commands, Kind, Setting

Key = tuple[str, ...]
_LOADED = f"{__name__}.loaded"
#: Their children of plans do what the plan says; config is about the files.
_WITHOUT = frozenset({"plumbing", "config"})
#: Options that ask for one deed: under a name that is a setting elsewhere, or in place of the real device.
_DEEDS = frozenset({(("status",), "jobs"), (("verify",), "stand-in"), (("run",), "stand-in")})


class Defaults(dict[str, Any]):
    """What click asks for an option that neither the command line nor the environment gives.

    Files are read when the first one is asked for, so neither --help nor --version reads any.
    """

    def __init__(self, command: Key = ()) -> None:
        super().__init__()
        self._command = command

    def __getitem__(self, name: str) -> Any:
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of an option by its name in Python, or the map of a command."""
        context = click.get_current_context(silent=True)
        if context is None or name in _WITHOUT or context.resilient_parsing:
            return default  # the help asks for defaults too, and completion
        if isinstance(context.command, click.Group):
            known = name in context.command.list_commands(context)
            return Defaults((*self._command, name)) if known else default
        parameter = next((item for item in context.command.params if item.name == name), None)
        if parameter is None or (self._command, long_name(parameter)) in _DEEDS:
            return default
        value = _value(context, self._command, long_name(parameter))
        return default if value is None else value


def apply_settings() -> None:
    """Read the configuration of the running command line now: its places decide where workspaces are."""
    context = click.get_current_context(silent=True)
    if context is not None and isinstance(context.find_root().command, click.Group):
        _configuration(context)


def nodes(kind: str) -> dict[str, Any]:
    """Return what the configuration says of the nodes for a kind of jobs."""
    return dict(_configuration(click.get_current_context()).nodes(kind))


def _value(context: click.Context, command: Key, name: str) -> Any:
    return _configuration(context).value(command, name, os.environ)


def _configuration(context: click.Context) -> Configuration:
    """Return the configuration of this command line; its settings are in the environment from then on."""
    recipe = context.params.get("recipe") or os.environ.get("XPUBUILD_RECIPE")
    if _LOADED not in context.meta:
        from xpubuild.cli.configuration.files import sources
        from xpubuild.cli.configuration.lookup import Configuration, load

        given = recipe if isinstance(recipe, str) else None
        exists = any(True for _ in sources(os.environ, given))
        context.meta[_LOADED] = load(commands(), os.environ, given) if exists else Configuration(())
        context.meta[_LOADED].apply(os.environ)
    found: Configuration = context.meta[_LOADED]
    return found


def commands(root: click.Command | None = None) -> Commands:
    """Return every command that reads configuration files, with its options.

    ``root`` is the group of all of them, by default that of the running command line.
    """
    root = root or click.get_current_context().find_root().command
    assert isinstance(root, click.Group)  # noqa: S101 - for the type checker
    found: dict[Key, Mapping[str, Setting]] = {}
    context = click.Context(root)
    for name in root.list_commands(context):
        command = root.get_command(context, name)
        if command is None or name in _WITHOUT:
            continue
        if isinstance(command, click.Group):
            found.update(
                {(name, sub): _settings((name, sub), item) for sub, item in command.commands.items()}
            )
        else:
            found[name,] = _settings((name,), command)
    return found


def _settings(table: Key, command: click.Command) -> dict[str, Setting]:
    from xpubuild.cli.configuration.model import NEVER, Setting

    found = {}
    for parameter in command.params:
        name = long_name(parameter)
        is_setting = isinstance(parameter, click.Option) or parameter.envvar
        if name in NEVER or (table, name) in _DEEDS or not is_setting:
            continue
        if getattr(parameter, "hidden", False) and not getattr(parameter, "brief", False):
            continue
        choices = parameter.type.choices if isinstance(parameter.type, click.Choice) else ()
        found[name] = Setting(
            _kind(parameter, name),
            getattr(parameter, "help", None) or "Recipe to build: a name or a file.",
            tuple(str(item) for item in choices),
            shared=parameter.envvar == "XPUBUILD_" + name.upper().replace("-", "_"),
        )
    return found


def long_name(parameter: click.Parameter) -> str:
    """Return the name of an option without dashes, as files have it; that of an argument."""
    long = next((item for item in parameter.opts if item.startswith("--")), None)
    return long[2:] if long else str(parameter.name)


def _kind(parameter: click.Parameter, name: str) -> Kind:
    from xpubuild.cli import options

    by_callback: dict[Any, Kind] = {
        options.absolute: "path", options.mirror: "place", options.split_folders: "folders",
    }  # fmt: skip
    if parameter.callback in by_callback:
        return by_callback[parameter.callback]
    if isinstance(parameter, click.Option) and parameter.is_flag:
        return "flag"
    if name == "jobs":
        return "jobs"
    if parameter.multiple or parameter.nargs != 1:
        return "texts"
    if isinstance(parameter.type, click.Choice):
        return "choice"
    return "number" if isinstance(parameter.type, (click.types.FloatParamType, click.FloatRange)) else "text"
