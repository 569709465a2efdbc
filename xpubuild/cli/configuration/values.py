"""A value of a file as the option takes it, or why it does not."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xpubuild.cli.configuration.model import Kind, Setting, Value
from xpubuild.errors import did_you_mean

_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_LISTS = frozenset({"texts", "folders"})
_PATHS = frozenset({"path", "place", "folders"})


class WrongValueError(ValueError):
    """The value is not what the setting takes; the message says what it takes."""


def converted(setting: Setting, value: Any, folder: Path, environ: Mapping[str, str]) -> Value:
    """Return a value as click takes it. Paths are relative to ``folder``, that of the file.

    Raises:
        WrongValueError: it is not what the setting takes.
    """
    if setting.kind == "flag":
        if not isinstance(value, bool):
            raise WrongValueError("must be true or false, without quotes")
        return value
    if setting.kind == "number":
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise WrongValueError("must be a number, without quotes")
        return float(value)
    if setting.kind == "lines":
        return [_text(item) for item in (value if isinstance(value, list) else [value])]
    if setting.kind in _LISTS:
        given = value if isinstance(value, list) else [value]
        texts = [part for item in given for part in _split(setting, _text(item, setting.kind))]
        return [_path(text, folder, environ) for text in texts] if setting.kind == "folders" else texts
    text = _text(value, setting.kind)
    _require_form(setting, text)
    if setting.kind == "path" or (setting.kind == "place" and "://" not in text):
        return _path(text, folder, environ)
    return text


def _require_form(setting: Setting, text: str) -> None:
    if setting.form is not None and not re.fullmatch(setting.form.pattern, text):
        raise WrongValueError(f"must be {setting.form.words}")
    if setting.kind == "choice" and text not in setting.choices:
        raise WrongValueError(
            f"must be one of {', '.join(setting.choices)}{did_you_mean(text, setting.choices)}"
        )
    if setting.kind == "jobs" and text != "auto" and not (text.isdecimal() and int(text) > 0):
        raise WrongValueError("must be a number of at least 1, or auto")


def _text(value: Any, kind: Kind = "text") -> str:
    if kind in _PATHS and not isinstance(value, str):
        raise WrongValueError("must be text in quotes")
    # Numbers are welcome where an option takes text: jobs = 8, cxx11-abi = 1.
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise WrongValueError("must be text in quotes")
    text = str(value)
    if not text.strip():
        raise WrongValueError("is empty; remove the line, or give it a value")
    if not text.isprintable():
        raise WrongValueError("has a line break or a control character")
    return text


def _split(setting: Setting, text: str) -> list[str]:
    parts = text.split(os.pathsep if setting.kind == "folders" else ",")
    return [part.strip() for part in parts if part.strip()]


def _path(text: str, folder: Path, environ: Mapping[str, str]) -> str:
    """Return an absolute path: a site's file says /scratch/$USER for everybody."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if not environ.get(name):
            raise WrongValueError(f"the environment has no variable {name}")
        return environ[name]

    return str(folder / Path(_VARIABLE.sub(value, text)).expanduser())
