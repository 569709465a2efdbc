"""What an image is asked to be. Held against the recipe and the base before anything is rendered; pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Literal

from xpubuild.distribution import lacking, note
from xpubuild.errors import UnsatisfiableError, UsageError
from xpubuild.frozen import frozen
from xpubuild.images.bases import Base
from xpubuild.install.release import refused
from xpubuild.install.target import Choice
from xpubuild.machine.oneapi_bundles import package_for
from xpubuild.recipe.constraints import solve
from xpubuild.recipe.model import Recipe
from xpubuild.recipe.situation import Situation
from xpubuild.untrusted import NOT_ON_ONE_LINE

Format = Literal["containerfile", "apptainer"]
#: The folder of files beside a rendered image that it copies.
CONTEXT = "xpubuild-image"


@frozen
class ImageRequest:
    """A recipe, resolved for one base.

    Args:
        choice: the options held against the recipe, as of an install.
        recipe_word: how the recipe is named inside the image: by its name, or as a file.
        base: the system.
        form: how the image is written.
        xpubuild: what pip installs as xpubuild: a requirement, or the name of a file in ``CONTEXT``.
        files: contents of the files in ``CONTEXT`` that the recipe consists of, by their paths there.
    """

    choice: Choice
    recipe_word: str
    base: Base
    form: Format
    xpubuild: str
    files: Mapping[str, str]

    @property
    def recipe(self) -> Recipe:
        """The recipe."""
        return self.choice.recipe

    @property
    def is_xpu(self) -> bool:
        """Whether the image is for the GPU."""
        return self.choice.device == "xpu"

    @property
    def oneapi_package(self) -> str:
        """The package of Intel's repository that has the oneAPI of the recipe."""
        return package_for(self.recipe.needs.oneapi or "")

    def options(self) -> tuple[str, ...]:
        """Return the options of an install that decide what is built."""
        return tuple(self._options())

    def _options(self) -> Iterator[str]:
        asked = self.choice.options
        yield from ("--target", self.choice.device)
        for option, names in (("--with", asked.with_), ("--without", asked.without), ("--arch", asked.arch)):
            if names:
                yield from (option, ",".join(names))
        if asked.cxx11_abi is not None:
            yield from ("--cxx11-abi", asked.cxx11_abi)
        if asked.variant is not None:
            yield from ("--variant", asked.variant)

    def remade_by(self, recipe: str) -> str:
        """Return the command that renders this image."""
        words = ["xpubuild", "image", recipe, *self.options(), "--base", self.base.name]
        return shlex.join([*words, *(["--format", self.form] if self.form != "containerfile" else [])])

    def last_steps(self) -> tuple[str, ...]:
        """Return the steps that together bring every component, without the test on the device."""
        chosen = self.recipe.components
        needed = {need for name in self.choice.components for need in chosen[name].needs}
        return tuple(
            f"{name}.install" if chosen[name].kind == "source" else name
            for name in self.choice.components
            if name not in needed
        )


def resolved(
    choice: Choice, *, recipe_word: str, base: Base, form: Format, xpubuild: str, files: Mapping[str, str]
) -> ImageRequest:
    """Return the request for what was chosen, held against the base.

    Raises:
        UsageError, RecipeError, UnsatisfiableError: it cannot be built as asked, or not on this base.
    """
    for word in (recipe_word, xpubuild, *choice.arch, *files):
        if NOT_ON_ONE_LINE.search(word):
            raise UsageError(
                f"{word!r} cannot be in an image",
                why="it has a line break or a control character, and would begin an instruction",
                fix="use another name",
            )
    found = solve(
        choice.recipe,
        Situation(
            target=choice.device,
            python=(base.python_version,),
            gcc=base.gcc,
            host_compiler="GNU",
            cxx11_abi=choice.options.abi,
            arch=choice.arch or None,
            components=choice.components,
        ),
    )
    if found.builds == "no":
        error = refused(choice.recipe, found)
        error.what = f"'{choice.recipe.name}' cannot be built on {base.title}"
        error.fix = f"use another --base; {error.fix}".rstrip("; ")
        raise error
    if choice.device == "xpu":
        _require_drivers(base)
    return ImageRequest(choice, recipe_word, base, form, xpubuild, files)


def _require_drivers(base: Base) -> None:
    """Refuse a base on which no package brings the GPU's user space for today's runtimes."""
    if reason := lacking("recent-loader", base.system):
        raise UnsatisfiableError(
            f"an image for XPU cannot be made from {base.title}",
            why=note("driver", base.system) or reason,
            fix="use --base ubuntu-24.04 or ubuntu-22.04, or --target cpu",
        )
