"""From matches to findings: which cause is the likeliest, and how sure that is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from xpubuild.distribution import UNKNOWN_SYSTEM, System
from xpubuild.explain.firsterror import FirstError
from xpubuild.explain.matcher import Match
from xpubuild.explain.resolve import resolve
from xpubuild.explain.signature import Signature

_MOST_FINDINGS = 10
_NEAR_LINES = 40
_NEAR_BONUS = 0.04
# How far a cause on the same line may fall behind the best and still be told.
_SAME_LINE_GAP = 0.25
_SUPPORTED, _REFUTED = 0.7, 0.3
_LEAST = 0.15
_KNOWS = 0.5
_HIGHEST = 0.99


@dataclass(frozen=True)
class LikelyCause:
    """A likely cause."""

    id: str
    """Name of the signature."""
    family: str
    """Group of failures with one mechanism."""
    title: str
    line: int
    """Counted from 1."""
    excerpt: str
    """What was found there."""
    cause: str
    fix: str
    next_command: str
    """What to type next on this distribution."""
    confidence: Annotated[float, Field(ge=0, le=1)]
    """Between 0 and 1: how often this text has had this cause."""
    sources: tuple[str, ...]
    """Where it was learned."""
    releases: str
    """Releases it concerns; empty where it concerns all."""
    probes: tuple[str, ...]
    """Checks of doctor that confirm or refute it."""


def rank(
    matches: Iterable[Match],
    facts: Collection[str],
    first_error: FirstError | None,
    *,
    system: System = UNKNOWN_SYSTEM,
    checks: Mapping[str, str] | None = None,
    details: Mapping[str, str] | None = None,
) -> tuple[LikelyCause, ...]:
    """Return the findings, best first.

    ``checks`` are results of doctor on the host of the log (check -> status): they decide between causes
    of one and the same text. ``details`` are what these checks found, as evidence.
    """
    best = _without_superseded(_without_general(_best_per_signature(matches, facts)))
    findings = [
        replace(
            finding,
            confidence=_confidence(signature, finding, first_error, checks or {}),
            cause=" ".join((finding.cause, *_confirmed(signature, checks or {}, details or {}))),
        )
        for signature, finding in ((match.signature, _finding(match, system)) for match in best)
    ]
    findings.sort(key=lambda item: (-item.confidence, item.line, item.id))
    return tuple(_told(findings))[:_MOST_FINDINGS]


def fits(match: Match, facts: Collection[str]) -> bool:
    """Whether the facts that a match depends on hold."""
    matcher = match.matcher
    return all(name in facts for name in matcher.needs) and not any(
        name in facts for name in matcher.unless_fact
    )


def _best_per_signature(matches: Iterable[Match], facts: Collection[str]) -> list[Match]:
    best: dict[str, Match] = {}
    for match in matches:
        if fits(match, facts):
            other = best.get(match.signature.id)
            if other is None or match.matcher.confidence > other.matcher.confidence:
                best[match.signature.id] = match
    return list(best.values())


def _without_superseded(matches: list[Match]) -> list[Match]:
    gone = {name for match in matches for name in match.signature.supersedes}
    return [match for match in matches if match.signature.id not in gone]


def _without_general(matches: list[Match]) -> list[Match]:
    """Leave out kinds on lines of which a signature knows more; one that is only possible does not."""
    known = {
        match.number
        for match in matches
        if not match.signature.general and match.matcher.confidence >= _KNOWS
    }
    return [match for match in matches if not match.signature.general or match.number not in known]


def _finding(match: Match, system: System) -> LikelyCause:
    signature = match.signature
    told = resolve(match, system)
    return LikelyCause(
        id=signature.id,
        family=told.family,
        title=told.title,
        line=match.number,
        excerpt=match.excerpt,
        cause=told.cause,
        fix=told.fix,
        next_command=told.next_command,
        confidence=told.confidence,
        sources=signature.sources,
        releases=signature.releases,
        probes=tuple(probe.check for probe in signature.probes),
    )


def _confidence(
    signature: Signature, finding: LikelyCause, first_error: FirstError | None, checks: Mapping[str, str]
) -> float:
    value = finding.confidence
    if first_error is not None and abs(finding.line - first_error.line) <= _NEAR_LINES:
        value += _NEAR_BONUS
    for probe in signature.probes:
        status = checks.get(probe.check)
        if status in probe.supports:
            value += (1 - value) * _SUPPORTED
        elif status == "ok":
            value *= _REFUTED
    return round(min(value, _HIGHEST), 2)


def _confirmed(signature: Signature, checks: Mapping[str, str], details: Mapping[str, str]) -> Iterable[str]:
    """Yield what doctor found on the host that speaks for this cause."""
    for probe in signature.probes:
        if checks.get(probe.check) in probe.supports and details.get(probe.check):
            yield f"This host confirms it ({probe.check}): {details[probe.check]}"


def _told(findings: list[LikelyCause]) -> Iterable[LikelyCause]:
    best_at: dict[int, float] = {}
    for finding in findings:
        best = best_at.setdefault(finding.line, finding.confidence)
        if finding.confidence >= max(_LEAST, best - _SAME_LINE_GAP):
            yield finding
