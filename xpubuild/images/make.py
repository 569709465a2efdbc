"""``xpubuild image``: from what was asked to a rendered file, its files, and the image."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import platformdirs
import yaml
from typing_extensions import TypedDict

from xpubuild.engine import files
from xpubuild.engine.environment import base_environment
from xpubuild.engine.events import Sink, StepOutput
from xpubuild.engine.failure import first_error_line
from xpubuild.engine.process import Cancel, run
from xpubuild.engine.reporter import Teller
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import BuildError, ToolchainError, UsageError
from xpubuild.frozen import frozen
from xpubuild.images.bases import base_named
from xpubuild.images.program import REQUIREMENTS, own_wheel
from xpubuild.images.stages import CACHE, CONTEXT, Format, ImageRequest, render
from xpubuild.install.choose import choose, for_python
from xpubuild.install.options import Options
from xpubuild.install.patching import patch_file
from xpubuild.install.release import refused
from xpubuild.install.resolve import requirement_texts
from xpubuild.install.target import Choice
from xpubuild.recipe.constraints import solve
from xpubuild.recipe.limits import Change
from xpubuild.recipe.load import load
from xpubuild.recipe.situation import Situation
from xpubuild.resources import recipes_dir
from xpubuild.untrusted import NOT_ON_ONE_LINE

_NAMES: Mapping[Format, str] = {"containerfile": "Containerfile", "apptainer": "image.def"}
#: What builds which format, the first that is installed is taken.
_BUILDERS: Mapping[Format, tuple[str, ...]] = {
    "containerfile": ("podman", "buildah", "docker"),
    "apptainer": ("apptainer", "singularity"),
}
#: An OCI image has no SHELL, the format of docker has; buildah keeps layers only on request.
_FLAGS = {"podman": ("--format", "docker"), "buildah": ("--format", "docker", "--layers")}
#: Variables that tell a builder where its storage, its registries and its daemon are.
_OF_BUILDERS = (
    "BUILDAH_", "CONTAINERS_", "CONTAINER_", "DOCKER_", "REGISTRY_", "STORAGE_", "APPTAINER_", "SINGULARITY_",
)  # fmt: skip


class ImageBuild(TypedDict):
    """An image that was built."""

    builder: str
    argv: list[str]
    """The builder's command; its folder is gone unless there is an output."""
    tag: str
    """Name of the image; of Apptainer, the file."""
    log: str
    """What the builder printed."""


class ImageDocument(TypedDict):
    """A container image of a recipe."""

    schema: Literal["xpubuild.image/1"]
    """Name and version."""
    recipe: str
    target: Literal["xpu", "cpu"]
    components: list[str]
    base: str
    """The base by the name that --base takes."""
    base_image: str
    """Its full name."""
    format: Literal["containerfile", "apptainer"]
    xpubuild: str
    """The wheel that is installed as xpubuild in the build stage."""
    text: str
    """The Containerfile or definition."""
    files: list[str]
    """What it copies, by the path beside it."""
    output: str | None
    """Where it was written; null for standard output."""
    build: ImageBuild | None
    """Null if it was not built."""


def require_buildable(request: ImageRequest) -> None:
    """Refuse what cannot be built on the base.

    Raises:
        UsageError: a name would begin an instruction.
        UnsatisfiableError: the base has no Python, compiler or driver that the recipe can use.
    """
    choice, base = request.choice, request.base
    for word in (request.recipe_word, request.xpubuild, *choice.arch, *request.files):
        if NOT_ON_ONE_LINE.search(word):
            raise UsageError(
                f"{word!r} cannot be in an image",
                why="it has a line break or a control character, and would begin an instruction",
                fix="use another name",
            )
    for name in request.files:
        if ".." in name.split("/") or "//" in name:
            raise UsageError(
                f"{name} cannot be in an image",
                why="it is not below the folder of the recipe",
                fix="put the file beside the recipe",
            )
    situation = Situation(
        target=choice.device, python=(base.row["python"]["version"],), gcc=base.row["gcc"],
        host_compiler="GNU", cxx11_abi=choice.options.abi, arch=choice.arch or None,
        components=choice.components, loader=base.row.get("loader"),
    )  # fmt: skip
    found = solve(choice.recipe, situation)
    if found.refused:
        error = refused(choice.recipe, found)
        verb = "built" if found.builds == "no" else "run"
        error.what = f"'{choice.recipe.name}' cannot be {verb} on {base.title}"
        error.fix = f"use another --base; {error.fix}".rstrip("; ")
        raise error


