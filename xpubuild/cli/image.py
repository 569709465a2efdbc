"""``xpubuild image``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xpubuild import __version__
from xpubuild.cli import options
from xpubuild.cli.grouped import GroupedCommand

if TYPE_CHECKING:
    from xpubuild.images.request import Format

#: Of an install on this host; in an image the base and the image's own layout decide.
_NO_EFFECT = (
    "--workspace", "--python", "--jobs", "--oneapi-root", "--oneapi-mode", "--extra-path",
    "--extra-library-path", "--editable", "--mirror", "--offline", "--packages", "--conda-lock",
    "--conda-channel", "--update", "--allow-dirty", "--compile-cache", "--compile-cache-remote",
    "--installer", *options.STORE,
)  # fmt: skip


@click.command(
    name="image",
    cls=GroupedCommand,
    epilog=options.LIKE_INSTALL,
    short_help="Write a container image of a recipe, and build it.",
)
@options.build_options(brief=True, hidden=_NO_EFFECT)
@options.option(
    "--base", default="ubuntu-24.04", show_default=True, metavar="NAME", help="System of the image."
)
@options.option(
    "--format", "form", type=click.Choice(["containerfile", "apptainer"]), default="containerfile",
    show_default=True, help="Containerfile (podman, buildah, docker) or Apptainer definition.", envvar=None,
)  # fmt: skip
@options.option(
    "--xpubuild", "program", default=__version__, show_default=True, metavar="VERSION|FILE",
    help="The xpubuild of the build: a released version, or a wheel or sdist.",
)  # fmt: skip
@options.option(
    "-o", "--output", default=None, metavar="FILE", envvar=None,
    help="File to write; what it copies is put beside it (default: standard output).",
)  # fmt: skip
@options.option(
    "--build",
    "build_it",
    is_flag=True,
    help="Build the image with the builder that is installed.",
    envvar=None,
)
@options.option(
    "--builder", default=None, metavar="NAME", help="Builder to use: podman, buildah, docker, apptainer."
)
@options.option(
    "--tag", default=None, metavar="NAME", envvar=None,
    help="Name of the image; of Apptainer, the file (default: from recipe, target and base).",
)  # fmt: skip
@click.argument("builder_options", nargs=-1, type=click.UNPROCESSED)
@options.json_option
@options.speech("quiet")
def command(
    base: str,
    form: Format,
    program: str,
    output: str | None,
    build_it: bool,
    builder: str | None,
    tag: str | None,
    builder_options: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    **build: Any,
) -> int:
    """Write an image that builds RECIPE, verifies it, and holds what was built, without compilers.

    After -- come options for the builder: '--build -- --secret id=pip,src=pip.conf'.
    """
    from xpubuild.engine.process import Cancel
    from xpubuild.engine.runner import cancel_on_signals
    from xpubuild.errors import UsageError
    from xpubuild.images.make import Asked, document
    from xpubuild.install.options import Options
    from xpubuild.ui.console import print_json, show, write_out
    from xpubuild.ui.views import image_view

    if not build_it and (builder or tag or builder_options):
        raise UsageError("--builder, --tag and what follows -- are for --build", fix="add --build")
    cancel, file = Cancel(), None if output in (None, "-") else Path(str(output)).expanduser().absolute()
    asked = Asked(base, form, program, builder, tag, builder_options)
    with cancel_on_signals(cancel):
        rendered = asked.render(Options(**build))
        if file is not None:
            rendered.write(file)
        built = None
        if build_it:
            with options.new_sink() as sink:
                built = asked.build(rendered, file, cancel, sink)
    found = document(rendered, file, built)
    if as_json:
        print_json(found)
    elif file is None and built is None:
        write_out(rendered.text)
    elif not quiet:
        show(image_view(found))
    return 0
