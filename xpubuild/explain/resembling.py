"""Which known failures a log resembles in its words, and what that says about its cause."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import NamedTuple

from xpubuild.explain.normalise import canonical
from xpubuild.frozen import frozen

_FILE = Path(__file__).with_name("known-failures.txt")
_WORD = re.compile(r"[a-z][a-z_+]{0,80}(?:\d{1,8}(?![\w.]))?|-\d{1,5}|0x[0-9a-f]{1,16}|\d{3}\b")
_MOST_NEAREST = 20
# What a build is about to do has words of every log.
_COMMAND = re.compile(
    r"\[\d{1,7}/\d{1,7}\] [A-Z]|-- |\[ {0,3}\d{1,3}%\]"
    r"|(?:\S{1,200}/)?(?:cc|c\+\+|g\+\+|gcc|clang|clang\+\+|icx|icpx|ccache|sccache)(?:-\d{1,2})? -"
)
# A second family of a known failure counts less than its first, a third less than that.
_NEXT_FAMILY = 0.7
# Of a log that resembles nothing the nearest say nothing.
_NOTHING = 0.1
# A word that no failure of a family has makes the family unlikely, but not impossible.
_UNSEEN = 0.01
_LEAST_CHANCE = 0.001
# The words of a message come together: each says less than it would by itself.
_TEMPER = 0.3


class Known(NamedTuple):
    """A failure of a public thread: its families, the best first, and the rule that explains it."""

    url: str
    families: tuple[str, ...]
    rule: str
    words: frozenset[str]


@frozen
class Resemblance:
    """The nearest known failures, and the share of each family among them (0 to 1)."""

    shares: Mapping[str, float]
    nearest: tuple[tuple[float, Known], ...] = ()
    words: int = 0
    """How many words of the log some known failure has."""
    chances: Mapping[str, float] = field(default_factory=dict)
    """Family -> how likely it is by its words alone (0 to 1, together 1), with naive Bayes."""

    def odds(self, family: str) -> float:
        """Return the logarithm of a family's chance, which has a floor."""
        return math.log(self.chances.get(family, 0.0) + _LEAST_CHANCE)

    def of(self, family: str) -> list[Known]:
        """Return the nearest known failures that are of this family."""
        return [known for _, known in self.nearest if family in known.families]

    def rule_of(self, family: str) -> str:
        """Return the rule that explains most of those of a family, the nearer ones counting more."""
        votes: Counter[str] = Counter()
        for near, known in self.nearest:
            if known.families[0] == family and known.rule:
                votes[known.rule] += near**2  # type: ignore[assignment]  # a Counter of weights
        return max(votes, key=lambda name: (votes[name], name), default="")


NOTHING_ALIKE = Resemblance({})


def words(lines: Iterable[str]) -> frozenset[str]:
    """Return the words of lines, and the parts of names that are joined by underscores."""
    texts = (canonical(line) for line in lines)
    found = {word for text in texts if not _COMMAND.match(text) for word in _WORD.findall(text.lower())}
    return frozenset(found | {part for word in found for part in word.split("_") if len(part) > 1})


class KnownFailures:
    """Known failures by their words; the rarer a word, the more it says."""

    def __init__(self, known: Sequence[Known]) -> None:
        count = Counter(word for failure in known for word in failure.words)
        self._weights = {word: math.log((len(known) + 1) / (of + 0.5)) for word, of in count.items()}
        self._known = known
        self._by_word: dict[str, list[tuple[int, float]]] = defaultdict(list)
        self._of_family: dict[str, Counter[str]] = defaultdict(Counter)
        for number, failure in enumerate(known):
            for word, weight in self._vector(failure.words).items():
                self._by_word[word].append((number, weight))
                self._of_family[failure.families[0]][word] += weight  # type: ignore[assignment]
        self._sums = {
            family: sum(of.values()) + _UNSEEN * len(self._weights) for family, of in self._of_family.items()
        }

    def _vector(self, of: Iterable[str]) -> dict[str, float]:
        found = {word: self._weights[word] for word in of if word in self._weights}
        length = math.sqrt(sum(weight**2 for weight in found.values())) or 1.0
        return {word: weight / length for word, weight in found.items()}

    def resembled_by(self, lines: Iterable[str]) -> Resemblance:
        """Return what a text resembles; the measure is the cosine of the weights of its words."""
        near: dict[int, float] = defaultdict(float)
        told = self._vector(words(lines))
        for word, weight in told.items():
            for number, other in self._by_word[word]:
                near[number] += weight * other
        nearest = sorted(near.items(), key=lambda item: (-item[1], item[0]))[:_MOST_NEAREST]
        total = _NOTHING + sum(value**2 for _, value in nearest)
        shares: dict[str, float] = defaultdict(float)
        for number, value in nearest:
            for place, family in enumerate(self._known[number].families):
                shares[family] += value**2 * _NEXT_FAMILY**place / total
        threads = tuple((value, self._known[number]) for number, value in nearest)
        return Resemblance(dict(shares), threads, len(told), self._chances(told))

    def _chances(self, told: Mapping[str, float]) -> dict[str, float]:
        """Return how likely each family is: the better its failures explain the words, the likelier."""
        logs = {
            family: sum(
                weight * math.log((of[word] + _UNSEEN) / self._sums[family]) for word, weight in told.items()
            )
            for family, of in self._of_family.items()
        }
        most = max(logs.values(), default=0.0)
        parts = {family: math.exp(_TEMPER * (value - most)) for family, value in logs.items()}
        total = sum(parts.values())
        return {family: part / total for family, part in parts.items()}


def read_known(text: str) -> tuple[Known, ...]:
    """Return the failures of a file that ``scripts/learn-known-failures.py`` wrote."""
    rows = (line.split("\t") for line in text.splitlines() if line and not line.startswith("#"))
    return tuple(
        Known(url, tuple(families.split()), rule, frozenset(told.split()))
        for url, families, rule, told in rows
    )


@functools.cache
def shipped_known() -> KnownFailures:
    """Return the known failures that ship with xpubuild."""
    return KnownFailures(read_known(_FILE.read_text("utf-8")))
