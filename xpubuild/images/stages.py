"""An image as two stages, what is built and what is run, and its text: the formats are in ``templates``.

Layers go from what changes least to what changes most: packages, oneAPI, xpubuild, the recipe, the build. The
workspace is in a cache of the builder, so a changed recipe builds only the steps that it changes.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from xpubuild.distribution import Need, install, install_oneapi
from xpubuild.frozen import frozen
from xpubuild.images.bases import Base
from xpubuild.images.program import REQUIREMENTS
from xpubuild.install.options import words_of
from xpubuild.install.target import Choice
from xpubuild.machine.oneapi_bundles import package_for
from xpubuild.recipe.model import Recipe
from xpubuild.untrusted import on_one_line

Format = Literal["containerfile", "apptainer"]
#: The folder of files beside a rendered image that it copies.
CONTEXT = "xpubuild-image"
#: Where the build stage keeps what later builds use again: the workspace, pip's files, git repositories.
CACHE = "/var/cache/xpubuild"
#: A folder of its own below the mount: buildah puts a lock file into what it keeps.
_WORKSPACES = f"{CACHE}/workspaces"
_WORKSPACE = f"{_WORKSPACES}/image"
#: The environments of xpubuild (build stage alone) and of what was built.
_PROGRAM, _VENV = "/opt/xpubuild", "/opt/venv"
_WHEELS, _RECORD, _RECIPES, _LIBRARIES = "/wheels", "/usr/share/xpubuild", "/opt/recipe", "/oneapi"
_USER, _USER_ID = "torch", 10001
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OPTIONS = {"target": "", "with_": ",", "without": ",", "arch": ",", "cxx11_abi": "", "variant": ""}
_WITH_CHECKS = ("ops", "vision", "audio")


@frozen
class ImageRequest:
    """A recipe, resolved for one base.

    ``choice`` are the options applied to the recipe, as of an install; ``recipe_word`` is how the recipe is
    named inside the image, ``xpubuild`` the wheel in ``CONTEXT`` that is installed there. ``files`` are the
    files there that a site's recipe consists of: texts, or where they are.
    """

    choice: Choice
    recipe_word: str
    base: Base
    form: Format
    xpubuild: str
    files: Mapping[str, str | Path]

    @property
    def recipe(self) -> Recipe:
        """The recipe."""
        return self.choice.recipe

    @property
    def is_xpu(self) -> bool:
        """Whether the image is for the GPU."""
        return self.choice.device == "xpu"

    def options(self) -> Iterator[str]:
        """Return the words of an install's options that decide what is built."""
        return words_of(replace(self.choice.options, target=self.choice.device), _OPTIONS)

    def remade_by(self) -> str:
        """Return the command that renders this image."""
        words = ["xpubuild", "image", self.recipe_word, *self.options(), "--base", self.base.name]
        return shlex.join([*words, *(["--format", self.form] if self.form != "containerfile" else [])])

    def last_steps(self) -> tuple[str, ...]:
        """Return the steps that together build every component, without the test on the device."""
        chosen = self.recipe.components
        needed = {need for name in self.choice.components for need in chosen[name].needs}
        return tuple(
            f"{name}.install" if chosen[name].kind == "source" else name
            for name in self.choice.components
            if name not in needed
        )


@frozen
class Instruction:
    """A step of a stage.

    ``run``: ``lines`` of shell that follow each other while none fails. ``caches`` are folders that the
    builder keeps, by the name under which it does; two builds at once take turns with the last. ``mounts``
    are folders of the build stage that are there for these lines only. Where ``indexes``, pip asks package
    indexes: the builder may hand it the user's configuration, which must not become part of the image.
    ``copy``: ``lines`` are files of the build's folder, or of the build stage, copied to ``target``.
    ``env``: ``values`` for all that follows, and for whoever runs the image.
    ``user``: a user without rights, as whom all that follows runs, and the image.
    """

    kind: Literal["run", "copy", "env", "user"]
    title: str = ""
    lines: tuple[str, ...] = ()
    caches: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[str, ...] = ()
    indexes: bool = False
    target: str = ""
    from_build: bool = False
    values: Mapping[str, str] = field(default_factory=dict)


