"""The XPU gate as a plan has it: its rules, what was requested of a build, how the two are compared.

The rules are data that is read once; planning reads none of them.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from dataclasses import field
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


_ON = frozenset({"1", "on", "true", "yes", "y"})
#: What CMake and PyTorch read as switched off, in lower case.
OFF = frozenset({"0", "off", "false", "no", "n", ""})
#: What stands for no AOT target: what a user asks for, and what a command without ``-device`` is shown as.
_NO_TARGET = frozenset({"none", "nothing"})


@frozen
class Expectation:
    """What was requested: the build's environment, and where its files must be.

    ``release`` is None for a branch, which may behave as any of them. ``mkl`` says that the plan pins MKL
    inside ``environment``.
    """

    release: str | None
    switches: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    environment: str = ""
    mkl: bool = False

    @property
    def version(self) -> Version | None:
        """The release, None for a branch."""
        return Version(self.release) if self.release else None

    def asks(self, rule: GateRule) -> bool:
        """Whether what a rule is about was asked for."""
        asked = self.switches.get("TORCH_XPU_ARCH_LIST")
        if rule.cpu != (self.switches.get("USE_XPU", "1").lower() in OFF):
            return False
        if rule.targets and asked and not any(item.startswith(rule.targets) for item in targets(asked)):
            return False
        if any(self.switches.get(name, "1").lower() in OFF for name in rule.needs):
            return False
        if rule.asked is None:
            return True
        if rule.asked == "MKL":
            return self.mkl
        value = self.switches.get(rule.asked)
        return rule.on_by_default(self.version) if value is None else value.lower() in _ON

    def compare(self, rule: GateRule, value: str | None) -> tuple[str, str] | None:
        """Return what was asked for and what was found where they differ."""
        found = value or ""
        if rule.compare == "present":
            return "", found
        if rule.compare == "off":
            return ("on", found or "nothing") if found.lower() in OFF else None
        if rule.compare == "on":
            return ("off", found) if found.lower() in _ON else None
        if rule.compare == "arch":
            asked = self.switches.get("TORCH_XPU_ARCH_LIST", "")
            return (asked, found) if asked and found and targets(asked) != targets(found) else None
        inside = self.environment if rule.compare == "environment" else self.source
        outside = _outside(found, inside)
        return (inside, ", ".join(outside)) if inside and outside else None

    def applies(self, rule: GateRule) -> bool:
        """Whether the files that a rule is about are there, or are not."""
        words = self.words("", "")
        found = [Path(pattern.format_map(words)) for pattern in (*rule.exists, *rule.lacks)]
        there = [any(path.parent.glob(path.name)) for path in found]
        return all(there[: len(rule.exists)]) and not any(there[len(rule.exists) :])

    def words(self, asked: str, found: str) -> dict[str, str]:
        """Return what the texts of rules may name."""
        switches = self.switches
        return {
            "asked": asked,
            "found": found,
            "sycl_root": switches.get("SYCL_ROOT") or switches.get("CMPLR_ROOT") or "$CMPLR_ROOT",
            "mkl_root": switches.get("MKLROOT") or "$MKLROOT",
            "ccl_root": switches.get("CCL_ROOT") or "$CCL_ROOT",
            "source": self.source,
            "environment": self.environment,
            "cxx": switches.get("CXX", "g++"),
        }


def targets(text: str) -> frozenset[str]:
    """Return a list of AOT targets as a set."""
    return frozenset(word.lower() for word in re.split(r"[,;\s]+", text) if word) - _NO_TARGET


def _outside(value: str, folder: str) -> list[str]:
    """Return the paths of a CMake list that belong to MKL or oneDNN and are not below a folder."""
    root = os.path.realpath(folder)
    paths = [part for part in value.split(";") if part.startswith("/") and not part.endswith("-NOTFOUND")]
    own = [part for part in paths if len(paths) == 1 or "mkl" in Path(part).name.lower()]
    return [part for part in own if not os.path.realpath(part).startswith(root + os.sep)]
