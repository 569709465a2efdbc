"""Removes secrets from all output before it reaches a log or the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

MASK = "****"
# The last @ before the path ends the credentials, as for curl and git. The scheme is bounded: a very long
# word would otherwise be searched anew from each of its letters.
_URL_CREDENTIALS = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]{0,30}://)(?P<secret>[^/\s'\"]+)@")
_SECRET_NAME = re.compile(
    r"(TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|PRIVATE_?KEY|AUTH_?HEADER)", re.IGNORECASE
)
_QUERY_SECRET = re.compile(
    r"(?P<name>[?&][^=&\s'\"]{0,60}(?:token|secret|passw|key|auth|sig)[^=&\s'\"]{0,60}=)[^&\s'\"#]+",
    re.IGNORECASE,
)
# As HTTP has it, and as Python and JSON print a mapping of headers.
_AUTH_HEADER = re.compile(
    r"(?P<name>(?:proxy-)?authorization['\"]?\s*:\s*['\"]?(?:basic|bearer|token|negotiate|digest)\s+)"
    r"[^\s'\"]+",
    re.IGNORECASE,
)
# A shorter value ("1", "yes") would mask unrelated text all over the log.
_SHORTEST_SECRET = 6


class Redactor:
    """Replaces credentials in URLs, authorization headers and the values of secret-looking variables."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        ordered = sorted({s for s in secrets if len(s) >= _SHORTEST_SECRET}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Redactor:
        """Know the values of variables with a secret's name, and the passwords in URLs of all the others."""
        return cls(_secrets_of(environment))

    def __call__(self, text: str) -> str:
        """Return ``text`` without secrets."""
        if self._known is not None:
            text = self._known.sub(MASK, text)
        if "://" in text:
            text = _URL_CREDENTIALS.sub(rf"\g<scheme>{MASK}@", text)
            text = _QUERY_SECRET.sub(rf"\g<name>{MASK}", text)
        if "uthorization" in text.casefold():
            text = _AUTH_HEADER.sub(rf"\g<name>{MASK}", text)
        return text

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return a copy of an environment that may be shown."""
        return {
            name: MASK if _SECRET_NAME.search(name) else self(value) for name, value in environment.items()
        }


def _secrets_of(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        if _SECRET_NAME.search(name):
            # A key of several lines is printed line by line.
            yield from value.splitlines()
        for found in _URL_CREDENTIALS.finditer(value):
            yield found["secret"].partition(":")[2]
