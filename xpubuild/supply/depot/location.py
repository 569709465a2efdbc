"""Parses ``--mirror`` and ``--store``, a folder or a URL on a server, and says whom to believe.

A wheel from a store is installed, so whoever can put one there runs programs as you. A folder is believed if
only root, you and the accounts of ``trust.owners`` can change it. Any other store (a folder that a group or
everybody can write to or that is somebody else's, a server) is believed if the configuration names it in
``trust.stores``.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import field
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from xpubuild.engine.places import WRITABLE_BY_OTHERS
from xpubuild.errors import UsageError
from xpubuild.frozen import frozen
from xpubuild.machine.oneapi_trust import OWNERS_VARIABLE, owners

STORES_VARIABLE = "XPUBUILD_TRUSTED_STORES"
_UNNAMED = ", and no [trust] stores of your configuration names it"
_PORTS = {"http": 80, "https": 443}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*|[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?")
_ONE_SLASH = re.compile(r"https?:/(?!/)", re.IGNORECASE)


@frozen
class Location:
    """Where a mirror is served. ``login`` is "user:password" as it stood in the URL: never shown.

    ``url`` is what may be shown and written down: without a login, or a slash at its end.
    """

    url: str
    login: str = field(default="", repr=False, compare=False)

    @property
    def link(self) -> str:
        """The URL as it is asked. A secret."""
        return self.url.replace("://", f"://{self.login}@", 1) if self.login else self.url

    @property
    def folder_name(self) -> str:
        """The name of its copy's folder: the host, and a hash of the URL without any login."""
        # Copies of earlier versions stay beside, until the cache is cleaned.
        digest = hashlib.sha256(f"depot/1 {self.url}".encode("utf-8", "surrogateescape")).hexdigest()
        return f"{re.sub(r'[^A-Za-z0-9._-]', '-', urlsplit(self.url).hostname or '')}-{digest[:12]}"

    def __str__(self) -> str:
        return self.url


def parse_place(text: str, what: str) -> Path | Location:
    """Return the folder, made absolute, or the location on a server that ``what`` (--mirror, a store) names.

    Raises:
        UsageError: the URL is of a scheme that is not known, or cannot be used; no credential is shown.
    """
    try:
        return _parsed(text)
    except ValueError as error:
        fix = "pass a folder or a URL: http://HOST/PATH, https://HOST/PATH or file:///PATH"
        raise UsageError(f"{what} cannot be {_shown(text)}", why=str(error), fix=fix) from None


def _parsed(text: str) -> Path | Location:
    """Return a place; a ValueError says why it is none, without a credential."""
    scheme, separator, _ = text.partition("://")
    if _ONE_SLASH.match(text):
        raise ValueError("a URL has two slashes after its scheme")
    if not separator or "/" in scheme:
        return Path(text).expanduser().absolute()
    if _CONTROL.search(text):
        raise ValueError("it has a control character")
    try:
        parts = urlsplit(text)
        host, port, scheme = (parts.hostname or "").lower(), parts.port, scheme.lower()
    except ValueError:
        # The text of the exception quotes what may be a part of a password.
        raise ValueError("it cannot be read as a URL") from None
    if scheme == "file":
        return _folder(host, parts)
    if scheme not in _PORTS:
        raise ValueError(f"its scheme '{scheme}' is not supported")
    if not _HOST.fullmatch(host):
        raise ValueError("it has no host" if not host else "its host is not valid")
    if parts.query or parts.fragment or any(map(str.isspace, text)):
        raise ValueError("the URL of a mirror must not have a query ('?'), a fragment ('#') or a space")
    name = f"[{host}]" if ":" in host else host
    server = name if port in (None, _PORTS[scheme]) else f"{name}:{port}"
    return Location(f"{scheme}://{server}{parts.path.rstrip('/')}", parts.netloc.rpartition("@")[0])


def _folder(host: str, parts: SplitResult) -> Path:
    folder = unquote(parts.path, errors="surrogateescape")
    if host not in ("", "localhost") or not parts.path.startswith("/"):
        raise ValueError("file:// needs an absolute path of this machine, as in file:///srv/mirror")
    if parts.query or parts.fragment or _CONTROL.search(folder):
        raise ValueError("write a '?' or '#' in a folder's name as %3F or %23; a NUL is not allowed")
    return Path(folder)


def _shown(text: str) -> str:
    head, separator, rest = text.partition("://")
    bare = f"{head.rpartition('@')[2]}{separator}{rest.rpartition('@')[2]}"
    return _CONTROL.sub("?", re.split(r"[?#]", bare, maxsplit=1)[0])


@frozen
class Trust:
    """``stores`` are URLs and paths that are believed, ``owners`` the ids of users."""

    stores: frozenset[str] = frozenset()
    owners: frozenset[int] = frozenset()

    def names(self, place: Path | Location) -> bool:
        """Whether a store is named in the configuration."""
        return _written(place) in self.stores

    def why_foreign(self, status: os.stat_result) -> str:
        """Return why somebody who is not believed can change what has this status; "" where nobody can."""
        if status.st_uid not in self.owners:
            return f"it belongs to the user with the number {status.st_uid}"
        return "others can write to it" if status.st_mode & WRITABLE_BY_OTHERS else ""

    def why_not(self, place: Path | Location, folders: Collection[os.stat_result]) -> str:
        """Return why a store is not believed, "" where it is; ``folders`` are those of a folder store."""
        if self.names(place):
            return ""
        if isinstance(place, Location):
            return f"it is on a server{_UNNAMED}"
        why = next(filter(None, map(self.why_foreign, folders)), "")
        return why and f"{why}{_UNNAMED}"


def trust_from(environ: Mapping[str, str]) -> Trust:
    """Return whom the configuration believes; its files set these variables.

    Raises:
        UsageError: it names an account that is not known, or something that is no store.
    """
    named = filter(None, map(str.strip, environ.get(STORES_VARIABLE, "").split(",")))
    return Trust(
        frozenset(_written(parse_place(text, "a store")) for text in named),
        frozenset({0, os.geteuid(), *owners(environ.get(OWNERS_VARIABLE, ""))}),
    )


def _written(place: Path | Location) -> str:
    return place.url if isinstance(place, Location) else os.path.realpath(place)
