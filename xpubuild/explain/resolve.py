"""Fills the texts of a kind with the entities of a line and with what the tables know about them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from xpubuild.distribution import System
from xpubuild.explain.entities import OPTIONAL, PLACE, Row, places
from xpubuild.explain.matcher import Match
from xpubuild.explain.signature import for_system
from xpubuild.frozen import frozen

# How a package is installed and found, by the names of distributions that signatures use.
_INSTALL = {
    "debian": "sudo apt install {packages}",
    "fedora": "sudo dnf install {packages}",
    "rhel": "sudo dnf install {packages}",
    "suse": "sudo zypper install {packages}",
    "default": "sudo apt install {packages}",
}
_ANY = "."
_FIND = {
    "debian": "sudo apt install apt-file && sudo apt-file update && apt-file search {name}",
    "fedora": "dnf provides '*/'{name}",
    "rhel": "dnf provides '*/'{name}",
    "suse": "zypper search --provides --match-exact {name}",
    "default": "apt-file search {name}",
}


@frozen
class Told:
    """What is said about one match."""

    family: str
    title: str
    cause: str
    fix: str
    next_command: str
    confidence: float


@dataclass
class _Rows:
    """The rows that fit the entities of a match, and the values for places."""

    values: dict[str, str]
    rows: list[Row] = field(default_factory=list)

    def said(self, name: str) -> object:
        """Return what the first row that says anything about it says."""
        return next((value for row in self.rows if (value := getattr(row, name)) is not None), None)


def resolve(match: Match, system: System) -> Told:
    """Return the texts of a match for this system."""
    signature = match.signature
    if not signature.general:
        return Told(
            signature.family,
            signature.title,
            " ".join(signature.cause.split()),
            " ".join(signature.fix.split()),
            signature.next_command(system),
            match.matcher.confidence,
        )
    found = _rows(match)
    known = {name: value for row in reversed(found.rows) for name, value in row.values.items()}
    values = {**known, **found.values, "what": _what(found)}
    quoted = known | {name: shlex.quote(value) for name, value in found.values.items()}
    quoted["install"] = _install(found, signature.lookup[0].entity if signature.lookup else "", system)

    def text(name: str) -> str:
        return _filled(" ".join(str(found.said(name) or getattr(signature, name)).split()), values)

    commands = next((row.next for row in found.rows if row.next is not None), signature.next)
    return Told(
        str(found.said("family") or signature.family),
        _sentence(text("title")), _sentence(text("cause")), text("fix"),
        _with_wheel(_filled(for_system(commands, system), quoted, str.upper), found),
        next((row.confidence for row in found.rows if row.confidence), match.matcher.confidence),
    )  # fmt: skip


def _rows(match: Match) -> _Rows:
    found = _Rows(dict(match.entities))
    for lookup in match.signature.lookup:
        entity = match.entities.get(lookup.entity, "")
        row = next((row for row in lookup.rows if entity and _fits(row, entity, match.excerpt)), None)
        if row is not None:
            found.rows.append(row)
    return found


def _fits(row: Row, entity: str, line: str) -> bool:
    return bool(re.search(row.match, entity, re.IGNORECASE)) and (
        row.line is None or bool(re.search(row.line, line, re.IGNORECASE))
    )


def _what(found: _Rows) -> str:
    """Return what an entity is; that a table does not know it is said if no other has it."""
    known = [row for row in found.rows if row.match != _ANY] or found.rows[:1]
    return next((row.what for row in known if row.what), "")


def _with_wheel(command: str, found: _Rows) -> str:
    """Add the wheel that brings a library, for those who have torch from a wheel and no oneAPI."""
    wheel = next((row.packages["wheel"] for row in found.rows if "wheel" in row.packages), "")
    if not wheel or f"install {wheel}" in command:
        return command
    return f"{command}  # beside torch's wheel: python -m pip install {wheel}"


def _install(found: _Rows, entity: str, system: System) -> str:
    """Return the command that installs what provides the entity, or the one that finds out what does."""
    packages = next((row.packages for row in found.rows if row.packages and "wheel" not in row.packages), {})
    name = for_system(packages, system)
    if name:
        return _filled(for_system(_INSTALL, system), {"packages": name})
    return _filled(for_system(_FIND, system), {"name": shlex.quote(found.values.get(entity, ""))})


def _sentence(text: str) -> str:
    return f"T{text[1:]}" if text.startswith("the ") else text


def _the(name: str) -> str:
    return f"the {name}"


def _filled(text: str, values: Mapping[str, str], unknown: Callable[[str], str] = _the) -> str:
    """Fill the places; an entity that the log does not name is called by its kind."""
    text = OPTIONAL.sub(lambda part: part[1] if all(map(values.get, places(part[1]))) else "", text)
    return PLACE.sub(lambda place: values.get(place[1], unknown(place[1])), text).replace(" ()", "")
