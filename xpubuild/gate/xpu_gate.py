"""The XPU gate: finds lost XPU support in what CMake prints and writes while PyTorch is configured."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.version import Version

from xpubuild.engine.model import Caution, Stop, Verdict
from xpubuild.errors import NoXpuError
from xpubuild.gate.cmake_lines import Message, Messages
from xpubuild.gate.rules import GateRule, shipped_gate_rules

_ON = frozenset({"1", "on", "true", "yes", "y"})
#: What CMake and PyTorch read as switched off, in lower case.
OFF = frozenset({"0", "off", "false", "no", "n", ""})
_BUILDS = re.compile(r"\s{0,8}(?:\[\d{1,7}/\d{1,7}\] |cmake --build )")
_WRITTEN = re.compile(r"-- Build files have been written to: (\S.{0,4000})$")
_CACHE_ENTRY = re.compile(r"([A-Za-z_][\w.+-]{0,200}):[A-Z]{1,20}=(.*)")


@dataclass(frozen=True)
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
        if any(self.switches.get(name, "1").lower() in OFF for name in rule.needs):
            return False
        if rule.asked is None:
            return True
        if rule.asked == "MKL":
            return self.mkl
        value = self.switches.get(rule.asked)
        return rule.on_by_default(self.version) if value is None else value.lower() in _ON


class XpuGate:
    """Checks one attempt at a build for XPU; every rule reports once."""

    def __init__(self, expected: Expectation, rules: Sequence[GateRule] | None = None) -> None:
        self._expected = expected
        every = shipped_gate_rules() if rules is None else rules
        self._rules = [rule for rule in every if rule.holds_for(expected.version) and expected.asks(rule)]
        self._patterns = {rule.id: re.compile(rule.line) for rule in self._rules if rule.line}
        self._literals = tuple({word for rule in self._rules if rule.line for word in rule.find})
        self._messages = Messages()
        self._told: set[str] = set()
        self._caches = {Path(expected.source) / "build" / "CMakeCache.txt"}
        # A cache that an earlier attempt left says nothing until CMake took it over.
        self._seen = {path: _stamp(path) for path in self._caches}
        self._building = False

    def line(self, text: str, number: int) -> list[Verdict]:
        """Take a line of the log and return what follows from it."""
        if not self._building and _BUILDS.match(text):
            self._building = True
            return [*self._of(self._messages.feed(text, number)), *self._of_caches(stale=True)]
        return self._of(self._messages.feed(text, number))

    def poll(self) -> list[Verdict]:
        """Look at caches that CMake wrote since the last call, and at messages that wait for their end."""
        return [*self._of(self._messages.patience()), *self._of_caches(stale=False)]

    def _of(self, messages: Sequence[Message]) -> list[Verdict]:
        return [verdict for message in messages for verdict in self._judge(message)]

    def _judge(self, message: Message) -> Iterator[Verdict]:
        text = message.text
        low = text.lower()
        if "written to:" in low and (found := _WRITTEN.search(text)):
            self._caches.add(Path(found[1]) / "CMakeCache.txt")
        if not any(word in low for word in self._literals):
            return
        for rule in self._rules:
            pattern = self._patterns.get(rule.id)
            match = pattern.search(text) if pattern else None
            if match:
                value = match.groupdict().get("value")
                yield from self._verdict(rule, value, message.lines)

    def _of_caches(self, *, stale: bool) -> list[Verdict]:
        verdicts: list[Verdict] = []
        for path in sorted(self._caches):
            stamp = _stamp(path)
            if stamp is None or (stamp == self._seen.get(path) and not stale):
                continue
            self._seen[path] = stamp
            verdicts += self._of_cache(path)
        return verdicts

    def _of_cache(self, path: Path) -> Iterator[Verdict]:
        try:
            text = path.read_text("utf-8", "replace")
        except OSError:  # CMake replaces it just now; the next poll sees the new one
            return
        by_name = {rule.cache: rule for rule in self._rules if rule.cache}
        for number, line in enumerate(text.split("\n"), 1):
            entry = _CACHE_ENTRY.match(line)
            rule = by_name.get(entry[1]) if entry else None
            if entry and rule:
                yield from self._verdict(rule, entry[2].strip(), ((number, line),), path)

    def _verdict(
        self, rule: GateRule, value: str | None, lines: tuple[tuple[int, str], ...], file: Path | None = None
    ) -> Iterator[Verdict]:
        if rule.id in self._told:
            return
        compared = self._compare(rule, value)
        if compared is None:
            return
        self._told.add(rule.id)
        asked, found = compared
        words = self._words(asked, found)
        evidence: dict[str, Any] = {
            "rule": rule.id,
            "file": str(file) if file else None,
            "asked": asked,
            "found": found,
            "source": rule.source,
        }
        why, fix = rule.why.format_map(words), rule.fix.format_map(words)
        commands = tuple(command.format_map(words) for command in rule.commands)
        if rule.kind == "warning":
            text = "; ".join((f"{rule.what}: {why}", f"fix: {fix}", *(f"run: {item}" for item in commands)))
            yield Caution(rule.id, text, tuple(line for _, line in lines), {**evidence, "fix": fix})
            return
        evidence["lines"] = [{"line": number, "text": text} for number, text in lines]
        yield Stop(NoXpuError(rule.what, why=why, fix=fix, commands=commands, evidence=evidence))

    def _compare(self, rule: GateRule, value: str | None) -> tuple[str, str] | None:
        """Return what was asked for and what was found where they differ."""
        found = value or ""
        if rule.compare == "present":
            return "", found
        if rule.compare == "off":
            return ("on", found or "nothing") if found.lower() in OFF else None
        if rule.compare == "arch":
            asked = self._expected.switches.get("TORCH_XPU_ARCH_LIST", "")
            differs = asked and found and _targets(asked) != _targets(found)
            return (asked, found) if differs else None
        inside = self._expected.environment if rule.compare == "environment" else self._expected.source
        outside = _outside(found, inside)
        return (inside, ", ".join(outside)) if inside and outside else None

    def _words(self, asked: str, found: str) -> dict[str, str]:
        switches = self._expected.switches
        return {
            "asked": asked,
            "found": found,
            "sycl_root": switches.get("SYCL_ROOT") or switches.get("CMPLR_ROOT") or "$CMPLR_ROOT",
            "source": self._expected.source,
            "environment": self._expected.environment,
            "cxx": switches.get("CXX", "g++"),
        }


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _targets(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in re.split(r"[,;\s]+", text) if word)


def _outside(value: str, folder: str) -> list[str]:
    """Return the paths of a CMake list that belong to MKL or oneDNN and are not below a folder."""
    root = os.path.realpath(folder)
    paths = [part for part in value.split(";") if part.startswith("/") and not part.endswith("-NOTFOUND")]
    ours = [part for part in paths if len(paths) == 1 or "mkl" in Path(part).name.lower()]
    return [part for part in ours if not os.path.realpath(part).startswith(root + os.sep)]
