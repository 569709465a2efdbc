"""One release on one host, with the versions that would be used, and conditions on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from xpubuild.frozen import frozen
from xpubuild.machine.versions import Answer, fits
from xpubuild.recipe.facts import fact_of
from xpubuild.recipe.model import Recipe
from xpubuild.recipe.situation import Concern, Reason, Situation

When = Mapping[Literal["gcc", "oneapi", "python"], str]
WORDS = {"gcc": "GCC", "oneapi": "oneAPI", "python": "Python"}


@frozen
class Case:
    """A recipe, a situation, and the oneAPI and Python that would be used; None where not known."""

    recipe: Recipe
    situation: Situation
    oneapi: str | None = None
    python: str | None = None

    @property
    def xpu(self) -> bool:
        """Whether the build is for XPU."""
        return self.situation.target == "xpu"

    def version(self, what: str) -> str | None:
        """Return the version of gcc, oneapi or python in this case."""
        return {"gcc": self.situation.gcc, "oneapi": self.oneapi, "python": self.python}.get(what)

    def reason(
        self,
        constraint: str,
        concern: Concern,
        answer: Literal["no", "unknown"],
        *,
        wanted: str = "",
        found: str,
        todo: str = "",
        path: str,
    ) -> Reason:
        """Return a reason with the source of its constraint, which stands at ``path`` in the recipe."""
        fact = fact_of(path, self.recipe.facts)
        source, confidence = (fact.source, fact.confidence) if fact else ("", "")
        return Reason(constraint, concern, answer, wanted, found, todo, source, confidence)


def holds(
    case: Case,
    when: When,
    driver: str | None = None,
    gpu: str | None = None,
    targets: tuple[str, ...] = ("xpu", "cpu"),
) -> Answer:
    """Whether all parts of a condition hold; one that does not settles it, whatever else is unknown."""
    host = case.situation
    if host.target not in targets or (not case.xpu and (driver or gpu or "oneapi" in when)):
        return "no"
    answers: list[Answer] = [fits(case.version(name), wanted) for name, wanted in when.items()]
    for wanted_name, here in ((driver, host.driver), (gpu, host.gpu)):
        if wanted_name is not None:
            answers.append("unknown" if here is None else ("yes" if here == wanted_name else "no"))
    return "no" if "no" in answers else ("unknown" if "unknown" in answers else "yes")


def condition_text(
    when: When,
    driver: str | None = None,
    gpu: str | None = None,
    case: Case | None = None,
) -> str:
    """Return a condition in words, with what a case has: 'GCC <13, here 12.2 and driver lts-2350'."""
    parts = []
    for name, wanted in when.items():
        here = case.version(name) if case is not None else None
        parts.append(f"{WORDS[name]} {wanted}" + (f", here {here}" if here else ""))
    parts += [f"driver {driver}"] if driver else []
    return " and ".join([*parts, *([f"GPU {gpu}"] if gpu else [])])
