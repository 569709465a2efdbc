"""An image as text: a Containerfile, or an Apptainer definition. The texts are in ``templates``."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from xpubuild.images.model import CACHE, USER, Image
from xpubuild.images.request import Format
from xpubuild.untrusted import on_one_line


def _pairs(values: Mapping[str, str]) -> str:
    quoted = {name: json.dumps(on_one_line(value), ensure_ascii=False) for name, value in values.items()}
    return " \\\n    ".join(f"{name}={value.replace('$', chr(92) + '$')}" for name, value in quoted.items())


def _text(text: str) -> str:
    """Return a text that begins no section, and names no argument of the build (``{{ NAME }}``)."""
    return on_one_line(text).replace("{{", "{ {")


def render(image: Image, form: Format) -> str:
    """Return the text of the file."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")), undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - shell, no markup; what is not ours is quoted or on one line
    )  # fmt: skip
    environment.filters |= {
        "line": on_one_line, "text": _text, "quote": shlex.quote, "words": shlex.join, "pairs": _pairs,
    }  # fmt: skip
    return environment.get_template(f"{form}.j2").render(image=image, cache=CACHE, user=USER)
