"""The distribution package that provides something, and the commands that install it on this host."""

from __future__ import annotations

from pathlib import Path

from xpubuild.distribution import (
    REPOSITORY_LISTS,
    Need,
    System,
    active_lines,
    family_of,
    install,
    packages,
    table,
)
from xpubuild.machine.readers import LIVE_ROOT, entries, read_text
from xpubuild.machine.system import OsFacts


def system_of(facts: OsFacts, root: Path = LIVE_ROOT) -> System:
    """Return the system with the package repositories that are set up on it."""
    text = "\n".join(
        read_text(path, root) or ""
        for place in map(Path, REPOSITORY_LISTS)
        for path in (entries(root / place.parent, root) if "*" in place.name else (root / place,))
        if path.match(place.name)
    )
    return System((facts.id, *facts.id_like), facts.version, active_lines(text))


def install_commands(need: Need, system: OsFacts, python: str = "3") -> tuple[str, ...]:
    """Return the lines to type on this distribution; none where it is not a known one.

    ``python`` is the version ('3.11') whose headers are missing.
    """
    return install((need,), system_of(system), python=python)


def package_names(need: Need, system: OsFacts, python: str = "3") -> str:
    """Return the package for this distribution in words, or for all known ones where it is none of them."""
    families = table()["families"]
    family = family_of((system.id, *system.id_like))
    if family is not None:
        also = families[family].get("also", {}).get(need, "")
        return f"{' '.join(packages(need, system_of(system), python=python))}{also}"
    told = []
    for name, row in families.items():
        brought = " ".join(packages(need, System((name,)), python=python))
        told.append(f"{brought}{row.get('also', {}).get(need, '')} ({row['label']})")
    return ", ".join(told)
