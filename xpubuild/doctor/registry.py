"""Which checks there are, in which order, and which of them a run is about."""

from __future__ import annotations

import difflib
import fnmatch
import importlib
import pkgutil
from collections.abc import Collection, Iterable, Iterator, Sequence

from xpubuild.doctor import checks as shipped_checks
from xpubuild.doctor.context import Profile
from xpubuild.doctor.model import Check
from xpubuild.doctor.plugins import broken, classes_of, fault, plugin_checks
from xpubuild.errors import UsageError
from xpubuild.frozen import frozen

#: Groups in the order in which they are shown and in which a cause comes before its effects; those that are
#: not named here follow by name.
GROUPS = (
    "machine", "gpu", "driver", "level_zero", "opencl", "sycl", "torch", "shadow", "oneapi", "toolchain",
    "python", "build", "caches", "network",
)  # fmt: skip
_ALL: frozenset[Profile] = frozenset({"build", "run"})


@frozen
class Selection:
    """What is run, in order, and the ids of what is shown: the rest only serves what was asked for.

    ``left_out`` are the ids that ``--skip`` took away, ``whole`` whether neither option chose.
    """

    checks: tuple[type[Check], ...]
    shown: frozenset[str]
    left_out: frozenset[str] = frozenset()
    whole: bool = True


def group_of(identifier: str) -> str:
    """Return the part of an id before its first dot."""
    return identifier.partition(".")[0]


def docs_of(check: type[Check]) -> str | None:
    """Return where the page of a check is, or None for a plug-in's that has none."""
    if check.__module__.startswith(f"{shipped_checks.__name__}."):
        return f"docs/checks/{check.id}.md"
    return check.docs or None


def all_checks() -> tuple[type[Check], ...]:
    """Return the checks of xpubuild and of plug-ins, in their order; what cannot be loaded is one too."""
    return arranged((*shipped(), *plugin_checks()))


def shipped() -> Iterator[type[Check]]:
    """Yield the checks that come with xpubuild."""
    prefix = f"{shipped_checks.__name__}."
    for info in pkgutil.walk_packages(shipped_checks.__path__, prefix):
        try:
            yield from classes_of(importlib.import_module(info.name))
        except Exception as error:  # noqa: BLE001 - a damaged installation leaves the other checks alone
            yield broken(info.name.removeprefix(prefix), f"{type(error).__name__}: {error}")


def arranged(found: Iterable[type[Check]]) -> tuple[type[Check], ...]:
    """Return checks by group, each id once: the first keeps it, a later one becomes an error."""
    known: dict[str, type[Check]] = {}
    for check in found:
        problem = fault(check)
        if check.id in known:
            problem = f"{_place(check)} has the same id '{check.id}' as {_place(known[check.id])}"
        if problem:
            check = broken(f"{check.__module__}.{check.__name__}".replace("_", ""), problem)  # noqa: PLW2901
        known.setdefault(check.id, check)
    return tuple(sorted(known.values(), key=lambda check: (*_rank(check.id), _depth(check, known))))


def select(
    found: Sequence[type[Check]],
    *,
    profiles: Collection[Profile] = _ALL,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
) -> Selection:
    """Return what to run: ``only`` and ``skip`` are ids, groups and patterns.

    The checks that a selected check needs are run too, but not shown, even from another profile.

    Raises:
        UsageError: a name matches no check, or no check is left.
    """
    ids = [check.id for check in found]
    wanted = {name for text in only for name in _matching(text, ids)} if only else set(ids)
    left_out = {name for text in skip for name in _matching(text, ids)}
    asked = [
        check for check in found if check.id in wanted - left_out and (only or check.profiles & {*profiles})
    ]
    if left_out and not asked:
        raise UsageError(
            "no checks are left to run",
            why=f"--skip excludes every selected check: {', '.join(skip)}",
            fix="skip fewer checks",
            commands=("xpubuild doctor --list",),
        )
    by_id = {check.id: check for check in found}
    needed = _closure((check.id for check in asked), by_id, left_out)
    return Selection(
        tuple(check for check in found if check.id in needed),
        frozenset(check.id for check in asked),
        frozenset(left_out),
        whole=not only and not skip,
    )


def _closure(start: Iterable[str], by_id: dict[str, type[Check]], left_out: Collection[str]) -> set[str]:
    found: set[str] = set()
    frontier = list(start)
    while frontier:
        name = frontier.pop()
        if name in found or name not in by_id or name in left_out:
            continue
        found.add(name)
        frontier += by_id[name].needs
    return found


def _matching(text: str, ids: Sequence[str]) -> list[str]:
    matching = [name for name in ids if text in (name, group_of(name)) or fnmatch.fnmatchcase(name, text)]
    if matching:
        return matching
    groups = sorted({group_of(name) for name in ids})
    near = difflib.get_close_matches(text, [*ids, *groups], 3, 0.6)
    near = near or [name for name in ids if text.lower() in name][:3]
    raise UsageError(
        f"unknown check '{text}'",
        why=f"similar names: {', '.join(near)}; did you mean '{near[0]}'?"
        if near
        else f"the groups are {', '.join(groups)}",
        fix="use an id, a group (the part before the first dot) or a pattern such as 'gpu.*'",
        commands=("xpubuild doctor --list",),
    )


def _depth(check: type[Check], known: dict[str, type[Check]], seen: frozenset[str] = frozenset()) -> int:
    """Return how many checks of its own group must be well, one after the other, before this one."""
    seen |= {check.id}
    before = [known[name] for name in check.needs if name in known and name not in seen]
    return max(
        (1 + _depth(item, known, seen) for item in before if group_of(item.id) == group_of(check.id)),
        default=0,
    )


def _rank(identifier: str) -> tuple[int, str]:
    # Checks of one group and depth keep the order of their definition: the sort is stable.
    group = group_of(identifier)
    return (GROUPS.index(group), "") if group in GROUPS else (len(GROUPS), group)


def _place(check: type[Check]) -> str:
    return f"{check.__module__}.{check.__name__}"