@frozen
class Rendered:
    """A rendered file, and what it copies from ``CONTEXT``: by path there, its content or the file itself."""

    request: ImageRequest
    text: str
    files: Mapping[str, str | bytes | Path]

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
                data = content.read_bytes() if isinstance(content, Path) else content
                data = data.encode() if isinstance(data, str) else data
                files.write_atomic(file.parent / CONTEXT / name, data)
            files.write_atomic(file, self.text.encode())

    def document(self, file: Path | None, built: ImageBuild | None) -> ImageDocument:
        """Return the ``xpubuild.image/1`` document."""
        request = self.request
        return {
            "schema": "xpubuild.image/1",
            "recipe": request.recipe.name,
            "target": request.choice.device,
            "components": list(request.choice.components),
            "base": request.base.name,
            "base_image": request.base.image,
            "format": request.form,
            "xpubuild": request.xpubuild,
            "text": self.text,
            "files": sorted(f"{CONTEXT}/{name}" for name in self.files),
            "output": str(file) if file else None,
            "build": built,
        }

    def build(
        self, file: Path | None, cancel: Cancel, sink: Sink, *, tag: str | None, more: Sequence[str]
    ) -> ImageBuild:
        """Build the image, beside ``file`` or in a folder that is removed; return how.

        ``more`` are options of the builder.

        Raises:
            BuildError: the builder failed; its first error is the reason.
            ToolchainError, NoSpaceError, InterruptedByUserError.
        """
        request, own = self.request, platformdirs.user_cache_path("xpubuild") / "images"
        if file is None:
            with scratch_folder("image") as folder:
                place = folder / _NAMES[request.form]
                self.write(place)
                return self.build(place, cancel, sink, tag=tag, more=more)
        builder = _installed_builder(request.form)
        name = f"{request.recipe.name}-{request.choice.device}-{request.base.name}"
        if request.form == "apptainer":
            tag = str(Path(tag or f"xpubuild-{name}.sif").absolute())
            words = ["--bind", f"{own / 'cache'}:{CACHE}", *more, tag, str(file)]
        else:
            tag = tag or f"localhost/xpubuild:{name}"
            words = [*_FLAGS.get(builder, ()), "--file", str(file), "--tag", tag, *more, str(file.parent)]
        argv = [builder, "build", *words]
        log = own / f"{hashlib.sha256(tag.encode()).hexdigest()[:12]}.log"
        (own / "cache").mkdir(parents=True, exist_ok=True)
        variables = {name: value for name, value in os.environ.items() if name.startswith(_OF_BUILDERS)}
        env = {**base_environment(), **variables, "DOCKER_BUILDKIT": "1"}
        teller, title = Teller(sink), f"build with {builder}"
        with teller.run(name, tag, [("image", title)]), teller.doing("image", title):
            with log.open("wb") as stream:
                result = run(
                    argv, env=env, cwd=file.parent, log=stream, cancel=cancel,
                    on_line=lambda line: sink.emit(StepOutput(time.time(), "image", line)),
                )  # fmt: skip
            cancel.stop_here()
            if not result.ok:
                raise BuildError(
                    f"{builder} could not build the image",
                    why=f"it {result.describe()}: {first_error_line(result.tail)}",
                    fix="correct what the log says, then run the same command again: what was built is kept",
                    commands=(f"xpubuild explain {shlex.quote(str(log))}",),
                    log=log,
                    evidence={"argv": argv, "returncode": result.returncode},
                )
        return {"builder": builder, "argv": argv, "tag": tag, "log": str(log)}


def rendered(options: Options, base_name: str, form: Format, xpubuild: Path | None = None) -> Rendered:
    """Return an image; ``xpubuild`` is the wheel that it installs, None for the xpubuild that runs.

    Raises:
        UsageError, RecipeError, UnsatisfiableError: it cannot be built as asked.
    """
    if options.recipe is None:
        raise UsageError("an image needs a recipe", fix="name one", commands=("xpubuild recipes list",))
    if options.source_dir or options.allow_dirty:
        raise UsageError(
            "an image is built from commits, not from your own tree or changes",
            fix="omit --source-dir and --allow-dirty (XPUBUILD_SOURCE_DIR, XPUBUILD_ALLOW_DIRTY)",
        )
    base, (what, own) = base_named(base_name), _program(xpubuild)
    loaded = load(options.recipe, options.with_)
    choice = for_python(choose(options, loaded), base.row["python"]["version"])
    shipped = all(folder.is_relative_to(recipes_dir()) for folder in loaded.folders)
    given: dict[str, str | Path] = {} if shipped else _recipe_files(choice)
    word = options.recipe if shipped else loaded.path.name
    request = ImageRequest(choice, word, base, form, what, given)
    require_buildable(request)
    return Rendered(request, render(request), {**given, **own})


def _installed_builder(form: Format) -> str:
    """Return the first builder of a format that is installed."""
    known, path = _BUILDERS[form], base_environment()["PATH"]
    if found := next((name for name in known if shutil.which(name, path=path)), None):
        return found
    raise ToolchainError(
        f"nothing that builds the format {form} is installed",
        why=f"looked on PATH for {', '.join(known)}",
        fix="install one of them, or write the file with --output and build it where a builder is",
        commands=("xpubuild image --help",),
    )


def _program(asked: Path | None) -> tuple[str, dict[str, str | bytes | Path]]:
    """Return the name of the wheel that is installed as xpubuild, and the files that it takes."""
    requirements = recipes_dir() / "requirements" / REQUIREMENTS
    if asked is None:
        name, content = own_wheel()
        return name, {name: content, REQUIREMENTS: requirements}
    if not (asked.is_file() and asked.name.startswith("xpubuild-") and asked.suffix == ".whl"):
        raise UsageError(
            f"{asked} is no wheel of xpubuild",
            why="--xpubuild takes such a file under its own name"
            + ("" if asked.is_file() else "; there is no such file"),
            fix="omit it, which takes the xpubuild that runs, or build one in a checkout",
            commands=("python3 -m pip wheel --no-deps --wheel-dir dist .",),
        )
    return asked.name, {asked.name: asked.absolute(), REQUIREMENTS: requirements}


def _recipe_files(choice: Choice) -> dict[str, str | Path]:
    """Return a recipe of a site as files that need no others: merged with what it extends."""
    merged = {name: value for name, value in choice.loaded.document.items() if name != "extends"}
    found: dict[str, str | Path] = {
        "recipe/recipe.yaml": yaml.safe_dump(merged, sort_keys=False, allow_unicode=True),
        **{f"recipe/{name}": text for name, text in requirement_texts(choice).items()},
    }
    sources = (item.source for item in choice.recipe.components.values() if item.source is not None)
    changes: list[Change] = [change for source in sources for change in source.patches]
    changes += [change for line in choice.recipe.toolkits for change in line.patches]
    for change in changes:
        if (place := patch_file(choice.loaded, change)) is not None:
            found[f"recipe/{change.file}"] = place
    return found
