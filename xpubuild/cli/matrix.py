"""``xpubuild recipes matrix``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from xpubuild.cli import options

if TYPE_CHECKING:
    from xpubuild.recipe.situation import Situation

_GPUS = ("max", "flex", "arc-a", "arc-b", "core-ultra", "panther-lake")
_DRIVERS = ("lts-2350", "lts2-2523", "rolling")
_COMPONENTS = ("triton", "vision", "audio")


def _asked(*names: str, **settings: Any) -> Callable[[options.Function], options.Function]:
    # What the matrix is asked about is not a setting of builds, so no XPUBUILD_ variable speaks here.
    return options.option(*names, envvar=None, **settings)


@click.command(name="matrix")
@_asked("--gpu", type=click.Choice(_GPUS), default=None, help="GPU family.")
@_asked("--driver", type=click.Choice(_DRIVERS), default=None, help="Driver family.")
@options.names_option("--oneapi", envvar=None, help="oneAPI versions that are there, or none.")
@options.names_option("--python", "python", envvar=None, help="Python versions that are there.")
@_asked("--gcc", default=None, metavar="VERSION", help="Version of the host compiler, GCC.")
@_asked("--host-compiler", default=None, metavar="ID", help="Host compiler as CMake calls it, if not GNU.")
@_asked("--cmake", default=None, metavar="VERSION", help="CMake, if not the one the build brings.")
@_asked("--abi", type=click.Choice(["0", "1"]), default=None, help="C++11 ABI that is wanted.")
@_asked("--triton", default=None, metavar="VERSION", help="triton that is there or wanted.")
@_asked("--vision", default=None, metavar="VERSION", help="torchvision that is there or wanted.")
@_asked("--audio", default=None, metavar="VERSION", help="torchaudio that is there or wanted.")
@options.names_option("--arch", envvar=None, help="AOT targets, such as pvc.")
@_asked("--target", type=click.Choice(["xpu", "cpu"]), default=None, help="Device to build for.")
@_asked("--here", is_flag=True, help="Ask about this host; the other options replace what is found.")
@_asked("--markdown", "as_markdown", is_flag=True, help="Print Markdown.")
@options.json_option
def command(here: bool, as_markdown: bool, as_json: bool, **asked: Any) -> int:
    """Show which releases go with which oneAPI, driver, Python, GCC, triton, vision and audio.

    With --here, or with options that describe a host, each release gets a verdict with its reasons.
    """
    import sys

    from xpubuild.recipe.matrix import matrix_document
    from xpubuild.recipe.releases import releases
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.matrix_view import markdown, matrix_view

    document = matrix_document(releases(), _situation(here, asked))
    if as_json:
        print_json(document)
    elif as_markdown:
        sys.stdout.write(markdown(document))
    else:
        show(matrix_view(document))
    return 0


def _situation(here: bool, asked: dict[str, Any]) -> Situation | None:
    from dataclasses import replace

    from xpubuild.recipe.situation import Situation

    changes = _changes(asked)
    if not here:
        return Situation(**changes) if changes else None
    from xpubuild.build.situation import of_host
    from xpubuild.host.report import host_report

    found = of_host(host_report(), changes.get("target") or "xpu")
    if "gpu" in changes:
        found = replace(found, gpu_targets=())
    return replace(found, **changes)


def _changes(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a situation that options name."""
    found = {name: asked[name] for name in ("gpu", "driver", "target", "gcc", "host_compiler", "cmake")}
    for name in ("gcc", "cmake"):
        _check(name, asked[name])
    for name in ("oneapi", "python", "arch"):
        found[name] = _versions(name, asked[name])
    found["cxx11_abi"] = None if asked["abi"] is None else int(asked["abi"])
    found["versions"] = {name: asked[name] for name in _COMPONENTS if asked[name] is not None}
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
    from xpubuild.recipe.fits import parse

    if text is not None and parse(text) is None:
        raise UsageError(f"--{name} takes a version, not '{text}'", fix=f"mend --{name}")
