"""Removes from the values of a lock: credentials, paths of one machine, bytes that are not text. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from xpubuild.engine.redact import Redactor, recordable
from xpubuild.install import lock_model as model

_REDACT = Redactor()


def clean_text(text: str) -> str:
    """Return a text with the bytes that are no UTF-8 written as escapes."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def clean_url(url: str) -> str:
    """Return a URL without user, password and query; the user of ssh stays."""
    return recordable(clean_text(url)) if "://" in url else clean_text(url)


def clean_values(variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables without the values of those that have the name of a secret."""
    return {clean_text(name): clean_text(value) for name, value in _REDACT.environment(variables).items()}


def clean_environment(difference: Mapping[str, Any], places: Iterable[tuple[str, str]]) -> model.Environment:
    """Return oneAPI's environment difference with words instead of the machine's places.

    ``places`` are (folder, word) pairs, such as the root of oneAPI and {oneapi}; longer folders count first.
    """
    ordered = sorted((pair for pair in places if len(pair[0]) > 1), key=lambda pair: -len(pair[0]))

    def clean(text: str) -> str:
        for folder, word in ordered:
            text = text.replace(folder, word)
        return clean_text(text)

    found = _REDACT.environment(difference.get("set", {}))
    return model.Environment(
        set={clean_text(name): clean(value) for name, value in found.items()},
        unset=tuple(sorted(map(clean_text, difference.get("unset", ())))),
        paths={
            clean_text(name): model.PathChange(
                prepend=tuple(map(clean, change["prepend"])),
                append=tuple(map(clean, change["append"])),
                remove=tuple(map(clean, change["remove"])),
            )
            for name, change in difference.get("paths", {}).items()
        },
    )
