"""The known environment variables of upstream's builds, from ``switches.yaml``."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Literal

from packaging.version import Version
from pydantic import BaseModel, ConfigDict, Field

from xpubuild.recipe.values import Name, Target, VersionText
from xpubuild.safe_yaml import read_yaml

#: Who reads a variable. Those of kind ``foreign`` belong to another project and do nothing for PyTorch.
Kind = Literal["build", "extension", "runtime", "ci", "offline", "foreign"]
#: What a value may be. Names are matched below; ``one_of`` lists the values where there are only a few.
Values = Literal["switch", "count", "archs", "path", "text"]

_ON = frozenset({"1", "ON", "YES", "TRUE", "Y"})
_OFF = frozenset({"0", "OFF", "NO", "FALSE", "N"})
_FORMS: dict[str, tuple[re.Pattern[str], str]] = {
    "switch": (re.compile("|".join(sorted(_ON | _OFF))), "0, 1, OFF or ON"),
    "count": (re.compile(r"[1-9][0-9]*"), "a number of at least 1"),
    "archs": (re.compile(r"[a-z][a-z0-9_-]*(,[a-z][a-z0-9_-]*)*"), "AOT targets separated by commas"),
    "path": (re.compile(r"\S.*"), "a path"),
    "text": (re.compile(r".*", re.DOTALL), "text"),
}


class Misread(BaseModel):
    """A value that does not mean what it says, in some releases."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    value: Literal["on", "off", "empty", "none"]
    first: VersionText | None = None
    last: VersionText | None = None
    why: str


class Switch(BaseModel):
    """One environment variable: who reads it, in which releases, and what it may say."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    kind: Kind = "build"
    component: Name = Field("torch", description="the component whose build reads it")
    first: VersionText | None = Field(None, description="first release that reads it; null: 2.4 or earlier")
    last: VersionText | None = Field(None, description="last release that reads it; null: the newest does")
    values: Values = "text"
    one_of: tuple[str, ...] = ()
    does: str
    instead: str = Field("", description="what to use instead, if it is not read")
    explicit: bool = Field(False, description="whether a recipe has to set it")
    follows: Target | None = Field(None, description="the target that it enables, and no other")
    shell: Literal["refused", "used"] = Field(
        "refused", description="whether xpubuild itself uses the caller's value"
    )
    misread: tuple[Misread, ...] = ()
    source: str

    def reads(self, release: str | None) -> bool:
        """Whether a release reads it; None is the development branch, later than every release."""
        return self.kind != "foreign" and within(release, self.first, self.last)

    def lines(self) -> str:
        """Return the release lines that read it, in words."""
        if self.first and self.last:
            return f"{self.first} only" if self.first == self.last else f"{self.first} to {self.last}"
        if self.first:
            return f"{self.first} and later"
        return f"{self.last} and earlier" if self.last else "all releases"

    def expects(self) -> str:
        """Return what a value should be, in words."""
        return " or ".join(self.one_of) if self.one_of else _FORMS[self.values][1]

    def accepts(self, value: str) -> bool:
        """Whether a value is of the form that upstream understands."""
        if self.one_of:
            return value in self.one_of
        text = value.upper() if self.values == "switch" else value
        return _FORMS[self.values][0].fullmatch(text) is not None

    def misreadings(self, value: str, release: str | None) -> list[str]:
        """Return why a value does not do what it says in a release."""
        meant = {"empty"} if not value else {"none"} if value == "none" else set()
        meant |= {"on"} if value.upper() in _ON else {"off"} if value.upper() in _OFF else set()
        return [
            item.why
            for item in self.misread
            if item.value in meant and within(release, item.first, item.last)
        ]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    switches: tuple[Switch, ...]


def is_on(value: str) -> bool:
    """Whether the value of a switch turns it on."""
    return value.upper() in _ON


def within(release: str | None, first: str | None, last: str | None) -> bool:
    """Whether a release is in a range of release lines, both ends included."""
    if release is None:
        return last is None
    line = Version(release).release[:2]
    return (first is None or line >= Version(first).release[:2]) and (
        last is None or line <= Version(last).release[:2]
    )


@functools.cache
def switches() -> dict[str, Switch]:
    """Return every known variable by name."""
    text = (Path(__file__).parent / "switches.yaml").read_text("utf-8")
    found = _File.model_validate(read_yaml(text)).switches
    return {switch.name: switch for switch in found}
