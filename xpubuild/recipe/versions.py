"""Three-valued comparison of versions with constraints: yes, no or unknown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from packaging.specifiers import Specifier, SpecifierSet
from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from xpubuild.recipe.situation import Answer

_HIGHEST = 9999
_FULL = 3  # numbers of a version that leaves nothing open


def parse(text: str) -> Version | None:
    """Return a version, or None for text that is none ("unknown", "latest")."""
    try:
        return Version(text.strip().rstrip("+"))
    except InvalidVersion:
        return None


def fits(version: str | None, wanted: str | None) -> Answer:
    """Whether a version meets a constraint; without a constraint, yes.

    A version of fewer than three numbers stands for all releases that begin so: GCC "11" may be 11.2 or 11.4,
    so it is not known whether it meets ">=11.3".
    """
    if not wanted:
        return "yes"
    known = parse(version) if version is not None else None
    if known is None:
        return "unknown"
    clauses = SpecifierSet(wanted)
    answers = {clauses.contains(candidate, prereleases=True) for candidate in _candidates(known, clauses)}
    return "unknown" if len(answers) > 1 else ("yes" if answers.pop() else "no")


def _candidates(version: Version, clauses: SpecifierSet) -> Iterable[Version]:
    """Return the releases a version may stand for, as far as the constraint can tell them apart."""
    yield version
    if len(version.release) >= _FULL or version.is_prerelease or version.local is not None:
        return
    head = ".".join(map(str, version.release))
    yield Version(f"{head}.{_HIGHEST}")
    for clause in clauses:
        bound = _bound(clause)
        if bound is None or bound.release[: len(version.release)] != version.release:
            continue
        rest = bound.release[len(version.release) :]
        if rest:
            yield from _around(head, rest)


def _around(head: str, rest: tuple[int, ...]) -> Iterable[Version]:
    for last in {max(rest[-1] - 1, 0), rest[-1], rest[-1] + 1}:
        yield Version(".".join([head, *map(str, (*rest[:-1], last))]))


def _bound(clause: Specifier) -> Version | None:
    return parse(clause.version.removesuffix(".*"))


def newest(versions: Iterable[str]) -> tuple[str, ...]:
    """Return the versions, newest first; what is no version comes last."""
    return tuple(sorted(versions, key=lambda text: parse(text) or Version("0"), reverse=True))
