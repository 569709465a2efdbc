"""``xpubuild image``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from xpubuild.cli import options

if TYPE_CHECKING:
    from xpubuild.images.request import Format


@options.command("image")
def command(
    base: str, form: Format, program: str, output: str | None, build_it: bool, builder: str | None,
    tag: str | None, builder_options: tuple[str, ...], **build: Any,
) -> int:  # fmt: skip
    """Write an image that builds RECIPE, verifies it, and holds what was built, without compilers.

    After -- come options for the builder: '--build -- --secret id=pip,src=pip.conf'.
    """
    from xpubuild.errors import UsageError
    from xpubuild.images.make import Asked, document
    from xpubuild.install.options import Options
    from xpubuild.ui.console import write_out
    from xpubuild.ui.views import image_view

    if not build_it and (builder or tag or builder_options):
        raise UsageError("--builder, --tag and what follows -- are for --build", fix="add --build")
    file = None if output in (None, "-") else Path(str(output)).expanduser().absolute()
    asked = Asked(base, form, program, builder, tag, builder_options)
    with options.interruptible() as cancel:
        rendered = asked.render(Options(**build))
        if file is not None:
            rendered.write(file)
        built = None
        if build_it:
            with options.new_sink() as sink:
                built = asked.build(rendered, file, cancel, sink)
    said = options.speech()
    if file is None and built is None and not said.as_json:
        write_out(rendered.text)
        return 0
    return options.answer(document(rendered, file, built), image_view, silent=said.quiet)
