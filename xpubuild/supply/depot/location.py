"""Parses ``--mirror``: a folder, or the URL of a mirror on a server. Pure."""

from __future__ import annotations

import hashlib
import re
from dataclasses import field
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, unquote, urlsplit

from xpubuild.errors import UsageError
from xpubuild.frozen import frozen

Scheme = Literal["http", "https"]

_PORTS = {"http": 80, "https": 443}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*|[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?")
_SHORT_HASH = 12
_ONE_SLASH = re.compile(rf"(?:{'|'.join(_PORTS)}):/(?!/)", re.IGNORECASE)


@frozen
class Location:
    """Where a mirror is served. ``login`` is "user:password" as it stood in the URL: never shown.

    ``path`` does not end with a slash.
    """

    scheme: Scheme
    host: str
    path: str
    port: int | None = None
    login: str = field(default="", repr=False, compare=False)

    @property
    def url(self) -> str:
        """The URL as it may be shown and written down: without a login."""
        return f"{self.scheme}://{self._place}"

    @property
    def link(self) -> str:
        """The URL as it is asked. A secret."""
        return f"{self.scheme}://{self.login}@{self._place}" if self.login else self.url

    @property
    def folder_name(self) -> str:
        """The name of its copy's folder: the host, and a hash of the URL without any login."""
        # Copies of earlier versions stay beside, until the cache is cleaned.
        digest = hashlib.sha256(f"depot/1 {self.scheme}://{self._place}".encode("utf-8", "surrogateescape"))
        return f"{re.sub(r'[^A-Za-z0-9._-]', '-', self.host)}-{digest.hexdigest()[:_SHORT_HASH]}"

    @property
    def _place(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}{f':{self.port}' if self.port else ''}{self.path}"

    def __str__(self) -> str:
        return self.url


def parse_mirror(text: str) -> Path | Location:
    """Return the folder, made absolute, or the location that ``--mirror`` names.

    Raises:
        UsageError: the URL is of a scheme that is not known, or cannot be used; no credential is shown.
    """
    scheme, separator, _ = text.partition("://")
    if _ONE_SLASH.match(text):
        raise _refused(text, "a URL has two slashes after its scheme")
    if not separator or "/" in scheme:
        return Path(text).expanduser().absolute()
    known = scheme.lower()
    return _folder(text) if known == "file" else _served(text, known)


def _folder(text: str) -> Path:
    parts = _parts(text)
    if parts.hostname not in (None, "localhost") or not parts.path.startswith("/"):
        raise _refused(text, "file:// needs an absolute path of this machine, as in file:///srv/mirror")
    folder = unquote(parts.path, errors="surrogateescape")
    if parts.query or parts.fragment or _CONTROL.search(folder):
        raise _refused(text, "write a '?' or '#' in a folder's name as %3F or %23; a NUL is not allowed")
    return Path(folder)


def _parts(text: str) -> SplitResult:
    if _CONTROL.search(text):
        raise _refused(text, "it has a control character")
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        # The text of the exception quotes what may be a part of a password.
        raise _refused(text, "it cannot be read as a URL") from None
    return parts


def _served(text: str, known: str) -> Location:
    parts = _parts(text)
    if known not in _PORTS:
        raise _refused(text, f"its scheme '{known}' is not supported")
    host = (parts.hostname or "").lower()
    if not _HOST.fullmatch(host):
        raise _refused(text, "it has no host" if not host else "its host is not valid")
    kept = None if parts.port == _PORTS[known] else parts.port
    if parts.query or parts.fragment or any(letter.isspace() for letter in text):
        raise _refused(text, "the URL of a mirror must not have a query ('?'), a fragment ('#') or a space")
    login = parts.netloc.rpartition("@")[0]
    return Location("https" if known == "https" else "http", host, parts.path.rstrip("/"), kept, login=login)


def _refused(text: str, why: str) -> UsageError:
    head, separator, rest = text.partition("://")
    bare = f"{head.rpartition('@')[2]}{separator}{rest.rpartition('@')[2]}"
    shown = re.split(r"[?#]", bare, maxsplit=1)[0]
    return UsageError(
        f"--mirror cannot be {_CONTROL.sub('?', shown)}",
        why=why,
        fix=("pass a folder, or the URL of a mirror: http://HOST/PATH, https://HOST/PATH or file:///PATH"),
    )
