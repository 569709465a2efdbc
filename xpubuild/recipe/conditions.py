"""One release on one host, with the versions that would be used, and conditions on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from xpubuild.frozen import frozen
from xpubuild.machine.versions import fits
from xpubuild.recipe.model import Fact, Recipe
from xpubuild.recipe.situation import Answer, Concern, Reason, Situation

Condition = Mapping[Literal["gcc", "oneapi", "python"], str]
_WORDS = {"gcc": "GCC", "oneapi": "oneAPI", "python": "Python"}


@frozen
class Case:
    """A recipe, a situation, and the oneAPI and Python that would be used; None where not known."""

    recipe: Recipe
    situation: Situation
    oneapi: str | None
    python: str | None

    def version(self, what: str) -> str | None:
        """Return the version of gcc, oneapi or python in this case."""
        return {"gcc": self.situation.gcc, "oneapi": self.oneapi, "python": self.python}.get(what)

    def fact(self, path: str) -> Fact | None:
        """Return the fact of a key, or of the nearest part of the recipe that holds it."""
        parts = path.split(".")
        found = (self.recipe.facts.get(".".join(parts[:length])) for length in range(len(parts), 0, -1))
        return next((fact for fact in found if fact is not None), None)

    def reason(
        self,
        constraint: str,
        concern: Concern,
        answer: Literal["no", "unknown"],
        *,
        wanted: str,
        found: str,
        todo: str = "",
        path: str = "",
    ) -> Reason:
        """Return a reason with the source of its constraint."""
        fact = self.fact(path)
        return Reason(
            constraint, concern, answer, wanted, found, todo,
            source=fact.source if fact else "",
            confidence=fact.confidence if fact else "",
        )  # fmt: skip

    def if_unknown(self, constraint: str, concern: Concern, path: str) -> Iterator[Reason]:
        """Return a reason where the recipe says that the constraint itself is not known."""
        fact = self.recipe.facts.get(path)
        if fact is not None and fact.confidence == "unknown":
            yield self.reason(
                constraint, concern, "unknown",
                wanted="", found=f"it is unknown which {_WORDS.get(constraint, constraint)} it needs",
                path=path,
            )  # fmt: skip

    def condition_text(self, when: Condition, driver: str | None) -> str:
        """Return a condition in words, with what is here: 'GCC <13, here 12.2'."""
        parts = []
        for name, wanted in when.items():
            here = self.version(name)
            parts.append(f"{_WORDS[name]} {wanted}" + (f", here {here}" if here else ""))
        if driver is not None:
            parts.append(f"driver {driver}")
        return " and ".join(parts)


def told(version: str | None, what: str) -> str:
    """Return 'X is here', or that it is not known."""
    return f"the host has {version}" if version else f"{what} is unknown"


def holds(
    case: Case, when: Condition, driver: str | None, gpu: str | None, targets: tuple[str, ...]
) -> Answer:
    """Whether all parts of a condition hold; one that does not settles it, whatever else is unknown."""
    situation = case.situation
    if situation.target not in targets:
        return "no"
    answers: list[Answer] = []
    for name, wanted in when.items():
        if name == "oneapi" and situation.target != "xpu":
            return "no"
        answers.append(fits(case.version(name), wanted))
    for wanted_name, here in ((driver, situation.driver), (gpu, situation.gpu)):
        if wanted_name is not None:
            if situation.target != "xpu":
                return "no"
            answers.append("unknown" if here is None else ("yes" if here == wanted_name else "no"))
    if "no" in answers:
        return "no"
    return "unknown" if "unknown" in answers else "yes"
