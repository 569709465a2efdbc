"""Words that the user wants removed from a report, such as the name of a project."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from xpubuild.errors import UsageError

MASK = "REDACTED"
#: Shorter words would leave nothing readable.
_SHORTEST = 3


class Words:
    """Replaces words, also inside longer words, in any case and as escaped in JSON, Markdown and URLs.

    Raises:
        UsageError: a word is so short that it would match everywhere.
    """

    def __init__(self, words: Iterable[str]) -> None:
        given = [word.strip() for word in words]
        for word in given:
            if len(word) < _SHORTEST:
                raise UsageError(
                    f"--redact '{word}' is too short",
                    why=f"short words match everywhere; a word needs at least {_SHORTEST} characters",
                    fix="pass a longer word",
                )
        forms = {form for word in given for spelt in _spelt(word) for form in _forms(spelt)}
        # The longest first: of two words the one that holds the other is replaced whole.
        ordered = sorted((_spaced(form) for form in forms), key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join(ordered), re.IGNORECASE) if ordered else None

    def __call__(self, text: str) -> str:
        """Return ``text`` without the words."""
        return self._pattern.sub(MASK, text) if self._pattern is not None else text

    def tree(self, value: object) -> object:
        """Return plain JSON without the words; names of keys that could be a document's own are left."""
        if isinstance(value, Mapping):
            return {self._key(str(name)): self.tree(item) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.tree(item) for item in value]
        return self(value) if isinstance(value, str) else value

    def _key(self, name: str) -> str:
        return name if name.isidentifier() else self(name)


def _spelt(word: str) -> set[str]:
    """Return how a word may stand in other case (as STRASSE for straße), and with accents of their own."""
    cases = {word, word.upper(), word.casefold()}
    return {unicodedata.normalize(form, spelt) for spelt in cases for form in ("NFC", "NFD")}


def _forms(word: str) -> Iterable[str]:
    """Yield a word as it is, and as JSON, a table of Markdown and a URL write it."""
    yield word
    yield json.dumps(word, ensure_ascii=False)[1:-1]
    yield json.dumps(word)[1:-1]
    yield word.replace("|", "\\|").replace("<", "&lt;")
    yield quote(word)
    yield quote(word, safe="")


def _spaced(form: str) -> str:
    """Return a pattern for a form, whatever white space is between its parts."""
    return r"\s+".join(re.escape(part) for part in form.split())
