"""From matches to findings: which cause is the likeliest, and how sure that is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from xpubuild.distribution import UNKNOWN_SYSTEM, System
from xpubuild.explain.aftermath import Aftermath
from xpubuild.explain.estimate import LIKELY, MOST_POSSIBLE, estimate, told
from xpubuild.explain.firsterror import FirstError
from xpubuild.explain.load import shipped_rules
from xpubuild.explain.matcher import Match
from xpubuild.explain.resembling import Resemblance
from xpubuild.explain.resolve import resolve
from xpubuild.explain.signature import Signature
from xpubuild.frozen import frozen

_MOST_FINDINGS = 10
_NEAR_LINES = 40
_NEAR_BONUS = 0.04
# How far a cause on the same line may fall behind the best and still be told.
_SAME_LINE_GAP = 0.25
_SUPPORTED, _REFUTED = 0.7, 0.3
_LEAST = 0.15
_MOST_RESEMBLED = 3
_LOOK = "xpubuild doctor"
LEAST_SHARE = 0.15
#: 'make: *** [all] Error 2' is in logs of every failure.
_FEWEST_WORDS = 4
_HIGHEST = 0.99


@frozen
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
    """Between 0 and 1: how often such a finding was right for unknown failures; below 0.5 it is possible."""
    sources: tuple[str, ...]
    """Where it was learned."""
    releases: str
    """Releases it concerns; empty where it concerns all."""
    probes: tuple[str, ...]
    """Checks of doctor that confirm or refute it."""
    resembles: tuple[str, ...] = ()
    """Threads with failures of this family whose words the log has, the nearest first."""


@frozen
class _Ranked:
    """A finding, how sure its rule is by itself, and with what doctor says, which may settle it.

    ``uncapped`` leaves out what happened after it.
    """

    checked: float
    uncapped: float
    stated: float
    settled: bool
    finding: LikelyCause

    def estimated(self, alike: Resemblance | None, *, first: bool) -> LikelyCause:
        """Return the finding with the confidence that is shown."""
        if self.settled or alike is None:
            return replace(self.finding, confidence=self.checked)
        value = of_words(alike, self.finding.family, rule=True, first=first)
        value *= self.checked / self.stated
        return replace(self.finding, confidence=told(value, only_possible=self.checked < LIKELY))


def rank(
    matches: Iterable[Match],
    facts: Collection[str],
    first_error: FirstError | None,
    *,
    system: System = UNKNOWN_SYSTEM,
    checks: Mapping[str, str] | None = None,
    details: Mapping[str, str] | None = None,
    alike: Resemblance | None = None,
    aftermath: Aftermath = Aftermath(),  # noqa: B008  # frozen
) -> tuple[LikelyCause, ...]:
    """Return the findings, best first.

    ``checks`` are results of doctor on the host of the log (check -> status): they decide between causes
    of one and the same text. ``details`` are what these checks found, as evidence. ``alike`` are the known
    failures that the log resembles; without them a rule is as sure as it says. ``aftermath`` says how the run
    went on: what it did not fail of is possible at most.
    """
    best = _without_superseded(_without_general(_best_per_signature(matches, facts)))
    ranked = []
    for match in best:
        finding = _finding(match, system)
        stated = _stated(finding, first_error)
        checked, confirmed = _checked(match.signature, stated, checks or {})
        uncapped = checked
        if not match.signature.fatal and aftermath.only_possible(
            finding.family, finding.line, finding.excerpt
        ):
            checked = min(checked, MOST_POSSIBLE)
        settled = alike is None or confirmed or match.signature.certain
        cause = " ".join((finding.cause, *_confirmed(match.signature, checks or {}, details or {})))
        finding = replace(finding, cause=cause, resembles=_threads(alike, finding.family))
        ranked.append(_Ranked(checked, uncapped, stated, settled, finding))
    ranked.sort(
        key=lambda item: (
            -round(item.checked, 2), -round(item.uncapped, 2), item.finding.line, item.finding.id,
        )
    )  # fmt: skip
    shown = list(_shown(ranked))
    told_by = (item.estimated(alike, first=item is shown[0]) for item in shown)
    return tuple(_descending(told_by))[:_MOST_FINDINGS]


def resembling_cause(alike: Resemblance, error: FirstError, system: System) -> LikelyCause | None:
    """Return the cause of the known failures that the log resembles, told by the rule of most of them."""
    families = (name for name, share in alike.shares.items() if share >= LEAST_SHARE and alike.rule_of(name))
    family = max(families, key=lambda name: (of_words(alike, name), name), default="")
    if not family or alike.words < _FEWEST_WORDS:
        return None
    rule = alike.rule_of(family)
    signature = shipped_rules().by_id(rule)
    finding = _finding(Match(signature, signature.match[0], error.line, error.text), system)
    count = len(alike.of(family))
    named = family.partition("-")[2].replace("-", " ")
    # The names in the texts of a kind are those of its line, and it has none here.
    nameless = "{" in signature.title
    return replace(
        finding,
        family=family,
        title=f"Known failures with these words: {named}" if nameless else finding.title,
        cause=f"No rule fits. {count} of the {len(alike.nearest)} known failures "
        "with the most words in common are of this family"
        + ("." if nameless else f", most of them with this cause: {finding.cause}"),
        next_command=_LOOK if nameless and "{install}" in signature.next_command() else finding.next_command,
        confidence=told(of_words(alike, family)),
        resembles=_threads(alike, family),
    )


def of_words(alike: Resemblance, family: str, *, rule: bool = False, first: bool = False) -> float:
    """Return how often a finding of this family is right for a log with these words."""
    return estimate(alike.shares.get(family, 0.0), alike.odds(family), rule=rule, first=first)


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
        if not match.signature.general and match.matcher.confidence >= LIKELY
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


def _stated(finding: LikelyCause, first_error: FirstError | None) -> float:
    """Return how sure the rule is by itself; near the first error a little more."""
    near = first_error is not None and abs(finding.line - first_error.line) <= _NEAR_LINES
    return min(finding.confidence + _NEAR_BONUS * near, _HIGHEST)


def _checked(signature: Signature, value: float, checks: Mapping[str, str]) -> tuple[float, bool]:
    """Return how sure a rule is after what doctor found, and whether doctor confirms it."""
    confirmed = False
    for probe in signature.probes:
        status = checks.get(probe.check)
        if status in probe.supports:
            value += (1 - value) * _SUPPORTED
            confirmed = True
        elif status == "ok":
            value *= _REFUTED
    return min(value, _HIGHEST), confirmed


def _threads(alike: Resemblance | None, family: str) -> tuple[str, ...]:
    known = alike.of(family) if alike else []
    return tuple(dict.fromkeys(failure.url for failure in known))[:_MOST_RESEMBLED]


def _confirmed(signature: Signature, checks: Mapping[str, str], details: Mapping[str, str]) -> Iterable[str]:
    """Yield what doctor found on the host that speaks for this cause."""
    for probe in signature.probes:
        if checks.get(probe.check) in probe.supports and details.get(probe.check):
            yield f"This host confirms it ({probe.check}): {details[probe.check]}"


def _shown(ranked: Iterable[_Ranked]) -> Iterable[_Ranked]:
    best_at: dict[int, float] = {}
    for item in ranked:
        best = best_at.setdefault(item.finding.line, item.checked)
        if item.checked >= max(_LEAST, best - _SAME_LINE_GAP):
            yield item


def _descending(findings: Iterable[LikelyCause]) -> Iterable[LikelyCause]:
    """Yield findings of which none is surer than one before it."""
    most = 1.0
    for finding in findings:
        most = round(min(most, finding.confidence), 2)
        yield replace(finding, confidence=most)
