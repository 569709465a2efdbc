"""Resolves the name of a channel to a URL, with the user's settings in ``.condarc``.

Only ``channel_alias``, ``custom_channels`` and ``default_channels`` of ``.condarc`` are used. The list of
channels comes from the recipe or ``--conda-channel``, never from ``.condarc``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import yaml

from xpubuild.errors import ToolchainError
from xpubuild.frozen import frozen
from xpubuild.safe_yaml import read_yaml
from xpubuild.supply.conda.urls import address, without_credentials
from xpubuild.untrusted import read_text


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


def resolve(names: Iterable[str], settings: Condarc | None = None) -> tuple[Channel, ...]:
    """Return the channels of a recipe or command line, in order, each once.

    Raises:
        RecipeError: one is neither name, folder nor URL.
    """
    known = settings or Condarc()
    found = (Channel(place) for name in names for place in _places(address(name), known))
    return tuple(dict.fromkeys(found))


def _places(name: str, known: Condarc) -> Iterator[str]:
    if "://" in name:
        yield name
    elif name == "defaults" and known.defaults:
        for item in known.defaults:
            yield from _places(address(item), Condarc(known.alias, known.custom))
    elif (base := known.custom.get(name.partition("/")[0])) is not None:
        yield f"{address(base)}/{name}"
    else:
        yield f"{address(known.alias)}/{name}" if known.alias else name


def with_access(url: str, channels: Sequence[Channel]) -> str:
    """Return the URL of a package with the credentials of the channel that it is from."""
    for channel in channels:
        if channel.address != channel.shown and url.startswith(f"{channel.shown}/"):
            return channel.address + url[len(channel.shown) :]
    return url


def read_condarc(environment: Mapping[str, str]) -> Condarc:
    """Return the user's settings; a nearer file counts more.

    Raises:
        ToolchainError: a file is there and is no YAML mapping.
    """
    home = Path(environment.get("HOME") or "~").expanduser()
    config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    places = [
        Path("/etc/conda/.condarc"), Path("/etc/conda/condarc"), config / "conda" / ".condarc",
        home / ".conda" / ".condarc", home / ".condarc", home / ".mambarc",
    ]  # fmt: skip
    if environment.get("CONDARC"):
        places.append(Path(environment["CONDARC"]))
    merged: dict[str, Any] = {}
    for place in places:
        merged.update(_read(place))
    return Condarc(
        _text(merged.get("channel_alias"), environment).rstrip("/"),
        {
            str(name): _text(base, environment).rstrip("/")
            for name, base in (merged.get("custom_channels") or {}).items()
        },
        tuple(_text(item, environment) for item in merged.get("default_channels") or ()),
    )


def _read(place: Path) -> dict[str, Any]:
    try:
        text = read_text(place)
    except OSError:
        return {}
    except ValueError as error:
        raise _unusable(place, str(error)) from None
    try:
        document = read_yaml(text) or {}
    except yaml.YAMLError as error:
        # PyYAML's own message quotes the line, which may hold a password.
        mark = getattr(error, "problem_mark", None)
        raise _unusable(place, f"line {mark.line + 1} is not YAML" if mark else "it is not YAML") from None
    if not isinstance(document, dict):
        raise _unusable(place, "it is not a mapping of settings")
    for key, kind in (("custom_channels", dict), ("default_channels", list), ("channel_alias", str)):
        if not isinstance(document.get(key) or kind(), kind):
            raise _unusable(place, f"{key} has a value that conda does not accept")
    return document


def _unusable(place: Path, why: str) -> ToolchainError:
    return ToolchainError(
        f"{place} cannot be read",
        why=why,
        fix="correct it, or set HOME or CONDARC to use another file",
    )


def _text(value: object, environment: Mapping[str, str]) -> str:
    """Return a setting with ``$NAME`` and ``${NAME}`` filled, as conda does it: tokens are given so."""
    text = str(value or "")
    for name in sorted(environment, key=len, reverse=True):
        text = text.replace(f"${{{name}}}", environment[name])
        if f"${name}" in text:
            text = text.replace(f"${name}", environment[name])
    return text
