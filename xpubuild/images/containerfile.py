"""An image as a Containerfile, for podman, buildah and docker. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence

from xpubuild.images.model import Copy, Env, Image, Instruction, Run, User
from xpubuild.untrusted import on_one_line

_GAP = " \\\n    "


def containerfile(image: Image) -> str:
    """Return the text of the file."""
    return "\n".join(_lines(image)) + "\n"


def _lines(image: Image) -> Iterator[str]:
    # After a comment that is no directive, no comment can be one: a title 'syntax=…' would name the program
    # that reads this file.
    yield "# For podman, buildah and docker"
    yield _comment(image.title)
    yield _comment(f"Made by: {image.remade_by}")
    yield f"# hadolint global ignore={','.join(image.base.manager['hadolint'])}"
    yield ""
    yield from _stage(image, "build", image.build)
    yield ""
    yield from _stage(image, "runtime", image.runtime)
    yield ""
    yield f"WORKDIR /home/{_user(image)}"
    yield "LABEL " + _GAP.join(f"{name}={_quoted(value)}" for name, value in image.labels.items())
    yield 'CMD ["python"]'


def _user(image: Image) -> str:
    return next(item.name for item in image.runtime if isinstance(item, User))


def _stage(image: Image, name: str, instructions: Sequence[Instruction]) -> Iterator[str]:
    yield f"FROM {image.base.image} AS {name}"
    yield 'SHELL ["/bin/bash", "-o", "pipefail", "-c"]'
    for item in instructions:
        yield ""
        yield from _instruction(item)


def _instruction(item: Instruction) -> Iterator[str]:
    if isinstance(item, Run):
        yield _comment(item.title)
        mounts = [
            *_caches(item),
            *(f"--mount=type=bind,from=build,source={path},target={path}" for path in item.mounts),
        ]
        yield "RUN " + _GAP.join([*mounts, " \\\n && ".join(item.lines)])
    elif isinstance(item, Copy):
        yield _comment(item.title)
        yield shlex.join(["COPY", *(["--from=build"] if item.from_build else []), *item.sources, item.target])
    elif isinstance(item, Env):
        yield "ENV " + _GAP.join(f"{name}={_quoted(value)}" for name, value in item.variables.items())
    else:
        yield f"RUN useradd --no-log-init --create-home --uid {item.number} {item.name}"
        yield f"USER {item.number}"


def _caches(item: Run) -> Iterator[str]:
    """Yield the mounts. The last one's lock keeps two builds apart, and is the only one.

    Of several locks, buildah before 1.29 and podman before 4.4 release only the last: a later RUN would wait
    for ever (containers/buildah issue 4342).
    """
    last = [*item.caches][-1:]
    for name, folder in item.caches.items():
        sharing = "locked" if name in last else "shared"
        yield f"--mount=type=cache,id=xpubuild-{name},target={folder},sharing={sharing}"
    if item.indexes:
        yield "--mount=type=secret,id=pip.conf,target=/etc/pip.conf"


def _comment(text: str) -> str:
    return f"# {on_one_line(text)}"


def _quoted(value: str) -> str:
    return json.dumps(on_one_line(value), ensure_ascii=False).replace("$", "\\$")
