"""``xpubuild image``: from what was asked to a rendered file, its files, and the image."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import platformdirs
import yaml
from packaging.version import InvalidVersion, Version

from xpubuild.engine import files
from xpubuild.engine.events import Sink, StepOutput
from xpubuild.engine.process import Cancel
from xpubuild.engine.reporter import Teller
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import UsageError
from xpubuild.frozen import frozen
from xpubuild.images.bases import base_named
from xpubuild.images.builder import Job, build, chosen_builder
from xpubuild.images.render import render
from xpubuild.images.request import CONTEXT, Format, ImageRequest, resolved
from xpubuild.images.stages import image_of
from xpubuild.install.choose import choose
from xpubuild.install.options import Options
from xpubuild.install.resolve import requirement_texts
from xpubuild.install.target import Choice
from xpubuild.recipe.load import load
from xpubuild.resources import recipes_dir

_NAMES: Mapping[Format, str] = {"containerfile": "Containerfile", "apptainer": "image.def"}


@frozen
class Rendered:
    """A rendered file, and what it copies from ``CONTEXT``: by path there, a text or the file itself."""

    request: ImageRequest
    text: str
    files: Mapping[str, str | Path]

    def write(self, file: Path) -> None:
        """Write the file, and beside it the folder with what it copies."""
        with files.explained(file.parent, "writing the image"):
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
            except FileNotFoundError as error:  # below /proc, say
                raise UsageError(
                    f"{file.parent} cannot be created",
                    why=str(error.strerror),
                    fix="choose a folder where you have write permission with --output",
                ) from error
            for name, content in self.files.items():
                target = file.parent / CONTEXT / name
                target.parent.mkdir(parents=True, exist_ok=True)
                files.write_atomic(
                    target, content.read_bytes() if isinstance(content, Path) else content.encode()
                )
            files.write_atomic(file, self.text.encode())


@frozen
class Asked:
    """What the command line says about an image; ``more`` are options of the builder."""

    base: str
    form: Format
    xpubuild: str
    builder: str | None = None
    tag: str | None = None
    more: tuple[str, ...] = ()

    def render(self, options: Options) -> Rendered:
        """Return the image as text.

        Raises:
            UsageError, RecipeError, UnsatisfiableError: it cannot be built as asked.
        """
        if options.recipe is None:
            raise UsageError("an image needs a recipe", fix="name one", commands=("xpubuild recipes list",))
        base, (what, own) = base_named(self.base), _program(self.xpubuild)
        loaded = load(options.recipe)
        choice = choose(options, loaded)
        shipped = loaded.path.parent == recipes_dir()
        given = {} if shipped else _recipe_files(choice)
        asked = resolved(
            choice,
            recipe_word=options.recipe if shipped else loaded.path.name,
            base=base, form=self.form, xpubuild=what, files=given,
        )  # fmt: skip
        return Rendered(asked, render(image_of(asked), self.form), {**given, **own})

    def build(self, rendered: Rendered, file: Path | None, cancel: Cancel, sink: Sink) -> dict[str, Any]:
        """Build what was rendered, beside ``file`` or in a folder that is removed; return how.

        Raises:
            XpuBuildError: see ``builder``.
        """
        builder = chosen_builder(self.form, self.builder)
        if file is not None:
            return self._build(rendered, file, builder, cancel, sink)
        with scratch_folder("image") as folder:
            place = folder / _NAMES[self.form]
            rendered.write(place)
            return self._build(rendered, place, builder, cancel, sink)

    def _build(
        self, rendered: Rendered, file: Path, builder: str, cancel: Cancel, sink: Sink
    ) -> dict[str, Any]:
        own = platformdirs.user_cache_path("xpubuild") / "images"
        name = default_tag(rendered.request)
        tag = self.tag or name
        if self.form == "apptainer":
            tag = str(Path(self.tag or f"{name.replace(':', '-').rpartition('/')[2]}.sif").absolute())
        job = Job(builder, self.form, file, file.parent, tag, own / "cache", self.more)
        log = own / f"{hashlib.sha256(tag.encode()).hexdigest()[:12]}.log"
        teller = Teller(sink)
        title = f"build with {builder}"
        with teller.run(name, tag, [("image", title)]), teller.doing("image", title):
            build(
                job,
                log=log,
                on_line=lambda line: sink.emit(StepOutput(time.time(), "image", line)),
                cancel=cancel,
            )
        return {"builder": builder, "argv": list(job.argv), "tag": tag, "log": str(log)}


def document(rendered: Rendered, file: Path | None, built: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the ``xpubuild.image/1`` document."""
    request = rendered.request
    return {
        "schema": "xpubuild.image/1",
        "recipe": request.recipe.name,
        "target": request.choice.device,
        "components": list(request.choice.components),
        "base": request.base.name,
        "base_image": request.base.image,
        "format": request.form,
        "xpubuild": request.xpubuild,
        "text": rendered.text,
        "files": sorted(f"{CONTEXT}/{name}" for name in rendered.files),
        "output": str(file) if file else None,
        "build": dict(built) if built else None,
    }


def default_tag(request: ImageRequest) -> str:
    """Return the name of an image that nobody named."""
    return f"localhost/xpubuild:{request.recipe.name}-{request.choice.device}-{request.base.name}"


def _program(asked: str) -> tuple[str, dict[str, Path]]:
    """Return what pip installs, and the file that it is, for a version, a wheel or an sdist."""
    path = Path(asked).expanduser()
    if asked.endswith((".whl", ".tar.gz")):
        if not path.is_file() or not path.name.startswith("xpubuild-"):
            raise UsageError(
                f"{asked} is no wheel or sdist of xpubuild",
                why="--xpubuild takes a version, or such a file under its own name"
                + ("" if path.is_file() else "; there is no such file"),
                fix="build one in a checkout",
                commands=("python3 -m pip wheel --no-deps --wheel-dir dist .",),
            )
        return path.name, {path.name: path.absolute()}
    try:
        return f"xpubuild=={Version(asked)}", {}
    except InvalidVersion:
        raise UsageError(
            f"'{asked}' is no version of xpubuild",
            why="--xpubuild takes a version such as 0.2.0, or a wheel or sdist",
            fix="correct the version",
        ) from None


def _recipe_files(choice: Choice) -> dict[str, str]:
    """Return a recipe of a site as files that need no others: merged with what it extends."""
    merged = {name: value for name, value in choice.loaded.document.items() if name != "extends"}
    return {
        "recipe/recipe.yaml": yaml.safe_dump(merged, sort_keys=False, allow_unicode=True),
        **{f"recipe/{name}": text for name, text in requirement_texts(choice).items()},
    }
