"""The ``xpubuild.explain/1`` document, and the functions that create it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from xpubuild.distribution import UNKNOWN_SYSTEM, System
from xpubuild.documents import plain
from xpubuild.explain.blocks import Reader
from xpubuild.explain.forms import FirstError
from xpubuild.explain.rules import NEAR, ORDER, Sure, command_for, shipped_rules
from xpubuild.explain.scan import Match, Outcome, scan, scan_file
from xpubuild.explain.searchterms import search_terms
from xpubuild.frozen import frozen

_DOCTOR = "xpubuild doctor "
_MOST_FINDINGS = 5
#: How many lines above the first error the reason for it may stand.
_ABOVE = 3
#: The family of rules that know the kind of an error and not its cause.
_BY_KIND = "by-kind"
#: Facts of a log whose packages are of a distribution.
_OF_LOG = "log-of-"
_PLACE = re.compile(r"\{([a-z_]+)\}")
_ASIDE = re.compile(r" \([^(){}]*\{([a-z_]+)\}[^()]*\)|(?::|(?<=\.)) \{([a-z_]+)\}(?=\.?$)")
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
    """certain: the message has one cause; likely: the log decides for one; possible: one among several."""
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
    found: dict[str, tuple[LikelyCause, Match]] = {}
    first = outcome.first_error.line if outcome.first_error else 0
    # Of several lines with the message of a rule the one nearest to the first error counts.
    for match in sorted(outcome.matches, key=lambda match: abs(match.line - first)):
        if fits(match, facts):
            cause = finding(match, system, known, _limit(match, outcome))
            if cause.id not in found or _rank(cause) < _rank(found[cause.id][0]):
                found[cause.id] = cause, match
    return Explanation(outcome.first_error, _ranked([*found.values()], outcome, first), outcome.lines)


def _rank(cause: LikelyCause) -> int:
    return ORDER.index(cause.confidence)


def fits(match: Match, facts: Iterable[str]) -> bool:
    """Whether a log has the facts that a rule requires and none that it forbids."""
    return {*match.rule.needs} <= {*facts} and not {*match.rule.unless_fact} & {*facts}


def finding(match: Match, system: System, known: Circumstances, limit: Sure = "certain") -> LikelyCause:
    """Return what a match means; no surer than ``limit``, unless a check of doctor decides."""
    rule, row = match.rule, match.rule.row(match.words)
    title, cause, fix, command, sure, what, checks = (
        (row and getattr(row, name)) or getattr(rule, name)
        for name in ("title", "cause", "fix", "next", "sure", "what", "checks")
    )
    sure = max(sure, limit, ORDER[-1] if rule.rows and row is None else limit, key=ORDER.index)
    checked = known.checks or {}
    results = {check: checked[check] for check in checks if check in checked}
    decided = next((check for check, result in results.items() if result == "fail"), None)
    if decided:
        sure = "certain"
    elif results and all(result == "ok" for result in results.values()):
        decided, sure = next(iter(results)), "possible"
    # A dot at the beginning is of a path.
    given = {name: text.strip(",;:'\"").rstrip(".,;:'\"") for name, text in match.words.items()}
    words = {"what": what, **given}
    line = _filled(command_for(command, system), {name: _quoted(text) for name, text in words.items()}, "")
    if known.recipe:
        line = line.replace(_DOCTOR, f"{_DOCTOR}--recipe {shlex.quote(known.recipe)} ")
    return LikelyCause(
        rule.id, rule.family, _filled(title, words), match.line, match.excerpt, _filled(cause, words),
        _filled(fix, words), line, sure, rule.sources, checks,
        f"{decided}: {known.details.get(decided) or results[decided]}" if decided else None,
    )  # fmt: skip


def _quoted(text: str) -> str:
    """Return what may stand in a command: foreign text only where a shell reads it as one plain word."""
    return text if _SAFE.fullmatch(text) and not text.startswith("-") else "NAME"


def _filled(text: str, words: Mapping[str, str], missing: str = "it") -> str:
    """Return a text with the words of a message; brackets, and an end, go with a word that they lack."""
    text = _ASIDE.sub(lambda aside: aside[0] if words.get(aside[1] or aside[2]) else "", text)
    return _PLACE.sub(lambda place: words.get(place[1]) or missing or place[1].upper(), text)


def _limit(match: Match, outcome: Outcome) -> Sure:
    """Return how sure a rule may be at most, by what happened after its message."""
    rule, marks = match.rule, outcome.marks
    good, done = max(marks.values(), default=0), marks.get("done", 0)
    failed_later = outcome.failed > match.line
    if (
        (rule.start and "trained" in marks)
        or (rule.transfer and done > match.line and done >= outcome.failed)
        or (outcome.first_error is None and good > outcome.failed)  # what failed was done after all
        or (rule.warning and not failed_later)
        # A line that is no error by itself, after which something else goes on, and nothing fails.
        or (not (match.is_error or rule.fatal or outcome.failed) and match.line < outcome.lines - _ABOVE)
    ):
        return "possible"
    return "certain" if failed_later or good <= match.line else "possible"


def _ranked(
    found: Sequence[tuple[LikelyCause, Match]], outcome: Outcome, first: int
) -> tuple[LikelyCause, ...]:
    """Return the findings, surest first, then the first in the log; general ones give way to the others."""
    # What is killed, or cannot write, leaves halves behind of which others complain.
    cut = outcome.first_error and outcome.first_error.kind in {"memory", "disk"}
    shown: list[tuple[LikelyCause, Match, bool]] = []
    for item, match in found:
        # What is sure stands at the first error: directly above it, or in the lines that belong to it.
        near = not first or match.rule.fatal or -_ABOVE <= item.line - first <= NEAR
        half = cut and item.line - first <= NEAR and "memory" not in item.family
        apart = bool(not near or half) and not item.decided_by
        shown.append((replace(item, confidence="possible") if apart else item, match, apart))
    sure = [match.general for item, match, _ in shown if item.confidence != "possible"]
    kept: list[tuple[tuple[int | bool, ...], LikelyCause]] = []
    for item, match, apart in shown:
        # Who reports the error of another program, or its end, says nothing that the first error does not.
        told = match.rule.general and not match.rule.rows and 0 < first < item.line
        astray = match.rule.beside and _rank(item) > 0 and not 0 < first <= item.line <= first + NEAR
        if told or astray or (match.general and not all(sure)):
            continue
        place = item.line != first, not match.is_error, abs(item.line - first) > NEAR, item.line
        kept.append(((_rank(item), apart, match.general, *place), item))
    ranked = [item for _, item in sorted(kept, key=lambda entry: entry[0])]
    # What the kind alone says is for a first error of which nothing else is known.
    known = any(item.family != _BY_KIND and -_ABOVE <= item.line - first <= NEAR for item in ranked)
    fit = [item for item in ranked if item.family != _BY_KIND or (item.line == first and not known)]
    return tuple(fit[:_MOST_FINDINGS])


def explain_file(path: Path, known: Circumstances | None = None) -> Explanation:
    """Explain a log.

    Raises:
        UsageError: it cannot be read.
    """
    return conclude(scan_file(path), known or Circumstances())


def explain_stream(stream: Reader, known: Circumstances | None = None) -> Explanation:
    """Explain what is read from a stream of bytes."""
    return conclude(scan(stream), known or Circumstances())


def list_document() -> dict[str, Any]:
    """Return the ``xpubuild.explain-rules/1`` document: all rules by family and id."""
    listed = [
        {**{name: getattr(item, name) for name in ("id", "family", "title", "fatal")},
         "messages": [message.text for message in item.says], "sources": list(item.sources),
         "confidence": min((row.sure or item.sure for row in item.rows.values() or (item,)), key=ORDER.index)}
        for item in sorted(shipped_rules().rules, key=lambda item: (item.family, item.id))
    ]  # fmt: skip
    return {"schema": "xpubuild.explain-rules/1", "rules": listed}
