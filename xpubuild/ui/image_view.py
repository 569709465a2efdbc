"""An image as text."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xpubuild.ui.parts import Commands, Facts, Part


def image_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of an ``xpubuild.image/1`` document that was written or built."""
    items = [
        ("recipe", f"{document['recipe']} for {document['target']}"),
        ("base", document["base_image"]),
    ]
    if document["output"]:
        items.append(("written", document["output"]))
    built = document["build"]
    if built:
        items += [("built", built["tag"]), ("by", built["builder"]), ("log", built["log"])]
    return (Facts(tuple(items)), *(() if built else (_next(document),)))


def _next(document: Mapping[str, Any]) -> Commands:
    file = shlex.quote(document["output"])
    if document["format"] == "apptainer":
        return Commands((f"apptainer build image.sif {file}",), "Build it")
    folder = shlex.quote(str(Path(document["output"]).parent))
    return Commands((f"podman build --format docker --file {file} --tag IMAGE {folder}",), "Build it")
