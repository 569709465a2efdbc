"""Who may be asked with which name and password: from index URLs and netrc, never shown."""

from __future__ import annotations

import netrc
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from xpubuild.frozen import frozen

_PORTS = {"http": 80, "https": 443}
Origin = tuple[str, str, int]
Login = tuple[str, str]


def without_login(url: str) -> str:
    """Return ``url`` without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def login_of(url: str) -> Login | None:
    """Return user and password of a URL, percent-decoded; a token alone is a user without a password."""
    info, at, _ = urlsplit(url).netloc.rpartition("@")
    if not at:
        return None
    user, _, password = info.partition(":")
    return unquote(user), unquote(password)


def origin_of(url: str) -> Origin:
    """Return scheme, host and port: credentials of one are never sent to another."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    return scheme, (parts.hostname or "").lower(), parts.port or _PORTS.get(scheme, 0)


@frozen
class Credentials:
    """Logins by origin, and those of a netrc file by host."""

    by_origin: Mapping[Origin, Login] = field(default_factory=dict, repr=False)
    by_host: Mapping[str, Login] = field(default_factory=dict, repr=False)

    @classmethod
    def collect(cls, urls: Iterable[str], env: Mapping[str, str]) -> Credentials:
        """Take the logins of ``urls`` (the first of an origin counts) and of the netrc file of ``env``."""
        found: dict[Origin, Login] = {}
        for url in urls:
            login = login_of(url)
            if login is not None:
                found.setdefault(origin_of(url), login)
        return cls(found, _netrc(env))

    def also(self, urls: Iterable[str]) -> Credentials:
        """Return these with the logins of ``urls``, which come first."""
        return Credentials({**self.by_origin, **Credentials.collect(urls, {}).by_origin}, self.by_host)

    def for_url(self, url: str) -> Login | None:
        """Return the login for a URL, as pip finds it: its own, that of its index's host, then netrc."""
        origin = origin_of(url)
        return login_of(url) or self.by_origin.get(origin) or self.by_host.get(origin[1])

    def into(self, url: str) -> str:
        """Return ``url`` with the login of its index's host, so that it can be asked by itself. A secret."""
        login = self.by_origin.get(origin_of(url))
        if login is None or login_of(url) is not None:
            return url
        parts = urlsplit(url)
        user, password = (quote(word, safe="") for word in login)
        return urlunsplit(parts._replace(netloc=f"{user}:{password}@{parts.netloc}"))

    def secrets(self) -> tuple[str, ...]:
        """Return every password, also as it stands in a URL: what no text may show."""
        logins = (*self.by_origin.values(), *self.by_host.values())
        words = [password or user for user, password in logins]
        return tuple(dict.fromkeys([*words, *(quote(word, safe="") for word in words)]))


def _netrc(env: Mapping[str, str]) -> dict[str, Login]:
    """Read ``$NETRC``, ``~/.netrc`` or ``~/_netrc`` as requests does; one that is damaged counts as none."""
    home = Path(env["HOME"]) if env.get("HOME") else None
    named = [Path(env["NETRC"]).expanduser()] if env.get("NETRC") else []
    places = named or ([home / ".netrc", home / "_netrc"] if home else [])
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        return {}
    try:
        hosts = netrc.netrc(str(path)).hosts
    except (netrc.NetrcParseError, OSError, UnicodeDecodeError):
        return {}
    return {
        host.lower(): (login or account or "", password or "")
        for host, (login, account, password) in hosts.items()
        if host != "default"
    }
