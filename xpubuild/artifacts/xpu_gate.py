"""Watches one attempt at a build step: the XPU gate for XPU builds, and explain for everything printed.

The gate finds lost XPU support in what CMake prints and writes while PyTorch is configured.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from xpubuild.artifacts.closed_build import ClosedBuild
from xpubuild.artifacts.cmake_build import NO_SYCL, Message, Messages, cache_lines, home_of, read_sycl_groups
from xpubuild.artifacts.gate_rules import Expectation, GateRule, shipped_gate_rules
from xpubuild.engine.files import stamp
from xpubuild.engine.model import Caution, Stop, Verdict
from xpubuild.errors import BuildError, NoSpaceError, NoXpuError, XpuBuildError
from xpubuild.explain.document import Circumstances, LikelyCause
from xpubuild.explain.rules import Code, shipped_rules
from xpubuild.explain.watch import LogWatcher
from xpubuild.machine.system import os_facts, system_of

_BUILDS = re.compile(r"\s{0,8}(?:\[\d{1,7}/\d{1,7}\] |cmake --build )")
_WRITTEN = re.compile(r"-- Build files have been written to: (\S.{0,4000})$")


class XpuGate:
    """Checks one attempt at a build for XPU; every rule reports once."""

    def __init__(self, expected: Expectation, rules: Sequence[GateRule] | None = None) -> None:
        self._expected = expected
        every = shipped_gate_rules() if rules is None else rules
        self._rules = [rule for rule in every if rule.holds_for(expected.version) and expected.asks(rule)]
        self._lines = [(rule, re.compile(rule.line)) for rule in self._rules if rule.line]
        self._literals = tuple({word for rule in self._rules if rule.line for word in rule.find})
        self._commands = [(rule, re.compile(rule.generated)) for rule in self._rules if rule.generated]
        self._messages = Messages()
        self._stopped = False
        self._told: set[str] = set()
        cache = Path(expected.source) / "build" / "CMakeCache.txt"
        # A cache that an earlier attempt left says nothing until CMake took it over.
        self._seen = {cache: stamp(cache)}
        self._building = False

    def line(self, text: str, number: int) -> list[Verdict]:
        """Take a line of the log and return what follows from it."""
        if not self._building and _BUILDS.match(text):
            self._building = True
            found = [*self._of(self._messages.feed(text, number)), *self._of_caches(stale=True)]
            return [*found, *self._of_commands(Path(self._expected.source) / "build")]
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
            self._seen.setdefault(Path(found[1]) / "CMakeCache.txt", None)
            yield from self._of_commands(Path(found[1]))
        if not any(word in low for word in self._literals):
            return
        for rule, pattern in self._lines:
            if match := pattern.search(text):
                yield from self._verdict(rule, match.groupdict().get("value"), message.lines)

    def _of_caches(self, *, stale: bool) -> Iterator[Verdict]:
        by_name = {rule.cache: rule for rule in self._rules if rule.cache}
        for path in sorted(self._seen):
            now = stamp(path)
            if now is None or (now == self._seen[path] and not stale):
                continue
            self._seen[path] = now
            for number, line, name, value in cache_lines(path):
                if rule := by_name.get(name):
                    yield from self._verdict(rule, value, ((number, line),), path)

    def _of_commands(self, build: Path) -> Iterator[Verdict]:
        """Look at the commands that CMake generated for PyTorch itself, not for what it builds on the way."""
        source = self._expected.source
        if not self._commands or not source or home_of(build) != os.path.realpath(source):
            return
        file = build / "build.ninja"
        for line in [group.line() for group in read_sycl_groups(build)] or [NO_SYCL]:
            for rule, pattern in self._commands:
                if match := pattern.search(line):
                    yield from self._verdict(rule, match.groupdict().get("value"), ((1, line),), file)

    def _verdict(
        self, rule: GateRule, value: str | None, lines: tuple[tuple[int, str], ...], file: Path | None = None
    ) -> Iterator[Verdict]:
        # What follows from a loss is none of its own: the build has been stopped.
        if self._stopped or rule.id in self._told or not self._expected.applies(rule):
            return
        compared = self._expected.compare(rule, value)
        if compared is None:
            return
        self._told.add(rule.id)
        asked, found = compared
        words = self._expected.words(asked, found)
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
        self._stopped = True
        yield Stop(NoXpuError(rule.what, why=why, fix=fix, commands=commands, evidence=evidence))


_ERRORS: dict[Code, type[XpuBuildError]] = {"no-space": NoSpaceError, "no-xpu": NoXpuError}
#: ninja's report of a failed edge, but not of a trial that CMake makes; the code came with ninja 1.13.
_EDGE_FAILED = re.compile(r"\s*FAILED: (?!.*\bcmTC_)(?:\[code=\d+\] )?(?:\S*/)?(\S+)")
_FACTS = {True: "xpu-wanted", False: "xpu-not-wanted"}


class StepWatcher:
    """Watches one attempt at a step."""

    def __init__(
        self, xpu: bool, expected: Expectation | None, recipe: str = "", closed: str = ""
    ) -> None:  # fmt: skip
        self._closed = ClosedBuild(closed) if closed else None
        self._gate = XpuGate(expected) if expected is not None else None
        facts = frozenset({_FACTS[xpu]})
        self._log = LogWatcher(Circumstances(system=system_of(os_facts()), facts=facts, recipe=recipe))
        self._edge_failed = False
        self._document: dict[str, Any] | None = None

    def line(self, text: str, number: int) -> Sequence[Verdict]:
        """Take a line of the log."""
        verdicts = self._gate.line(text, number) if self._gate is not None else []
        if self._closed is not None and (refused := self._closed.line(text)) is not None:
            verdicts = [*verdicts, Stop(refused)]
        if not self._edge_failed and (failed := _EDGE_FAILED.match(text)):
            # ninja starts nothing more, but waits for what runs: an external project can take half an hour.
            self._edge_failed = True
            words = f"{failed[1]} failed: the build ends with what is running now (Ctrl-C ends it at once)"
            verdicts = [*verdicts, Caution("edge-failed", words, (text.strip(),))]
        cause = self._log.feed(text)
        return verdicts if cause is None else [*verdicts, *self._stops(cause, text)]

    def poll(self) -> Sequence[Verdict]:
        """Look at CMakeCache.txt."""
        return self._gate.poll() if self._gate is not None else []

    def explain(self, error: XpuBuildError) -> XpuBuildError:
        """Add the findings of explain in the log to an error, or say that the build has no network."""
        if self._closed is not None and isinstance(error, BuildError):
            error = self._closed.error() or error
        if self._document is None:
            self._document = self._log.finish().to_json()
        if self._document["findings"] or self._document["first_error"]:
            error.explanation = self._document
        return error

    def _stops(self, found: LikelyCause, text: str) -> list[Stop]:
        code = shipped_rules().by_id(found.id).error
        if code is None or (code == "no-xpu" and self._gate is not None):
            # The gate reports that with the whole message, a few lines later.
            return []
        fix = f"{found.fix} Then run the same command again: finished steps are kept"
        lines = [{"line": found.line, "text": text}]
        evidence = {"rule": found.id, "file": None, "lines": lines, "source": ", ".join(found.sources)}
        error = _ERRORS[code](
            found.title, why=found.cause, fix=fix, commands=(found.next_command,), evidence=evidence
        )
        return [Stop(error)]