def _built(line: str, target: str, title: str) -> Instruction:
    """Return a copy of something from the build stage."""
    return Instruction("copy", title, (line,), target=target, from_build=True)


def _build(request: ImageRequest) -> Iterator[Instruction]:
    base, recipe = request.base, request.recipe
    yield _packages(request, "build")
    if request.is_xpu:
        oneapi = package_for(recipe.needs.oneapi or "")
        yield _of_intel(request, "oneAPI", install_oneapi([oneapi], base.system, sudo=""))
        yield _for_gpu(request, "offline compiler for GPU code", ["ocloc", "level-zero-headers"])
    pip = {"pip": f"{CACHE}/pip"}
    own = {"PATH": f"{_PROGRAM}/bin:{_PATH}", "XDG_CACHE_HOME": CACHE, "PIP_CACHE_DIR": pip["pip"]}
    yield Instruction("env", values={**own, **base.row.get("env", {})})
    copied = (f"{CONTEXT}/{request.xpubuild}", f"{CONTEXT}/{REQUIREMENTS}")
    yield Instruction("copy", "xpubuild itself, and its dependencies with hashes", copied, target="/opt/")
    python = f"{_PROGRAM}/bin/python -m pip"
    hashed = f"--only-binary :all: --require-hashes --requirement /opt/{REQUIREMENTS}"
    lines = (
        f"{base.python} -m venv {_PROGRAM}",
        f"{python} install --disable-pip-version-check {hashed}",
        f"{python} install --no-index --no-deps /opt/{shlex.quote(request.xpubuild)}",
        f"{python} check",
    )
    yield Instruction("run", "xpubuild", lines, pip, indexes=True)
    if request.files:
        yield Instruction("copy", "recipe", (f"{CONTEXT}/recipe",), target=_RECIPES)
    name = "-".join((recipe.name, request.choice.device, base.name))
    kept = {**pip, "git": f"{CACHE}/xpubuild", name: _WORKSPACES}
    yield Instruction("run", "build and test", tuple(_commands(request)), kept, indexes=True)


def _commands(request: ImageRequest) -> Iterator[str]:
    words = [
        "xpubuild", "install", f"{_RECIPES}/recipe.yaml" if request.files else request.recipe_word,
        *request.options(), "--python", request.base.python,
        "--workspace", _WORKSPACE, "--wheel-dir", _WHEELS,
    ]  # fmt: skip
    yield f"mkdir -p {_WHEELS}"
    receipt = f"--json > {_WHEELS}/receipt.json"
    if not request.is_xpu:
        yield f"{shlex.join(words)} {receipt}"
        return
    # The builder has no GPU: what the install would test on one is left to verify --no-gpu.
    for step in request.last_steps():
        yield f"{shlex.join([*words, '--until', step])} {receipt}"
    yield f"xpubuild verify --workspace {_WORKSPACE} --no-gpu"
    # The libraries of oneAPI that the build found: no headers, no compiler.
    folders = f"{_LIBRARIES}/etc/ld.so.conf.d/oneapi.conf"
    yield f"mkdir -p {_LIBRARIES}/etc/ld.so.conf.d"
    path = f"xpubuild run --workspace {_WORKSPACE} -- printenv LD_LIBRARY_PATH"
    yield f"{path} | tr : '\\n' | grep ^/opt/intel/ > {folders}"
    there = f'"{_LIBRARIES}${{folder}}"'
    copy = (
        f"find \"${{folder}}\" -maxdepth 1 -name '*.so*' -exec cp --archive --target-directory {there} {{}} +"
    )
    yield f"while read -r folder; do mkdir -p {there}; {copy} || exit 1; done < {folders}"


