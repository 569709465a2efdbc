"""``xpubuild image --json``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict


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
    """What pip installs as xpubuild in the build stage."""
    text: str
    """The Containerfile or definition."""
    files: list[str]
    """What it copies, by the path beside it."""
    output: str | None
    """Where it was written; null for standard output."""
    build: ImageBuild | None
    """Null if it was not built."""
