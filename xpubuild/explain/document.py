"""The ``xpubuild.explain/1`` document, and the functions that create it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from xpubuild.distribution import UNKNOWN_SYSTEM, System
from xpubuild.documents import plain
from xpubuild.explain.blocks import Reader
from xpubuild.explain.estimate import LIKELY, MOST_POSSIBLE
from xpubuild.explain.firsterror import FirstError, is_certain
from xpubuild.explain.load import Rules, shipped_rules
from xpubuild.explain.matcher import OF_LOG
from xpubuild.explain.rank import LikelyCause, of_words, rank, resembling_cause
from xpubuild.explain.resembling import NOTHING_ALIKE, Resemblance, shipped_known
from xpubuild.explain.scan import Outcome, scan, scan_file
from xpubuild.explain.searchterms import search_terms
from xpubuild.explain.topics import hint
from xpubuild.frozen import frozen

_DOCTOR = "xpubuild doctor "
_MOST_PLACES = 20


@frozen
class Explanation:
    """What a log says: its first error, and the likely causes, best first."""

    first_error: FirstError | None
    findings: tuple[LikelyCause, ...]
    lines: int

    @property
    def search_terms(self) -> tuple[str, ...]:
        """What finds threads about an error; empty where a finding is likely."""
        if self.first_error is None or any(item.confidence >= LIKELY for item in self.findings):
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
    details: Mapping[str, str] | None = None
    recipe: str = ""


def _system_of_log(facts: frozenset[str]) -> System | None:
    """Return the distribution whose packages the log itself names, Fedora before its kin."""
    names = tuple(name for name in ("fedora", "rhel", "suse", "debian") if f"{OF_LOG}{name}" in facts)
    return System(names) if names else None


def conclude(outcome: Outcome, known: Circumstances) -> Explanation:
    """Return what follows from the matches of one log."""
    system = _system_of_log(outcome.facts) or known.system
    alike = _alike(outcome)
    findings = rank(
        outcome.matches,
        outcome.facts | known.facts,
        outcome.first_error,
        system=system,
        checks=known.checks,
        details=known.details,
        alike=alike,
        aftermath=outcome.aftermath,
    )
    if not findings and outcome.first_error is not None and is_certain(outcome.first_error):
        findings = tuple(
            replace(item, confidence=min(item.confidence, MOST_POSSIBLE))
            if outcome.aftermath.only_possible(item.family, item.line, item.excerpt)
            else item
            for item in _without_rules(alike, outcome.first_error, system)
        )
    if known.recipe:
        findings = tuple(_for_recipe(finding, known.recipe) for finding in findings)
    return Explanation(outcome.first_error, findings, outcome.lines)


def _alike(outcome: Outcome) -> Resemblance:
    """Return which known failures the lines round the matches and round the first error resemble."""
    error, near = outcome.first_error, outcome.surroundings
    if error is None and not outcome.matches:
        return NOTHING_ALIKE
    places = {match.number for match in outcome.matches} | ({error.line} if error else set())
    told = sorted(places)[:_MOST_PLACES]
    unseen = error.context if error and error.line not in near else ()
    return shipped_known().resembled_by(
        [*(line for number in told for line in near.get(number, ())), *unseen]
    )


def _without_rules(alike: Resemblance, error: FirstError, system: System) -> Iterator[LikelyCause]:
    """Yield what the error is about, or the cause of known failures that it resembles, if that is surer."""
    topic, resembling = hint(error), resembling_cause(alike, error, system)
    sure = of_words(alike, topic.family, rule=True) if topic else 0.0
    if resembling and of_words(alike, resembling.family) > sure:
        yield resembling
    elif topic:
        yield topic


def _for_recipe(finding: LikelyCause, recipe: str) -> LikelyCause:
    """Return the finding with the recipe in the command that it suggests."""
    named = f"{_DOCTOR}--recipe {shlex.quote(recipe)} "
    return replace(finding, next_command=finding.next_command.replace(_DOCTOR, named))


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
    """Return the ``xpubuild.explain-signatures/1`` document: all signatures by family and id."""
    entries = sorted((rules or shipped_rules()).signatures, key=lambda item: (item.family, item.id))
    return {
        "schema": "xpubuild.explain-signatures/1",
        "signatures": [
            {
                "id": entry.id,
                "family": entry.family,
                "title": entry.title,
                "fatal": entry.fatal,
                "releases": entry.releases,
                "sources": list(entry.sources),
            }
            for entry in entries
        ],
    }
