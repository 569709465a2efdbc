"""Secrets never reach a log: they are taken out at the sink, whatever printed them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_MASK = "****"
_URL_CREDENTIALS = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*://)(?P<secret>[^/\s@'\"]+)@")
_SECRET_NAME = re.compile(r"(TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|PRIVATE_?KEY|AUTH_?HEADER)", re.IGNORECASE)
_AUTH_HEADER = re.compile(r"(?P<name>(?:proxy-)?authorization:\s*(?:basic|bearer|token)\s+)\S+", re.IGNORECASE)
# A shorter value ("1", "yes") would mask unrelated text all over the log.
_SHORTEST_SECRET = 6


class Redactor:
    """Replaces credentials in URLs, authorization headers and the values of secret-looking variables."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        ordered = sorted({s for s in secrets if len(s) >= _SHORTEST_SECRET}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Redactor:
        """Know every value whose variable name looks like a secret's."""
        return cls(value for name, value in environment.items() if _SECRET_NAME.search(name))

    def __call__(self, text: str) -> str:
        """Return ``text`` without secrets."""
        if self._known is not None:
            text = self._known.sub(_MASK, text)
        if "://" in text:
            text = _URL_CREDENTIALS.sub(rf"\g<scheme>{_MASK}@", text)
        if "uthorization" in text or "UTHORIZATION" in text:
            text = _AUTH_HEADER.sub(rf"\g<name>{_MASK}", text)
        return text

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return a copy of an environment that may be shown."""
        return {
            name: _MASK if _SECRET_NAME.search(name) else self(value) for name, value in environment.items()
        }
