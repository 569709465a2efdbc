"""An image as an Apptainer definition. Pure.

Apptainer has no layers, no cache mounts and no users of its own: what builds keep is in one folder that is
bound in (``--bind DIR:/var/cache/xpubuild``), what one stage mounts of the other is copied and removed, and a
container runs as whoever starts it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from xpubuild.images.model import CACHE, Copy, Env, Image, Instruction, Run
from xpubuild.untrusted import on_one_line


def apptainer(image: Image) -> str:
    """Return the text of the definition."""
    return "\n".join(_lines(image)) + "\n"


def _lines(image: Image) -> Iterator[str]:
    yield from _head(image, "build")
    yield f"# {_text(image.title)}"
    yield f"# Made by: {_text(image.remade_by)}"
    yield f"# To keep what can be used again: apptainer build --bind DIR:{CACHE} IMAGE.sif FILE"
    yield ""
    yield from _files(image.build, from_build=False)
    yield from _post(image.build, before=(f"mkdir -p {CACHE}",))
    yield ""
    yield from _head(image, "runtime")
    yield ""
    mounted = tuple(
        dict.fromkeys(path for item in image.runtime if isinstance(item, Run) for path in item.mounts)
    )
    yield from _files(image.runtime, from_build=True, also=mounted)
    yield from _post(image.runtime, after=(f"rm -rf {shlex.join(mounted)}", *image.base.manager["clean"]))
    yield ""
    yield "%environment"
    for name, value in _variables(image.runtime).items():
        yield f"    export {name}={shlex.quote(value)}"
    yield ""
    yield "%labels"
    for name, value in image.labels.items():
        yield f"    {name} {_text(value)}"
    yield ""
    yield "%runscript"
    yield '    exec python "$@"'


def _head(image: Image, stage: str) -> Iterator[str]:
    yield "Bootstrap: docker"
    yield f"From: {image.base.image}"
    yield f"Stage: {stage}"


def _text(text: str) -> str:
    """Return a text that begins no section, and names no argument of the build (``{{ NAME }}``)."""
    return on_one_line(text).replace("{{", "{ {")


def _files(
    instructions: Sequence[Instruction], *, from_build: bool, also: Sequence[str] = ()
) -> Iterator[str]:
    copies = [item for item in instructions if isinstance(item, Copy) and item.from_build == from_build]
    # A folder that ends with a slash stands for what is in it.
    pairs = [
        (f"{source}*" if source[-1] == "/" else source, item.target)
        for item in copies
        for source in item.sources
    ]
    pairs += [(path, path) for path in also]
    if pairs:
        yield "%files" + (" from build" if from_build else "")
        yield from (f"    {source} {target}" for source, target in pairs)
        yield ""


def _post(
    instructions: Sequence[Instruction], *, before: Sequence[str] = (), after: Sequence[str] = ()
) -> Iterator[str]:
    yield "%post -c /bin/bash"
    exports = (f"export {name}={shlex.quote(value)}" for name, value in _variables(instructions).items())
    yield from (f"    {line}" for line in ("set -euo pipefail", *before, *exports))
    for item in instructions:
        if isinstance(item, Run):
            yield ""
            yield f"    # {_text(item.title)}"
            yield from (f"    {line}" for line in item.lines)
    if after:
        yield ""
        yield "    # what was needed for this stage only"
        yield from (f"    {line}" for line in after)


def _variables(instructions: Sequence[Instruction]) -> dict[str, str]:
    return {
        name: value
        for item in instructions
        if isinstance(item, Env)
        for name, value in item.variables.items()
    }
