"""The ``xpubuild.explain/1`` document, and the functions that create it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from xpubuild.distribution import UNKNOWN_SYSTEM, System
from xpubuild.documents import plain
from xpubuild.explain.blocks import Reader
from xpubuild.explain.forms import FirstError
from xpubuild.explain.rules import MAX_DISTANCE, NEAR, ORDER, Rules, Sure, command_for, shipped_rules
from xpubuild.explain.scan import Match, Outcome, scan, scan_file
from xpubuild.explain.searchterms import search_terms
from xpubuild.frozen import frozen

_DOCTOR = "xpubuild doctor "
_MOST_FINDINGS = 5
#: Facts of a log whose packages are of a distribution.
_OF_LOG = "log-of-"
_REPORTS = frozenset({"wheel-build-failed", "child-failed", "bad-termination", "docker-build-step"})
_PLACE = re.compile(r"\{([a-z_]+)\}")
_SAFE = re.compile(r"[\w./+@=:,-]{1,200}")


@frozen
class LikelyCause:
    """A cause of what a line of the log shows."""

    id: str
    family: str
    title: str
    line: int
    """Counted from 1."""
    excerpt: str
    cause: str
    fix: str
    next_command: str
    """It removes, reinstalls and downgrades nothing."""
    confidence: Sure
    """certain: the message has one cause; likely: it has a main one; possible: one among several."""
    sources: tuple[str, ...]
    """Where the message is written, and threads in which it was seen."""
    probes: tuple[str, ...] = ()
    """Checks of doctor that confirm or refute it on the host of the log."""
    decided_by: str | None = None
    """The check of doctor that decided, with what it found."""


@frozen
class Explanation:
    """What a log says: its first error, and the causes, best first."""

    first_error: FirstError | None
    findings: tuple[LikelyCause, ...]
    lines: int

    @property
    def search_terms(self) -> tuple[str, ...]:
        """What finds threads about an error; empty where a finding is at least likely."""
        if self.first_error is None or any(item.confidence != "possible" for item in self.findings):
            return ()
        return search_terms(self.first_error.text, self.first_error.kind)

    def to_json(self) -> dict[str, Any]:
        """Return the document."""
        return {"schema": "xpubuild.explain/1", **plain(self), "search_terms": list(self.search_terms)}


@frozen
class Circumstances:
    """What is known besides the log: the host's distribution, what doctor found, facts such as xpu-wanted.

    ``recipe`` is what was being built: ``doctor`` asks its servers, and what it needs.
    """

    system: System = UNKNOWN_SYSTEM
    checks: Mapping[str, str] | None = None
    facts: frozenset[str] = frozenset()
    details: Mapping[str, str] = field(default_factory=dict)
    recipe: str = ""


def conclude(outcome: Outcome, known: Circumstances) -> Explanation:
    """Return what follows from the matches of one log."""
    facts = outcome.facts | known.facts
    names = tuple(name for name in ("fedora", "rhel", "suse", "debian") if f"{_OF_LOG}{name}" in facts)
    system = System(names) if names else known.system
    found: dict[str, LikelyCause] = {}
    general, errors = set[str](), set[str]()
    for match in outcome.matches:
        if fits(match, facts):
            cause = finding(match, system, known, _limit(match, outcome))
            best = found.get(cause.id)
            if best is None or ORDER.index(cause.confidence) < ORDER.index(best.confidence):
                found[cause.id] = cause
            general |= {cause.id} if match.rule.general else set()
            errors |= {cause.id} if match.is_error else set()
    return Explanation(
        outcome.first_error, tuple(_ranked(found.values(), general, errors, outcome)), outcome.lines
    )


def fits(match: Match, facts: Iterable[str]) -> bool:
    """Whether a log has the facts that a rule requires and none that it forbids."""
    return {*match.rule.needs} <= {*facts} and not {*match.rule.unless_fact} & {*facts}


def finding(match: Match, system: System, known: Circumstances, limit: Sure = "certain") -> LikelyCause:
    """Return what a match means; no surer than ``limit``, unless a check of doctor decides."""
    rule = match.rule
    value = rule.spelled.get(match.words.get("code", ""))
    title, cause, fix = rule.title, rule.cause, rule.fix
    command, sure = rule.next, rule.sure
    if value is not None:
        title, cause, fix = value.title or title, value.cause, value.fix or fix
        command, sure = value.next or command, value.sure or sure
    sure = max(sure, limit, key=ORDER.index)
    checked = known.checks or {}
    results = {check: checked[check] for check in rule.checks if check in checked}
    decided = next((check for check, result in results.items() if result == "fail"), None)
    if decided:
        sure = "certain"
    elif results and all(result == "ok" for result in results.values()):
        decided, sure = next(iter(results)), "possible"
    words = {name: text.strip(".,;:'\"") for name, text in match.words.items()}
    line = _filled(command_for(command, system), {name: _quoted(text) for name, text in words.items()})
    if known.recipe:
        line = line.replace(_DOCTOR, f"{_DOCTOR}--recipe {shlex.quote(known.recipe)} ")
    return LikelyCause(
        rule.id, rule.family, _filled(title, words), match.line, match.excerpt, _filled(cause, words),
        _filled(fix, words), line, sure, rule.sources, rule.checks,
        f"{decided}: {known.details.get(decided) or results[decided]}" if decided else None,
    )  # fmt: skip


def _quoted(text: str) -> str:
    """Return what may stand in a command: foreign text only where a shell reads it as one plain word."""
    return text if _SAFE.fullmatch(text) and not text.startswith("-") else "NAME"


def _filled(text: str, words: Mapping[str, str]) -> str:
    return _PLACE.sub(
        lambda place: words.get(place[1], place[0] if place[1] == "print" else place[1].upper()), text
    )


def _limit(match: Match, outcome: Outcome) -> Sure:
    """Return how sure a rule may be at most, by what happened after its message."""
    rule, marks = match.rule, outcome.marks
    trained = marks.get("trained", 0)
    good = max(marks.values(), default=0)
    if rule.start and trained:
        return "possible"
    if rule.transfer and marks.get("done", 0) > match.line and marks["done"] >= outcome.failed:
        return "possible"
    if outcome.first_error is None and good > outcome.failed:
        return "possible"  # what failed was done after all
    failed_later = outcome.failed > match.line
    if rule.warning and not failed_later:
        return "possible"
    # The head of a report may stand behind the error itself; what stands long after it is of something else.
    failed = failed_later or (match.line - MAX_DISTANCE <= outcome.failed and good <= match.line)
    return "certain" if failed or good <= match.line else "possible"


def _ranked(
    found: Iterable[LikelyCause], general: set[str], errors: set[str], outcome: Outcome
) -> Iterable[LikelyCause]:
    """Yield the findings, surest first, then the first in the log; general ones give way to the others."""
    items = [*found]
    sure = [item for item in items if item.id not in general and item.confidence != "possible"]
    kept = [item for item in items if item.id not in general or not sure]
    first = outcome.first_error.line if outcome.first_error else 0
    # Who reports the error of another program says nothing that the first error does not.
    kept = [item for item in kept if not (item.id in _REPORTS and 0 < first < item.line)]
    # What is found far before the first error is of a step that went on.
    kept = [
        replace(item, confidence="possible")
        if item.confidence == "likely" and first and item.line < first - MAX_DISTANCE and _later(items, first)
        else item
        for item in kept
    ]

    def order(item: LikelyCause) -> tuple[int, bool, bool, bool, int]:
        far = abs(item.line - first) > NEAR
        return ORDER.index(item.confidence), item.line != first, item.id not in errors, far, item.line

    kept.sort(key=order)
    return kept[:_MOST_FINDINGS]


def _later(items: Iterable[LikelyCause], first: int) -> bool:
    return any(item.line >= first and item.confidence != "possible" for item in items)


def explain_file(path: Path, known: Circumstances | None = None, rules: Rules | None = None) -> Explanation:
    """Explain a log.

    Raises:
        UsageError: it cannot be read.
    """
    return conclude(scan_file(path, rules), known or Circumstances())


def explain_stream(
    stream: Reader, known: Circumstances | None = None, rules: Rules | None = None
) -> Explanation:
    """Explain what is read from a stream of bytes."""
    return conclude(scan(stream, rules), known or Circumstances())


def list_document(rules: Rules | None = None) -> dict[str, Any]:
    """Return the ``xpubuild.explain-rules/1`` document: all rules by family and id."""
    entries = sorted((rules or shipped_rules()).rules, key=lambda item: (item.family, item.id))
    return {
        "schema": "xpubuild.explain-rules/1",
        "rules": [
            {
                "id": entry.id,
                "family": entry.family,
                "title": entry.title,
                "messages": list(entry.says),
                "confidence": entry.sure,
                "fatal": entry.fatal,
                "sources": list(entry.sources),
            }
            for entry in entries
        ],
    }
