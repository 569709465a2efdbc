"""The rules of the XPU gate: data that is read once."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Literal

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from xpubuild.documents import built
from xpubuild.frozen import frozen
from xpubuild.safe_yaml import read_yaml

_NEWEST = Version("9999")
_FILE = Path(__file__).with_name("gate_rules.yaml")


@frozen
class GateRule:
    """One way in which a build loses XPU support; the head of gate_rules.yaml explains the fields."""

    id: str
    kind: Literal["stop", "warning"]
    what: str
    why: str
    fix: str
    source: str
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
    commands: tuple[str, ...] = ()

    def holds_for(self, release: Version | None) -> bool:
        """Whether the rule applies to a release; it does to a branch (None)."""
        return release is None or SpecifierSet(self.releases).contains(release, prereleases=True)

    def on_by_default(self, release: Version | None) -> bool:
        """Whether the switch that the rule is about is on where nothing sets it; a branch is the newest."""
        wanted = self.by_default
        return wanted is not None and SpecifierSet(wanted).contains(release or _NEWEST, prereleases=True)


@functools.cache
def shipped_gate_rules() -> tuple[GateRule, ...]:
    """Return the rules that ship with xpubuild; what they may say is checked by their tests."""
    rules: tuple[GateRule, ...] = built(tuple[GateRule, ...], read_yaml(_FILE.read_text("utf-8"))["rules"])
    return rules
