"""``xpubuild recipes matrix``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from xpubuild.cli import options

if TYPE_CHECKING:
    from xpubuild.recipe.releases import Release
    from xpubuild.recipe.situation import Situation
    from xpubuild.recipe.values import Target

_RELEASES, _VERSIONS = f"{__name__}.releases", f"{__name__}.versions"
#: Options that take a version -> an example of one.
_EXAMPLES = {"oneapi": "2025.3, or none", "python": "3.12, or none", "gcc": "13"}


class _MatrixCommand(options.Command):
    """A command with one more option for each component that goes with a release: its version."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options of the command, and before --help those of the components in the recipes."""
        from xpubuild.recipe.matrix import companions

        *fixed, last = super().get_params(ctx)
        taken = {word for parameter in (*fixed, last) for word in parameter.opts}
        dists: dict[str, str] = {}
        for release in _releases(ctx):
            for name, component in companions(release.recipe).items():
                dists.setdefault(name, component.dist)
        more = [
            click.Option(
                [f"--{name}", f"component_{number}"], metavar="VERSION",
                help=f"Installed or required version of {dist}.", expose_value=False, callback=_version_of,
            )
            for number, (name, dist) in enumerate(dists.items())
            if f"--{name}" not in taken
        ]  # fmt: skip
        return [*fixed, *more, last]


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


@options.command("recipes matrix", _MatrixCommand)
def command(here: bool, as_markdown: bool, **asked: Any) -> int:
    """Show which releases are compatible with which oneAPI, driver, Python, GCC, triton, vision and audio.

    Each component of the recipes has an option for its installed or required version: --vision 0.28.0.
    With --here, or with options that describe a host, show whether each release builds there, and the
    reasons.
    """
    from xpubuild.recipe.matrix import matrix_document
    from xpubuild.ui.console import write_out
    from xpubuild.ui.parts import markdown
    from xpubuild.ui.recipe_views import matrix_view

    ctx = click.get_current_context()
    document = matrix_document(_releases(ctx), _situation(here, asked, ctx.meta.get(_VERSIONS, {})))
    if as_markdown and not options.speech().as_json:
        write_out(markdown("", matrix_view(document), "## {}"))
        return 0
    return options.answer(document, matrix_view)


def _situation(here: bool, asked: dict[str, Any], versions: dict[str, str]) -> Situation | None:
    """Return the host that is meant: this one with --here, with what the options override."""
    from dataclasses import replace

    from xpubuild.errors import UsageError, XpuBuildError
    from xpubuild.install.release import situation_for
    from xpubuild.machine.host_report import host_report
    from xpubuild.machine.versions import parse
    from xpubuild.recipe.compatible_host import of_host
    from xpubuild.recipe.situation import Situation

    changes: dict[str, Any] = {name: asked[name] for name in ("gpu", "driver", "target", "gcc", "cmake")}
    given = {name: asked[name] for name in ("oneapi", "python")}
    texts = {name: (asked[name],) if asked[name] else () for name in ("gcc", "cmake")}
    texts |= {name: () if words == ("none",) else words for name, words in given.items()}
    for name, words in (*texts.items(), *((name, (version,)) for name, version in versions.items())):
        for text in words:
            if parse(text) is None:
                example = _EXAMPLES.get(name, "3.28")
                raise UsageError(
                    f"--{name} must be a version, not '{text}'", fix=f"use a version such as {example}"
                )
    changes |= {name: () if words == ("none",) else words or None for name, words in given.items()}
    changes |= {"arch": asked["arch"] or None, "versions": versions or None}
    changes["cxx11_abi"] = None if asked["abi"] is None else int(asked["abi"])
    changes["host_compiler"] = "GNU" if asked["gcc"] else None
    changes = {name: value for name, value in changes.items() if value is not None}
    if not here:
        return Situation(**changes) if changes else None
    # The interpreter and the compilers are those that plan would use, so that both agree.
    host = host_report()
    target: Target = changes.get("target") or "xpu"
    try:
        found = situation_for(host, target, os.environ.get("XPUBUILD_PYTHON"))
    except XpuBuildError:  # plan says what is missing; here it is one of the reasons
        found = of_host(host, target)
    return replace(replace(found, gpu_targets=()) if "gpu" in changes else found, **changes)
