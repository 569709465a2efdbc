"""The rules of the XPU gate: data that is read and checked once."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Annotated, Literal

import yaml
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from xpubuild.errors import RecipeError
from xpubuild.safe_yaml import read_yaml

_NEWEST = Version("9999")
_FILE = Path(__file__).with_name("gate_rules.yaml")


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return text.strip()


def _specifier(value: str) -> str:
    SpecifierSet(value)  # raises a ValueError
    return value


Specifier = Annotated[str, AfterValidator(_specifier)]


class GateRule(BaseModel):
    """One way in which a build loses XPU support; the head of gate_rules.yaml explains the fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    kind: Literal["stop", "warning"]
    releases: Specifier = ""
    asked: str | None = None
    by_default: Specifier | None = None
    needs: tuple[str, ...] = ()
    find: tuple[str, ...] = ()
    line: Annotated[str, AfterValidator(_pattern)] | None = None
    cache: str | None = None
    generated: Annotated[str, AfterValidator(_pattern)] | None = None
    exists: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    compare: Literal["present", "off", "arch", "environment", "source"] = "present"
    what: str
    why: str
    fix: str
    commands: tuple[str, ...] = ()
    source: str = Field(pattern=r"^https://")

    @model_validator(mode="after")
    def _consistent(self) -> GateRule:
        if self.line is None and self.cache is None and self.generated is None:
            raise ValueError(f"{self.id}: has neither 'line' nor 'cache' nor 'generated'")
        if self.line is not None and (not self.find or any(word != word.lower() for word in self.find)):
            raise ValueError(f"{self.id}: 'line' needs 'find', in lower case")
        patterns = [pattern for pattern in (self.line, self.generated) if pattern is not None]
        if any((self.compare != "present") != ("(?P<value>" in pattern) for pattern in patterns):
            raise ValueError(f"{self.id}: 'compare' needs the group 'value'")
        return self

    def holds_for(self, release: Version | None) -> bool:
        """Whether the rule applies to a release; it does to a branch (None)."""
        return release is None or SpecifierSet(self.releases).contains(release, prereleases=True)

    def on_by_default(self, release: Version | None) -> bool:
        """Whether the switch that the rule is about is on where nothing sets it; a branch is the newest."""
        wanted = self.by_default
        return wanted is not None and SpecifierSet(wanted).contains(release or _NEWEST, prereleases=True)


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    rules: tuple[GateRule, ...]


@functools.cache
def shipped_gate_rules() -> tuple[GateRule, ...]:
    """Return the rules that ship with xpubuild.

    Raises:
        RecipeError: the file breaks its schema.
    """
    try:
        rules = _File.model_validate(read_yaml(_FILE.read_text("utf-8"))).rules
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise RecipeError(
            f"{_FILE.name} has no gate rules", why=str(error), fix="correct the file"
        ) from error
    names = [rule.id for rule in rules]
    if len(set(names)) != len(names):
        raise RecipeError(f"{_FILE.name} has two rules with the same id", fix="rename one of them")
    return rules