def _runtime(request: ImageRequest) -> Iterator[Instruction]:
    yield _packages(request, "runtime")
    if request.is_xpu:
        yield _for_gpu(request, "user space of the GPU driver", ["driver"])
        yield _built(f"{_LIBRARIES}/", "/", "libraries of oneAPI, without compiler and headers")
    # The hashes of all wheels: builders do not look at what a mount has, but at what is copied.
    yield _built(f"{_WHEELS}/requirements.txt", f"{_RECORD}/", "what is installed, with hashes")
    pip = (
        f"{_VENV}/bin/python -m pip install --disable-pip-version-check --no-cache-dir --no-index"
        f" --find-links {_WHEELS} --require-hashes --requirement {_RECORD}/requirements.txt"
    )
    reports = f"{_RECORD}/verify"
    lines = (
        *(["ldconfig"] if request.is_xpu else []), f"{request.base.python} -m venv {_VENV}", pip,
        f"install --directory --owner={_USER_ID} {reports}",
    )  # fmt: skip
    title = "the wheels that were built, and those that they were tested with"
    yield Instruction("run", title, lines, mounts=(_WHEELS,))
    yield Instruction("env", values={"PATH": f"{_VENV}/bin:{_PATH}"})
    yield _built(f"{_WHEELS}/receipt.json", f"{_RECORD}/", "how it was built")
    yield Instruction("user", values={"name": _USER, "number": str(_USER_ID)})
    words = [f"{_PROGRAM}/bin/xpubuild", "verify", "--python", f"{_VENV}/bin/python"]
    checks = [[*words, "--no-gpu", "--junit", f"{reports}/no-gpu.xml"]]
    if imported := [f"{name}.import" for name in _WITH_CHECKS if name in request.choice.components]:
        only = ("--device", "cpu", "--only", ",".join(imported))
        checks.append([*words, *only, "--junit", f"{reports}/import.xml"])
    yield Instruction("run", "verify", tuple(map(shlex.join, checks)), mounts=(_PROGRAM,))


def _packages(request: ImageRequest, stage: str) -> Instruction:
    lines = request.base.install(stage, request.choice.components)
    return Instruction("run", f"packages of {request.base.title}", lines, _package_caches(request))


def _for_gpu(request: ImageRequest, title: str, needs: Sequence[Need]) -> Instruction:
    return _of_intel(request, title, install(needs, request.base.system, sudo=""))


def _of_intel(request: ImageRequest, title: str, commands: Sequence[str]) -> Instruction:
    """Return packages of Intel's repositories; what the commands say as comments goes into the title."""
    comments = [line.lstrip("# ") for line in commands if line.startswith("#")]
    lines = request.base.unattended(line for line in commands if not line.startswith("#"))
    return Instruction("run", "; ".join([title, *comments]), lines, _package_caches(request))


def _package_caches(request: ImageRequest) -> dict[str, str]:
    base = request.base
    return {f"{base.name}-{name}": folder for name, folder in base.manager["caches"].items()}


def _pairs(values: Mapping[str, str]) -> str:
    quoted = {name: json.dumps(on_one_line(value), ensure_ascii=False) for name, value in values.items()}
    return " \\\n    ".join(f"{name}={value.replace('$', chr(92) + '$')}" for name, value in quoted.items())


def _text(text: str) -> str:
    """Return a text that begins no section, and names no argument of the build (``{{ NAME }}``)."""
    return on_one_line(text).replace("{{", "{ {")


def render(request: ImageRequest) -> str:
    """Return the text of the Containerfile or the Apptainer definition."""
    recipe, device = request.recipe, request.choice.device
    label = "org.opencontainers.image"
    labels = {
        f"{label}.title": recipe.title,
        f"{label}.description": f"{recipe.title}, built and verified for {device.upper()}",
        f"{label}.version": str(recipe.release or recipe.name),
        f"{label}.base.name": request.base.image,
        "xpubuild.version": request.xpubuild.split("-")[1],
        "xpubuild.recipe": recipe.name,
        "xpubuild.target": device,
    }
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")), undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - shell, no markup; what is not ours is quoted or on one line
    )  # fmt: skip
    environment.filters |= {
        "line": on_one_line, "text": _text, "quote": shlex.quote, "words": shlex.join, "pairs": _pairs,
    }  # fmt: skip
    return environment.get_template(f"{request.form}.j2").render(
        title=f"{recipe.title}: {device.upper()} on {request.base.title}",
        remade_by=request.remade_by(), base=request.base, labels=labels, cache=CACHE, user=_USER,
        build=tuple(_build(request)), runtime=tuple(_runtime(request)),
    )  # fmt: skip
