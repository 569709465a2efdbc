"""docs/reference/cli.md, from the click tree."""

from __future__ import annotations

from collections.abc import Iterable

import click

from docgen import markdown as md
from xpubuild.cli.app import cli

_ABOUT = """
Most options can also be set in the environment: [environment.md](environment.md). The result of a command
goes to standard output, progress and messages to standard error. With `--json` standard output holds one
JSON document ([documents.md](documents.md)) and nothing else. The exit code reports the kind of failure:
[exit-codes.md](exit-codes.md).

| option | meaning |
| --- | --- |
| `-h`, `--help` | show the help of xpubuild or of a command |
| `--version` | show the version |
"""


def commands() -> Iterable[tuple[str, click.Command]]:
    """Return (full name, command) of every command for people; a group is followed by its commands."""
    context = click.Context(cli, info_name="xpubuild")
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        if command is None or command.hidden:
            continue
        yield f"xpubuild {name}", command
        if isinstance(command, click.Group):
            for sub_name, sub_command in command.commands.items():
                yield f"xpubuild {name} {sub_name}", sub_command


def page() -> str:
    """Return the page."""
    parts = [md.head("Commands", "xpubuild/cli"), _ABOUT]
    parts += [_section(name, command) for name, command in commands()]
    return "\n".join(parts)


def _section(name: str, command: click.Command) -> str:
    pieces = " ".join(command.collect_usage_pieces(click.Context(command, info_name=name)))
    lines = [
        f"## {name}\n",
        f"```\n{name} {pieces}\n```\n",
        md.prose(command.help).replace("\b\n", "") + "\n",
    ]
    options = [item for item in command.params if isinstance(item, click.Option) and not item.hidden]
    if options:
        lines.append(md.table(("option", "meaning"), [(_names(item), _meaning(item)) for item in options]))
    return "\n".join(lines)


def _names(option: click.Option) -> str:
    value = ""
    if not option.is_flag and not option.count:
        if option.metavar:
            value = f" {option.metavar}"
        elif isinstance(option.type, click.Choice):
            value = " " + "|".join(str(item) for item in option.type.choices)
        else:
            value = f" {option.type.name.upper()}"
    return ", ".join(md.code(name + value) for name in (*option.opts, *option.secondary_opts))


def _meaning(option: click.Option) -> str:
    text = option.help or ""
    default = option.to_info_dict()["default"]
    shown = option.is_flag or default in (None, (), "") or "default" in text
    return text if shown else f"{text} Default: {default}."
