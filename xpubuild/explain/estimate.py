"""How sure a finding is, as measured on failures that were unknown to the rules when they answered."""

from __future__ import annotations

import math
from typing import NamedTuple

#: A cause counts as likely from here on; one that is only possible stays below.
LIKELY = 0.5
#: Only what is right in nineteen of twenty unknown failures is told as likely: less than one finding in
#: fifty is to be likely and wrong, and in cross-validation 2.3 % were with 0.9.
_TOLD = 0.95
_HIGHEST = 0.99
#: The most that is shown for a cause that is only possible.
MOST_POSSIBLE = 0.49


class Weights(NamedTuple):
    """What counts, in log odds: that a rule names the family, that it is the surest of the rules by itself,
    the share of the family among the known failures that the log resembles most, and the family's odds by the
    words alone.
    """

    base: float
    rule: float
    first: float
    share: float
    odds: float


#: Fitted by scripts/calibrate-explain.py.
FITTED = Weights(-0.89, 1.77, 0.76, 6.13, 0.7)


def estimate(
    share: float, odds: float, *, rule: bool = False, first: bool = False, weights: Weights = FITTED
) -> float:
    """Return how often a finding with this share and odds is right: of a rule, the first one, or of none."""
    of_words = weights.share * share + weights.odds * odds
    total = weights.base + weights.rule * rule + weights.first * first + of_words
    return 1 / (1 + math.exp(-total))


def told(value: float, *, only_possible: bool = False) -> float:
    """Return the confidence that is shown; what is right less often than 19 times of 20 is possible."""
    if value >= _TOLD and not only_possible:
        return round(min(value, _HIGHEST), 2)
    return round(min(value * LIKELY / _TOLD, MOST_POSSIBLE), 2)
