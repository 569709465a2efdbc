"""Options under headings: what a command with many of them shows as help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])
OUTPUT = "Output"


class Option(click.Option):
    """An option that help lists under a heading."""

    heading = ""
    #: Left out of a command's help for brevity, but a setting of it all the same.
    brief = False


class GroupedCommand(click.Command):
    """A command whose help has its options under headings, those that everybody needs first."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section for each heading, in the order of the options."""
        sections: dict[str, list[tuple[str, str]]] = {"": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                sections.setdefault(getattr(parameter, "heading", OUTPUT), []).append(record)
        output = sections.pop(OUTPUT, [])
        for heading, rows in (*sections.items(), (OUTPUT, output)):
            with formatter.section(heading or "Options"):
                formatter.write_dl(rows)


def group(heading: str, *decorators: Callable[[Any], Any]) -> Callable[[Function], Function]:
    """Return what adds several options under one heading."""

    def add(function: Function) -> Function:
        for decorate in reversed(decorators):
            function = decorate(function)
            function.__click_params__[-1].heading = heading  # type: ignore[attr-defined]
        return function

    return add
