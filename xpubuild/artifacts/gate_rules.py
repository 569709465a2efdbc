"""The rules of the XPU gate: data that is read once."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Literal

import yaml
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from xpubuild.errors import RecipeError
from xpubuild.safe_yaml import read_yaml

_NEWEST = Version("9999")
_FILE = Path(__file__).with_name("gate_rules.yaml")


class GateRule(BaseModel):
    """One way in which a build loses XPU support; the head of gate_rules.yaml explains the fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    kind: Literal["stop", "warning"]
    releases: str = ""
    asked: str | None = None
    by_default: str | None = None
    needs: tuple[str, ...] = ()
    find: tuple[str, ...] = ()
    line: str | None = None
    cache: str | None = None
    generated: str | None = None
    exists: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    compare: Literal["present", "off", "on", "arch", "environment", "source"] = "present"
    cpu: bool = False
    what: str
    why: str
    fix: str
    commands: tuple[str, ...] = ()
    source: str = Field(pattern=r"^https://")

    @model_validator(mode="after")
    def _consistent(self) -> GateRule:
        patterns = [pattern for pattern in (self.line, self.generated) if pattern is not None]
        if not patterns and self.cache is None:
            raise ValueError(f"{self.id}: has neither 'line' nor 'cache' nor 'generated'")
        if self.line is not None and (not self.find or any(word != word.lower() for word in self.find)):
            raise ValueError(f"{self.id}: 'line' needs 'find', in lower case")
        if any((self.compare != "present") != ("(?P<value>" in pattern) for pattern in patterns):
            raise ValueError(f"{self.id}: 'compare' needs the group 'value'")
        for specifier in (self.releases, self.by_default or ""):
            SpecifierSet(specifier)  # raises a ValueError
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{self.id}: not a regular expression: {error}") from None
        return self

    def holds_for(self, release: Version | None) -> bool:
        """Whether the rule applies to a release; it does to a branch (None)."""
        return release is None or SpecifierSet(self.releases).contains(release, prereleases=True)

    def on_by_default(self, release: Version | None) -> bool:
        """Whether the switch that the rule is about is on where nothing sets it; a branch is the newest."""
        wanted = self.by_default
        return wanted is not None and SpecifierSet(wanted).contains(release or _NEWEST, prereleases=True)


@functools.cache
def shipped_gate_rules() -> tuple[GateRule, ...]:
    """Return the rules that ship with xpubuild.

    Raises:
        RecipeError: the file breaks its schema.
    """
    try:
        rules = read_yaml(_FILE.read_text("utf-8"))["rules"]
        return TypeAdapter(tuple[GateRule, ...]).validate_python(rules)
    except (OSError, KeyError, TypeError, yaml.YAMLError, ValidationError) as error:
        why = str(error)
        raise RecipeError(f"{_FILE.name} has no gate rules", why=why, fix="correct the file") from error
