"""``xpubuild recipes matrix``."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from xpubuild.cli import options

if TYPE_CHECKING:
    from xpubuild.recipe.releases import Release
    from xpubuild.recipe.situation import Situation
    from xpubuild.recipe.values import Target

_GPUS = ("max", "flex", "arc-a", "arc-b", "core-ultra", "panther-lake")
_DRIVERS = ("lts-2350", "lts2-2523", "rolling")
_RELEASES, _VERSIONS = f"{__name__}.releases", f"{__name__}.versions"


class MatrixCommand(click.Command):
    """A command with one more option for each component that goes with a release: its version."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options of the command, and before --help those of the components in the recipes."""
        *fixed, last = super().get_params(ctx)
        taken = {word for parameter in (*fixed, last) for word in parameter.opts}
        return [*fixed, *(item for item in _component_options(ctx) if item.opts[0] not in taken), last]


def _component_options(ctx: click.Context) -> list[click.Option]:
    from xpubuild.recipe.matrix import companions

    dists: dict[str, str] = {}
    for release in _releases(ctx):
        for name, component in companions(release.recipe).items():
            dists.setdefault(name, component.dist)
    return [
        click.Option(
            [f"--{name}", f"component_{number}"],
            metavar="VERSION",
            help=f"Installed or required version of {dist}.",
            expose_value=False,
            callback=_version_of,
        )
        for number, (name, dist) in enumerate(dists.items())
    ]


def _version_of(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta.setdefault(_VERSIONS, {})[param.opts[0].removeprefix("--")] = value


def _releases(ctx: click.Context) -> tuple[Release, ...]:
    """Return the releases, read once for the options and for the answer."""
    from xpubuild.recipe.releases import releases

    if _RELEASES not in ctx.meta:
        ctx.meta[_RELEASES] = releases()
    known: tuple[Release, ...] = ctx.meta[_RELEASES]
    return known


def _asked(*names: str, **settings: Any) -> Callable[[options.Function], options.Function]:
    # What the matrix is asked about is not a setting of builds, so no XPUBUILD_ variable speaks here.
    return options.option(*names, envvar=None, **settings)


@click.command(name="matrix", cls=MatrixCommand)
@_asked("--gpu", type=click.Choice(_GPUS), default=None, help="GPU family of the host.")
@_asked(
    "--driver",
    type=click.Choice(_DRIVERS),
    default=None,
    help="Driver family of the host ('doctor -v' shows it).",
)
@options.names_option("--oneapi", envvar=None, metavar="VERSIONS", help="Installed oneAPI versions, or none.")
@options.names_option(
    "--python", "python", envvar=None, metavar="VERSIONS", help="Installed Python versions, or none."
)
@_asked("--gcc", default=None, metavar="VERSION", help="Version of GCC, the host compiler.")
@_asked(
    "--host-compiler", default=None, metavar="ID", help="Host compiler by CMake's name, if it is not GNU."
)
@_asked("--cmake", default=None, metavar="VERSION", help="CMake version, if not that of the build tools.")
@_asked(
    "--cxx11-abi",
    "--abi",
    "abi",
    type=click.Choice(["0", "1"]),
    default=None,
    help="C++11 ABI to build with.",
)
@options.names_option("--arch", envvar=None, help="GPUs to compile kernels for ahead of time, such as pvc.")
@_asked("--target", type=click.Choice(["xpu", "cpu"]), default=None, help="Target device.")
@_asked("--here", is_flag=True, help="Check this host; the other options override what is found.")
@_asked("--markdown", "as_markdown", is_flag=True, help="Print the tables as Markdown.")
@options.json_option
@options.speech()
@click.pass_context
def command(ctx: click.Context, /, here: bool, as_markdown: bool, as_json: bool, **asked: Any) -> int:
    """Show which releases are compatible with which oneAPI, driver, Python, GCC, triton, vision and audio.

    Each component of the recipes has an option for its installed or required version: --vision 0.28.0.
    With --here, or with options that describe a host, show whether each release builds there, and the
    reasons.
    """
    from xpubuild.recipe.matrix import matrix_document
    from xpubuild.ui.console import print_json, show, write_out
    from xpubuild.ui.parts import markdown
    from xpubuild.ui.recipe_views import matrix_view

    asked["versions"] = ctx.meta.get(_VERSIONS, {})
    document = matrix_document(_releases(ctx), _situation(here, asked))
    if as_json:
        print_json(document)
    elif as_markdown:
        write_out(markdown("", matrix_view(document), "## {}"))
    else:
        show(matrix_view(document))
    return 0


def _situation(here: bool, asked: dict[str, Any]) -> Situation | None:
    from dataclasses import replace

    from xpubuild.recipe.situation import Situation

    changes = _changes(asked)
    if not here:
        return Situation(**changes) if changes else None
    found = _of_plan(changes.get("target") or "xpu")
    if "gpu" in changes:
        found = replace(found, gpu_targets=())
    return replace(found, **changes)


def _of_plan(target: Target) -> Situation:
    """Return this host with the interpreter and the compilers that plan would use, so that both agree."""
    from xpubuild.errors import XpuBuildError
    from xpubuild.install.release import situation_for
    from xpubuild.machine.host_report import host_report
    from xpubuild.recipe.compatible_host import of_host

    host = host_report()
    try:
        return situation_for(host, target, os.environ.get("XPUBUILD_PYTHON"))
    except XpuBuildError:  # plan says what is missing; here it is one of the reasons
        return of_host(host, target)


def _changes(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the host that the options override."""
    found = {name: asked[name] for name in ("gpu", "driver", "target", "gcc", "host_compiler", "cmake")}
    for name in ("gcc", "cmake"):
        _check(name, asked[name])
    for name in ("oneapi", "python", "arch"):
        found[name] = _versions(name, asked[name])
    found["cxx11_abi"] = None if asked["abi"] is None else int(asked["abi"])
    found["versions"] = asked["versions"]
    for name, version in found["versions"].items():
        _check(name, version)
    if found["gcc"] is not None:
        found["host_compiler"] = found["host_compiler"] or "GNU"
    return {name: value for name, value in found.items() if value not in (None, {})}


def _versions(name: str, given: tuple[str, ...]) -> tuple[str, ...] | None:
    if given == ("none",) and name != "arch":
        return ()
    for text in given if name != "arch" else ():
        _check(name, text)
    return given or None


def _check(name: str, text: str | None) -> None:
    from xpubuild.errors import UsageError
    from xpubuild.machine.versions import parse

    if text is not None and parse(text) is None:
        example = {"oneapi": "2025.3, or none", "python": "3.12, or none", "gcc": "13"}.get(name, "3.28")
        raise UsageError(f"--{name} must be a version, not '{text}'", fix=f"use a version such as {example}")
