"""An image as two stages, what is built and what is run: both, and the formats, are in ``templates``.

Layers go from what changes least to what changes most: packages, oneAPI, xpubuild, the recipe, the build. The
workspace is in a cache of the builder, so a changed recipe builds only the steps that it changes.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from xpubuild.distribution import install, install_oneapi
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


def _of_intel(base: Base, title: str, commands: Sequence[str]) -> dict[str, object]:
    """Return packages of Intel's repositories; what the commands say as comments goes into the title."""
    comments = [line.lstrip("# ") for line in commands if line.startswith("#")]
    lines = base.unattended(line for line in commands if not line.startswith("#"))
    return {"title": "; ".join([title, *comments]), "lines": lines}


def _pairs(values: Mapping[str, str]) -> str:
    quoted = {name: json.dumps(on_one_line(value), ensure_ascii=False) for name, value in values.items()}
    return " \\\n    ".join(f"{name}={value.replace('$', chr(92) + '$')}" for name, value in quoted.items())


def _text(text: str) -> str:
    """Return a text that begins no section, and names no argument of the build (``{{ NAME }}``)."""
    return on_one_line(text).replace("{{", "{ {")


def render(request: ImageRequest) -> str:
    """Return the text of the Containerfile or the Apptainer definition."""
    recipe, base = request.recipe, request.base
    intel: dict[str, dict[str, object]] = {}
    if request.is_xpu:
        oneapi = install_oneapi([package_for(recipe.needs.oneapi or "")], base.system, sudo="")
        compiler = install(["ocloc", "level-zero-headers"], base.system, sudo="")
        intel = {
            "oneapi": _of_intel(base, "oneAPI", oneapi),
            "compiler": _of_intel(base, "offline compiler for GPU code", compiler),
            "driver": _of_intel(
                base, "user space of the GPU driver", install(["driver"], base.system, sudo="")
            ),
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
        request=request, recipe=recipe, base=base, device=request.choice.device, xpu=request.is_xpu,
        components=request.choice.components, intel=intel, cache=CACHE, context=CONTEXT,
        requirements=REQUIREMENTS,
        caches={f"{base.name}-{name}": folder for name, folder in base.manager["caches"].items()},
        imported=[f"{name}.import" for name in _WITH_CHECKS if name in request.choice.components],
    )  # fmt: skip
