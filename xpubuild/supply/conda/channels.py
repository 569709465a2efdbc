"""Channels: a name, a folder or a URL, without the credentials that a URL may carry.

conda knows two kinds of credentials in a URL: ``https://USER:PASSWORD@HOST/…`` and ``https://HOST/t/TOKEN/…``.
Only ``channel_alias``, ``custom_channels`` and ``default_channels`` of ``.condarc`` are used. The list of
channels comes from the recipe or ``--conda-channel``, never from ``.condarc``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

import yaml

from xpubuild.engine.redact import Redactor
from xpubuild.errors import RecipeError, ToolchainError
from xpubuild.frozen import frozen
from xpubuild.safe_yaml import read_yaml
from xpubuild.untrusted import read_text

_TOKEN = re.compile(r"/t/(?P<token>[^/]+)(?=/|$)")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_.-]+)*")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_FIX = "correct it in the recipe's toolchain.conda.channels or in --conda-channel"


@frozen
class Channel:
    """``address`` may carry credentials and is never shown; ``shown`` is what locks and messages have."""

    address: str = field(repr=False)

    @property
    def shown(self) -> str:
        """The channel without credentials."""
        return without_credentials(self.address) if "://" in self.address else self.address


@frozen
class Condarc:
    """The part of the user's settings that says where a channel is."""

    alias: str = field(default="", repr=False)
    custom: Mapping[str, str] = field(default_factory=dict, repr=False)
    defaults: tuple[str, ...] = field(default=(), repr=False)


def without_credentials(url: str) -> str:
    """Return a URL without user, password, token, query and fragment."""
    parts = _split(url)
    # A folder of this machine may well be named "t".
    path = parts.path if parts.scheme == "file" else _TOKEN.sub("", parts.path, count=1)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, "", ""))


def redactor(channels: Iterable[Channel]) -> Redactor:
    """Return what takes the credentials of channels out of a text, as written and unescaped."""
    found = []
    for parts in (_split(channel.address) for channel in channels):
        user, _, password = parts.netloc.rpartition("@")[0].partition(":")
        token = None if parts.scheme == "file" else _TOKEN.search(parts.path)
        found += [password or user, token["token"] if token else "", parts.query]
    return Redactor(form for item in found if item for form in (item, unquote(item)))


def resolve(names: Iterable[str], settings: Condarc | None = None) -> tuple[Channel, ...]:
    """Return the channels of a recipe or command line, in order, each once.

    Raises:
        RecipeError: one is neither name, folder nor URL.
    """
    known = settings or Condarc()
    found = (Channel(place) for name in names for place in _places(_address(name), known))
    return tuple(dict.fromkeys(found))


def _places(name: str, known: Condarc) -> Iterator[str]:
    if "://" in name:
        yield name
    elif name == "defaults" and known.defaults:
        for item in known.defaults:
            yield from _places(_address(item), Condarc(known.alias, known.custom))
    elif base := known.custom.get(name.partition("/")[0], known.alias):
        yield f"{_address(base)}/{name}"
    else:
        yield name


def _address(text: str) -> str:
    """Return a channel as a tool is given it: a URL (of a folder too), or a name that the tool looks up."""
    given = text.strip()
    if given.startswith(("/", "./", "../", "~")):
        return Path(given).expanduser().absolute().as_uri()
    parts = _split(given)
    if parts.scheme in ("http", "https", "file") and (parts.hostname or parts.scheme == "file"):
        return given.rstrip("/")
    if "://" not in given and _NAME.fullmatch(given):
        return given
    raise RecipeError(
        f"'{without_credentials(given) if '://' in given else given}' is not a conda channel",
        why="a channel is a name such as conda-forge, a folder, or a URL with http, https or file",
        fix=_FIX,
    )


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise RecipeError("a conda channel cannot be read as a URL", why=str(error), fix=_FIX) from error


def with_access(url: str, channels: Sequence[Channel]) -> str:
    """Return the URL of a package with the credentials of the channel that it is from."""
    known = (channel for channel in channels if url.startswith(f"{channel.shown}/"))
    return next((channel.address + url[len(channel.shown) :] for channel in known), url)


def read_condarc(environment: Mapping[str, str]) -> Condarc:
    """Return the user's settings; a nearer file counts more.

    Raises:
        ToolchainError: a file is there and is no YAML mapping of such settings.
    """
    home = Path(environment.get("HOME") or "~").expanduser()
    config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    places = [
        Path("/etc/conda/.condarc"), Path("/etc/conda/condarc"), config / "conda" / ".condarc",
        home / ".conda" / ".condarc", home / ".condarc", home / ".mambarc",
        *([Path(environment["CONDARC"])] if environment.get("CONDARC") else []),
    ]  # fmt: skip
    merged: dict[str, Any] = {}
    for place in places:
        merged.update(_read(place))

    def text(value: object) -> str:
        # With $NAME and ${NAME} filled, as conda does it: tokens are given so.
        return _VARIABLE.sub(lambda found: environment.get(found[1] or found[2], found[0]), str(value or ""))

    return Condarc(
        text(merged.get("channel_alias")).rstrip("/"),
        {str(name): text(base).rstrip("/") for name, base in (merged.get("custom_channels") or {}).items()},
        tuple(text(item) for item in merged.get("default_channels") or ()),
    )


def _read(place: Path) -> dict[str, Any]:
    try:
        document = read_yaml(read_text(place)) or {}
    except OSError:
        return {}
    except (ValueError, yaml.YAMLError) as error:
        # PyYAML's own message quotes the line, which may hold a password.
        mark = getattr(error, "problem_mark", None)
        document, why = None, f"line {mark.line + 1} is not YAML" if mark else "it is not YAML"
    else:
        why = "it is not a mapping of settings that conda accepts"
    kinds = {"custom_channels": dict, "default_channels": list, "channel_alias": str}
    settings = document if isinstance(document, dict) else None
    if settings is not None and all(
        isinstance(settings.get(key) or kind(), kind) for key, kind in kinds.items()
    ):
        return settings
    raise ToolchainError(
        f"{place} cannot be read", why=why, fix="correct it, or set HOME or CONDARC to use another file"
    )
