"""How often findings are right for failures that neither the rules nor the known failures had."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xpubuild.explain.estimate import Weights, estimate
from xpubuild.explain.load import shipped_rules
from xpubuild.explain.normalise import plain
from xpubuild.explain.rank import LEAST_SHARE
from xpubuild.explain.resembling import KnownFailures, read_known
from xpubuild.explain.topics import CONFIDENCE as TOPIC
from xpubuild.safe_yaml import read_yaml

_ROOT = Path(__file__).resolve().parent.parent.parent
_DATA = _ROOT / "tests" / "data" / "explain"
_KNOWN = _ROOT / "xpubuild" / "explain" / "known-failures.txt"
_FOLDS = 10
_COUNT, _STEPS, _RIDGE = 5, 25, 1e-6
#: A step of Newton's method after which the weights, which have two digits, stay what they are.
_SMALL = 1e-5
#: The rules that were asked at this revision: of its set only what they missed became samples.
MISSES = "de17ff0"


@dataclass(frozen=True)
class Candidate:
    """A family that may be told: by a rule with a confidence, or by the known failures alone."""

    family: str
    rule: float | None
    share: float
    odds: float
    helps: bool | None
    right: bool


@dataclass(frozen=True)
class Case:
    """A sample, and what could be said about it by those who did not know it."""

    sample: dict[str, Any]
    rules_of: str
    candidates: tuple[Candidate, ...]
    stated: tuple[Candidate, ...]
    """What the rules alone answered, best first."""

    @property
    def fold(self) -> int:
        """The part that the thread belongs to, by its address."""
        return _fold(self.sample["sources"][0])

    def best(self, weights: Weights) -> tuple[float, Candidate | None]:
        """Return what is told first, as ``rank`` and ``document`` of xpubuild.explain choose it, and how sure
        it is.
        """
        first = next(iter(self.stated), None)
        sure = self._sure(first, weights) if first else 0.0
        if first is not None and first.rule != TOPIC:
            return sure, first
        others = [item for item in self.candidates if item.rule is None and item.share >= LEAST_SHARE]
        best = max(others, key=lambda item: self._sure(item, weights), default=None)
        return (
            (self._sure(best, weights), best) if best and self._sure(best, weights) > sure else (sure, first)
        )

    def is_first(self, item: Candidate) -> bool:
        """Whether it is what the rules put first; a topic is no rule of them."""
        return bool(self.stated) and item is self.stated[0] and item.rule != TOPIC

    def _sure(self, item: Candidate, weights: Weights) -> float:
        ruled = item.rule is not None
        return estimate(item.share, item.odds, rule=ruled, first=self.is_first(item), weights=weights)


def count_known() -> int:
    """Return how many failures ship with xpubuild."""
    return len(read_known(_KNOWN.read_text("utf-8")))


def cases() -> list[Case]:
    """Return every sample that rules had answered before they were written from it."""
    texts = [(_DATA / name).read_text("utf-8") for name in ("kinds.yaml", "compared.yaml")]
    samples = {item["id"]: item for text in texts for item in read_yaml(text)}
    known = read_known(_KNOWN.read_text("utf-8"))
    parts = [KnownFailures([item for item in known if _fold(item.url) != part]) for part in range(_FOLDS)]
    rows = (_DATA / "answers-before.txt").read_text("utf-8").splitlines()[1:]
    return [_case(row.split("\t"), samples, parts) for row in rows]


def _case(row: Sequence[str], samples: dict[str, Any], parts: Sequence[KnownFailures]) -> Case:
    sample = samples[row[0]]
    accepted = sample["families"]
    alike = parts[_fold(sample["sources"][0])].resembled_by(_lines(sample["text"]))
    stated = []
    for cell in row[2:]:
        _, family, confidence, helped = cell.split("|")
        helps = {"y": True, "n": False}.get(helped)
        share, odds = alike.shares.get(family, 0.0), alike.odds(family)
        stated.append(Candidate(family, float(confidence), share, odds, helps, family in accepted))
    ruled = {item.family for item in stated}
    others = [
        Candidate(
            family, None, share, alike.odds(family), _helps(alike.rule_of(family), sample), family in accepted
        )
        for family, share in alike.shares.items()
        if family not in ruled and alike.rule_of(family)
    ]
    return Case(sample, row[1], (*stated, *others), tuple(stated))


def _lines(text: str) -> list[str]:
    return [plain(line.encode()) for line in text.splitlines()]


def _helps(rule: str, sample: dict[str, Any]) -> bool | None:
    if not sample.get("helpful"):
        return None
    entry = shipped_rules().by_id(rule)
    told = f"{entry.next_command()} {entry.fix}".lower()
    return any(text.lower() in told for text in sample["helpful"])


def _fold(url: str) -> int:
    return int(hashlib.sha256(url.encode()).hexdigest(), 16) % _FOLDS


def fitted(known: Iterable[Case], start: Sequence[float] = (0.0,) * _COUNT) -> Weights:
    """Return the weights that make these cases likeliest, by Newton's method from those of ``start``."""
    rows = [
        (
            (1.0, float(item.rule is not None), float(case.is_first(item)), item.share, item.odds),
            float(item.right),
        )
        for case in known
        for item in case.candidates
    ]
    weights = list(start)
    for _ in range(_STEPS):
        slope = [0.0] * _COUNT
        curve = [[_RIDGE * (row == column) for column in range(_COUNT)] for row in range(_COUNT)]
        for values, right in rows:
            sure = 1 / (1 + math.exp(-sum(a * b for a, b in zip(weights, values, strict=True))))
            for row, value in enumerate(values):
                slope[row] += (right - sure) * value
                for column, other in enumerate(values):
                    curve[row][column] += sure * (1 - sure) * value * other
        step = _solved(curve, slope)
        weights = [old + add for old, add in zip(weights, step, strict=True)]
        if max(map(abs, step)) < _SMALL:
            break
    return Weights(*(round(value, 2) for value in weights))


def _solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Return x of matrix x = right; the matrix is symmetric and positive."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for place, head in enumerate(rows):
        for row in rows:
            if row is not head:
                factor = row[place] / head[place]
                row[:] = [value - factor * other for value, other in zip(row, head, strict=True)]
    return [row[-1] / row[place] for place, row in enumerate(rows)]


def cross_validated(all_cases: Sequence[Case]) -> list[tuple[Case, float, Candidate | None]]:
    """Return (case, how sure, what is told first), with weights fitted to the other parts."""
    near = fitted(all_cases)  # of no influence on what the others end at, but fewer steps away
    weights = [fitted((case for case in all_cases if case.fold != part), near) for part in range(_FOLDS)]
    return [(case, *case.best(weights[case.fold])) for case in all_cases]
