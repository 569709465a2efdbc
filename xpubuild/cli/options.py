"""Makes the commands of click from the table, and says what all of them say alike."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from xpubuild.cli.commands import ARGUMENTS, COMMANDS, sections
from xpubuild.cli.configuration import Configuration, load
from xpubuild.cli.table import DEEDS, OPTIONS, Option, key_of, variable_of
from xpubuild.engine.places import reached_by
from xpubuild.engine.process import Cancel
from xpubuild.errors import UsageError, XpuBuildError
from xpubuild.supply.depot.location import Location, parse_place
from xpubuild.ui.console import print_json, show, summarise
from xpubuild.ui.parts import Part
from xpubuild.ui.sinks import SerialSink, make_sink
from xpubuild.ui.views import many_view

#: Ends the help of commands whose options are those of install.
_LIKE_INSTALL = "Every other option of 'xpubuild install' is accepted too: see 'xpubuild install --help'."
#: Options of every command, kept for ``speech``, ``new_sink`` and ``answer``.
_ALIKE = ("json", "log-format", "quiet", "verbose")


def _path(value: str) -> Path:
    if not value.strip():
        # An unset variable in a script: the default place would be a surprise, for clean above all.
        raise click.BadParameter("it is empty; pass a path, or omit the option")
    return Path(value).expanduser().absolute()


def _converted(row: Option, value: Callable[[Any], Any], *, may_be_empty: bool) -> Callable[..., Any]:
    """Return what makes the value of an option, and notes that the option names the folder or file there."""

    def made(_ctx: click.Context, param: click.Parameter, given: Any) -> Any:
        if given is None or (given == "" and may_be_empty):
            return None if given is None else row.default
        return reached_by(value(given), f"--{long_name(param)}")

    return made


def _split(values: Iterable[str], separator: str = ",") -> tuple[str, ...]:
    parts = (part.strip() for text in values for part in str(text).split(separator))
    return tuple(dict.fromkeys(part for part in parts if part))


def _place(value: str) -> Path | Location:
    if not value.strip():
        raise click.BadParameter("it is empty; pass a folder or a URL, or omit the option")
    return parse_place(value, "--mirror")


def _stores(values: Iterable[str]) -> tuple[Path | Location, ...]:
    return tuple(parse_place(text, "a store") for text in _split(values))


def _trees(values: Iterable[str]) -> dict[str, Path]:
    """Return component -> folder for values such as DIR (torch's) and vision=DIR."""
    found: dict[str, Path] = {}
    for text in values:
        component, equals, folder = text.partition("=")
        if not equals or "/" in component or Path(text).exists():
            component, folder = "torch", text
        if not folder.strip():
            raise click.BadParameter(f"'{text}' has no folder")
        if component in found:
            raise click.BadParameter(f"two source trees for {component}")
        found[component] = _path(folder)
    return found


class _Commas(click.types.StringParamType):
    #: Of a variable with several values; a folder's name may have a space. That of click.Path is a colon.
    envvar_list_splitter = ","


class _Number(click.FloatRange):
    #: Messages have it: "'x' is not a valid number".
    name = "number"


#: Kind -> whether it may be repeated, its type, its metavar, and what makes the value of what click has.
_KINDS: Mapping[str, tuple[bool, Any, str | None, Callable[[Any], Any] | None]] = {
    "text": (False, None, None, lambda value: value),
    "list": (True, None, None, None),
    "names": (True, None, "NAMES", _split),
    "number": (False, _Number(min=0), None, None),
    "jobs": (False, None, None, None),
    "path": (False, None, "DIR", _path),
    "paths": (True, None, "DIR", lambda values: tuple(map(_path, values))),
    "folders": (True, click.Path(), "DIRS", lambda values: tuple(map(_path, _split(values, os.pathsep)))),
    "place": (False, None, "DIR|URL", _place),
    "stores": (True, _Commas(), "DIR|URL", _stores),
    "trees": (True, _Commas(), None, _trees),
}


def _completing(what: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return what completes recipes, workspaces, doctor_checks or verify_checks."""

    def complete(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[CompletionItem]:
        # Of "a,b" the last is being typed.
        before, comma, last = typed.rpartition(",")
        found = [CompletionItem(before + comma + name) for name in _KNOWN[what]() if name.startswith(last)]
        return found or ([CompletionItem(typed, type="file")] if what in ("recipes", "workspaces") else [])

    return complete


def _recipes() -> Iterable[str]:
    from xpubuild.recipe.load import available, is_abstract
    from xpubuild.recipe.order import in_order

    return in_order(name for name, path in available().items() if not is_abstract(path))


def workspaces_folder() -> Path:
    """Return the folder in which workspaces are by default."""
    from xpubuild.install.options import default_workspace

    return default_workspace("any").parent


def cache_folder() -> Path:
    """Return the folder of sources, packages and wheels that all workspaces of this user share."""
    import platformdirs

    return platformdirs.user_cache_path("xpubuild")


def installed() -> list[str]:
    """Return the names of the workspaces there."""
    from xpubuild.recipe.order import in_order
    from xpubuild.workspace.layout import workspaces_in

    return in_order(root.name for root in workspaces_in(workspaces_folder()))


def _doctor_checks() -> Iterable[str]:
    from xpubuild.doctor.registry import all_checks

    checks = all_checks()
    return (*dict.fromkeys(check.group for check in checks), *(check.id for check in checks))


def _verify_checks() -> Iterable[str]:
    from xpubuild.verify.catalogue import list_checks

    return (check.id for check in list_checks())


_KNOWN: Mapping[str, Callable[[], Iterable[str]]] = {
    "recipes": _recipes,
    "workspaces": installed,
    "doctor_checks": _doctor_checks,
    "verify_checks": _verify_checks,
}


def _parameter(command: str, name: str, *, hidden: bool) -> click.Option:
    key = key_of(command, name)
    row = OPTIONS[key]
    words = row.words.split() or [f"--{name}"]
    settings: dict[str, Any] = {
        "help": row.of.get(command, row.help), "envvar": variable_of(key),
        "metavar": row.metavar, "hidden": hidden, "show_default": row.default is not None or None,
        "shell_complete": _completing(row.complete) if row.complete else None,
    }  # fmt: skip
    if row.default is not None:
        settings["default"] = row.default
    if isinstance(row.kind, tuple):
        settings["type"] = click.Choice(row.kind)
    elif row.kind == "flag":
        settings |= {"is_flag": True, "default": None if "/" in row.words else False}
    else:
        repeated, kind, metavar, value = _KINDS[row.kind]
        settings |= {"multiple": repeated, "type": kind, "metavar": row.metavar or metavar}
        if value is not None:
            off = name not in DEEDS and name != "workspace" and variable_of(key) is not None
            settings["callback"] = _converted(row, value, may_be_empty=off)
    if name in _ALIKE:
        settings |= {"callback": _keep, "expose_value": False}
    return click.Option([*words, row.to or name.replace("-", "_")], **settings)


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    ctx.meta[f"{__name__}.{param.name}"] = value


def _argument(name: str, complete: str = "", **settings: Any) -> click.Argument:
    settings = {"required": False, "shell_complete": _completing(complete) if complete else None, **settings}
    return click.Argument([name], **settings)


class Command(click.Command):
    """A command of the table: its help has headings, its defaults are those of configuration files."""

    key = ""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section for each heading."""
        headings = {name: heading for heading, found in sections(self.key).items() for name in found}
        rows: dict[str, list[tuple[str, str]]] = {"": []}
        output: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            heading = headings.get(long_name(parameter), "" if parameter.expose_value else "Output")
            if record is not None:
                (output if heading == "Output" else rows.setdefault(heading, [])).append(record)
        for heading, found in (*rows.items(), ("Output", output)):
            if found:
                with formatter.section(heading or "Options"):
                    formatter.write_dl(found)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read configuration files first, unless help is asked for: the recipe says which."""
        if not ctx.resilient_parsing and self.key.partition(" ")[0] != "config":
            given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
            recipe = given.get("recipe")
            if not isinstance(recipe, str):  # click has an object of its own for what is not given
                recipe = os.environ.get("XPUBUILD_RECIPE")
            if not {"-h", "--help"}.intersection(args):
                found = load(os.environ, recipe or None)
                found.apply(os.environ)
                ctx.default_map = found.defaults(self.key, os.environ)
                ctx.meta[__name__] = found
        return super().parse_args(ctx, args)


def _parameters(key: str) -> Iterator[click.Parameter]:
    for name in COMMANDS[key].argument.split():
        yield _argument(**ARGUMENTS[name])
    for heading, found in sections(key).items():
        for name in found:
            yield _parameter(key, name, hidden=heading == "-")


def command(
    key: str, cls: type[Command] = Command, parent: click.Group | None = None
) -> Callable[[Callable[..., Any]], Command]:
    """Return what makes a command of the table from the function that runs it; below ``parent``, if given."""

    def make(function: Callable[..., Any]) -> Command:
        row = COMMANDS[key]
        made = cls(
            key.rpartition(" ")[2], params=list(_parameters(key)), callback=function, help=function.__doc__,
            short_help=row.help, epilog=_LIKE_INSTALL if row.builds else None,
        )  # fmt: skip
        made.key = key
        if parent is not None:
            parent.add_command(made)
        return made

    return make


def group(key: str, function: Callable[..., Any], *, invoke_without_command: bool = False) -> click.Group:
    """Return a group of commands; its help is that of the function."""
    return click.Group(
        key, params=list(_parameters(key)) if invoke_without_command else [], callback=function,
        help=function.__doc__, short_help=COMMANDS[key].help, invoke_without_command=invoke_without_command,
    )  # fmt: skip


def long_name(parameter: click.Parameter) -> str:
    """Return the name of an option without dashes, as the table has it; that of an argument."""
    long = next((item for item in parameter.opts if item.startswith("--")), None)
    return long[2:] if long else str(parameter.name)


def configuration() -> Configuration:
    """Return the configuration files of the running command line."""
    found: Configuration = click.get_current_context().meta[__name__]
    return found


class Speech(NamedTuple):
    """What --json, -q, -v and --log-format say."""

    as_json: bool
    log_format: str | None
    quiet: bool
    verbose: bool


def speech() -> Speech:
    """Return what the running command line says about output; every command has these options."""
    meta = click.get_current_context().meta
    return Speech(*(meta[f"{__name__}.{name}"] for name in Speech._fields))


def new_sink() -> SerialSink:
    """Return a sink for progress on standard error, as -q, -v and --log-format of this command want it."""
    wanted = speech()
    return make_sink(wanted.log_format, quiet=wanted.quiet, verbose=wanted.verbose)


def answer(
    document: Mapping[str, Any], view: Callable[[Any], Iterable[Part]], error: XpuBuildError | None = None,
    *, silent: bool = False, title: str = "",
) -> int:  # fmt: skip
    """Write the result: JSON with --json, else its view unless ``silent``; return 0.

    With a ``title`` the view is also added to the summary of a CI job.

    Raises:
        XpuBuildError: ``error``, which carries the document; it is printed with the error.
    """
    if title:
        summarise(title, view(document))
    as_json = speech().as_json
    if not as_json and not silent:
        show(view(document))
    if error is not None:
        error.document = dict(document)
        raise error
    if as_json:
        print_json(document)
    return 0


@contextlib.contextmanager
def interruptible() -> Iterator[Cancel]:
    """Yield what a signal to this process cancels."""
    from xpubuild.engine.runner import cancel_on_signals

    cancel = Cancel()
    with cancel_on_signals(cancel):
        yield cancel


def refuse(why: Mapping[str, str]) -> None:
    """Refuse options of the command line that have no effect; a variable of the environment is no request.

    Raises:
        UsageError: one is there; ``why`` maps names in the table to half sentences.
    """
    ctx = click.get_current_context()
    for parameter in ctx.command.params:
        source, name = ctx.get_parameter_source(str(parameter.name)), long_name(parameter)
        if source is click.core.ParameterSource.COMMANDLINE and name in why:
            raise click.UsageError(f"{parameter.opts[0]} {why[name]}")


def may_remove(what: str, command: str) -> bool:
    """Ask on the terminal whether ``command`` may remove something, such as "3 items from DIR".

    Raises:
        UsageError: there is no terminal.
    """
    if sys.stdin.isatty():
        return click.confirm(f"Remove {what}?", err=True)
    raise UsageError(
        f"{click.get_current_context().command_path} would remove {what}, and nobody can be asked",
        why="standard input is not a terminal",
        fix="pass --yes to remove them, or --dry-run to list them",
        commands=(f"{command} --dry-run",),
    )


def remove_asked(
    would: Mapping[str, Any], remove: Callable[[], Mapping[str, Any]], what: str, command: str, *,
    dry_run: bool, yes: bool,
) -> int:  # fmt: skip
    """Show what would go and, but for a dry run, ask unless ``yes``, and remove it.

    With --json, standard output has the result alone.

    Raises:
        UsageError: nobody can be asked.
    """
    as_json, found = speech().as_json, would
    show(many_view(would), sys.stderr if as_json else None)
    if would["removed"] and not dry_run:
        agreed = yes or may_remove(what, command)
        refused = [f"{row['path']}: not wanted" for row in would["removed"]]
        found = remove() if agreed else {**would, "removed": [], "kept": refused}
        if agreed and not as_json:
            show(many_view(found))
    if as_json:
        print_json({**found, "dry_run": dry_run})
    return 0
