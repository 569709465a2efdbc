"""Three-valued comparison of versions with constraints: yes, no or unknown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

Answer = Literal["yes", "no", "unknown"]
_HIGHEST = 9999
_FULL = 3  # numbers of a complete version


def parse(text: str | None) -> Version | None:
    """Return a version, or None for text that is none ("unknown", "latest")."""
    try:
        return Version((text or "").strip().rstrip("+"))
    except InvalidVersion:
        return None


def fits(version: str | None, wanted: str | None) -> Answer:
    """Whether a version meets a constraint; without a constraint, yes.

    A version of fewer than three numbers stands for all releases it begins: GCC "11" may be 11.2 or 11.4,
    so it is not known whether it meets ">=11.3". The same is true of a folder of oneAPI, such as 2025.1.
    """
    if not wanted:
        return "yes"
    known = parse(version)
    if known is None:
        return "unknown"
    clauses = SpecifierSet(wanted)
    answers = {clauses.contains(candidate, prereleases=True) for candidate in _candidates(known, clauses)}
    return "unknown" if len(answers) > 1 else ("yes" if answers.pop() else "no")


def _candidates(version: Version, clauses: SpecifierSet) -> Iterable[Version]:
    """Return the releases a version may stand for, as far as the constraint distinguishes them."""
    yield version
    given = len(version.release)
    if given >= _FULL or version.is_prerelease or version.local is not None:
        return
    head = ".".join(map(str, version.release))
    yield Version(f"{head}.{_HIGHEST}")
    for clause in clauses:
        bound = parse(clause.version.removesuffix(".*"))
        if bound is not None and bound.release[:given] == version.release and len(bound.release) > given:
            *between, last = bound.release[given:]
            for number in {max(last - 1, 0), last, last + 1}:
                yield Version(".".join(map(str, (head, *between, number))))


def newest(versions: Iterable[str]) -> tuple[str, ...]:
    """Return the versions, newest first; text that is not a version comes last."""
    return tuple(sorted(versions, key=lambda text: parse(text) or Version("0"), reverse=True))


def line_of(text: str | None) -> str | None:
    """Return the first two numbers of a version, which oneAPI's folders are named after; None without one."""
    version = parse(text)
    return None if version is None else f"{version.major}.{version.minor}"
