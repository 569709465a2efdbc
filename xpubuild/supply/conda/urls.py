"""Channel addresses: a name, a folder or a URL, without the credentials that a URL may carry. Pure.

conda knows two kinds of credentials in a URL: ``https://USER:PASSWORD@HOST/…`` and ``https://HOST/t/TOKEN/…``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from xpubuild.engine.redact import Redactor
from xpubuild.errors import RecipeError

_TOKEN = re.compile(r"/t/(?P<token>[^/]+)(?=/|$)")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_.-]+)*")
SCHEMES = ("http", "https", "file")


def without_credentials(url: str) -> str:
    """Return a URL without user, password, token, query and fragment."""
    parts = _split(url)
    # A folder of this machine may well be named "t".
    path = parts.path if parts.scheme == "file" else _TOKEN.sub("", parts.path, count=1)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, "", ""))


def secrets_of(url: str) -> tuple[str, ...]:
    """Return what must not be shown of a URL, as written and with its escapes resolved."""
    parts = _split(url)
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    token = None if parts.scheme == "file" else _TOKEN.search(parts.path)
    found = [password, user if not password else "", token["token"] if token else "", parts.query]
    return tuple({form for item in found if item for form in (item, unquote(item))})


def redactor(urls: Iterable[str]) -> Redactor:
    """Return what takes the credentials of these channels out of a text."""
    return Redactor(secret for url in urls for secret in secrets_of(url))


def address(text: str) -> str:
    """Return a channel as a tool is given it: a URL, or a name that the tool looks up itself.

    A folder of this machine becomes a ``file://`` URL.

    Raises:
        RecipeError: it is none of these.
    """
    given = text.strip()
    if given.startswith(("/", "./", "../", "~")):
        return Path(given).expanduser().absolute().as_uri()
    if "://" in given:
        parts = _split(given)
        if parts.scheme in SCHEMES and (parts.hostname or parts.scheme == "file"):
            return given.rstrip("/")
    elif _NAME.fullmatch(given):
        return given
    shown = without_credentials(given) if "://" in given else given
    raise RecipeError(
        f"'{shown}' is not a conda channel",
        why="a channel is a name such as conda-forge, a folder, or a URL with http, https or file",
        fix="correct it in the recipe's toolchain.conda.channels or in --conda-channel",
    )


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise RecipeError(
            "a conda channel cannot be read as a URL", why=str(error), fix="correct the channel's URL"
        ) from error
