"""Which checks there are, in which order, and which of them a run is about.

Sites add checks by entry points of the group ``xpubuild.checks``, each of which names a check or a module
with checks. A module or entry point that cannot be loaded becomes a check with status ``error``; all others
run.
"""

from __future__ import annotations

import difflib
import fnmatch
import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path

from xpubuild.doctor import checks as shipped_checks
from xpubuild.doctor.kit import Check, Outcome, Profile
from xpubuild.errors import UsageError
from xpubuild.frozen import frozen

#: Groups in the order in which they are shown and in which a cause comes before its effects; those that are
#: not named here follow by name.
GROUPS = (
    "machine", "gpu", "driver", "level_zero", "opencl", "sycl", "torch", "shadow", "oneapi", "toolchain",
    "python", "build", "caches", "network",
)  # fmt: skip
_ENTRY_POINTS = "xpubuild.checks"


@frozen
class Selection:
    """What is run, in order, and the ids of what is shown: the rest only serves what was asked for.

    ``left_out`` are the ids that ``--skip`` excluded, ``whole`` whether neither option chose.
    """

    checks: tuple[Check, ...]
    shown: frozenset[str]
    left_out: frozenset[str] = frozenset()
    whole: bool = True


def all_checks() -> tuple[Check, ...]:
    """Return the checks of xpubuild and of plug-ins, in their order; what cannot be loaded is one too."""
    return arranged((*shipped(), *_plugins()))


def shipped() -> Iterator[Check]:
    """Yield the checks that come with xpubuild."""
    prefix = f"{shipped_checks.__name__}."
    for info in pkgutil.iter_modules(shipped_checks.__path__):
        yield from _loaded(info.name, functools.partial(importlib.import_module, prefix + info.name))


def _plugins() -> Iterator[Check]:
    for entry in sorted(entry_points(group=_ENTRY_POINTS), key=lambda item: (item.name, item.value)):
        yield from _loaded(entry.name, entry.load, entry.value)


def _loaded(name: str, load: Callable[[], object], what: str = "") -> list[Check]:
    """Return the checks of a module, or the one that an entry point names."""
    try:
        found = load()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary: a plug-in may raise anything
        return [broken(name, f"{what}: {type(error).__name__}: {error}".removeprefix(": "))]
    if isinstance(found, Check):
        return [found]
    if not inspect.ismodule(found):
        return [broken(name, f"{what} is not a check")]
    own = [item for item in vars(found).values() if isinstance(item, Check)]
    own = [item for item in own if item.ask.__module__ == found.__name__]
    return own or ([broken(name, f"{what} contains no checks")] if what else [])


def broken(name: str, problem: str) -> Check:
    """Return a check that reports something that could not be loaded."""
    title = f"The checks of {name} can be loaded"
    return Check(lambda _look: Outcome("error", problem), f"plugin.{name}", title, problem=problem)


def arranged(found: Iterable[Check]) -> tuple[Check, ...]:
    """Return checks by group, each id once: the first keeps it, a later one becomes an error."""
    known: dict[str, Check] = {}
    for check in found:
        if check.id in known:
            place, other = (f"{item.ask.__module__}.{item.ask.__name__}" for item in (check, known[check.id]))
            twice = broken(place.replace("_", ""), f"{place} has the same id '{check.id}' as {other}")
            known.setdefault(twice.id, twice)
        known.setdefault(check.id, check)

    def rank(check: Check) -> tuple[int, str, int]:
        # Checks of one group and depth keep the order of their definition: the sort is stable.
        group = check.group
        first = (GROUPS.index(group), "") if group in GROUPS else (len(GROUPS), group)
        return (*first, _depth(check, known))

    return tuple(sorted(known.values(), key=rank))


def _depth(check: Check, known: dict[str, Check], seen: frozenset[str] = frozenset()) -> int:
    """Return how many checks of its own group must be well, one after the other, before this one."""
    seen |= {check.id}
    before = (known[name] for name in check.needs if name in known and name not in seen)
    return max((1 + _depth(item, known, seen) for item in before if item.group == check.group), default=0)


def select(
    found: Sequence[Check],
    *,
    profiles: Collection[Profile] = ("build", "run"),
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
) -> Selection:
    """Return what to run: ``only`` and ``skip`` are ids, groups and patterns.

    The checks that a selected check needs are run too, but not shown, even from another profile.

    Raises:
        UsageError: a name matches no check, or no check is left.
    """
    by_id = {check.id: check for check in found}
    wanted = {name for text in only for name in _matching(text, by_id)} if only else set(by_id)
    left_out = {name for text in skip for name in _matching(text, by_id)}
    meant = [check for check in found if only or {*check.profiles} & {*profiles}]
    asked = [check.id for check in meant if check.id in wanted - left_out]
    if left_out and not asked:
        raise UsageError(
            "no checks are left to run",
            why=f"--skip excludes every selected check: {', '.join(skip)}",
            fix="skip fewer checks",
            commands=("xpubuild doctor --list",),
        )
    run, todo = set[str](), list(asked)
    while todo:
        name = todo.pop()
        if name in by_id and name not in run | left_out:
            run.add(name)
            todo += by_id[name].needs
    checks = tuple(check for check in found if check.id in run)
    return Selection(checks, frozenset(asked), frozenset(left_out), whole=not only and not skip)


def _matching(text: str, checks: dict[str, Check]) -> list[str]:
    names = [
        name
        for name, check in checks.items()
        if text in (name, check.group) or fnmatch.fnmatchcase(name, text)
    ]
    if names:
        return names
    groups = sorted({check.group for check in checks.values()})
    near = difflib.get_close_matches(text, [*checks, *groups], 3, 0.6)
    near = near or [name for name in checks if text.lower() in name][:3]
    like = f"similar names: {', '.join(near)}; did you mean '{near[0]}'?" if near else ""
    raise UsageError(
        f"unknown check '{text}'",
        why=like or f"the groups are {', '.join(groups)}",
        fix="use an id, a group (the part before the first dot) or a pattern such as 'gpu.*'",
        commands=("xpubuild doctor --list",),
    )


@functools.cache
def families() -> Mapping[str, list[str]]:
    """Return family of failures, by explain's name -> ids of the checks that detect it."""
    from xpubuild.safe_yaml import read_yaml  # noqa: PLC0415 - a run needs no YAML

    text = Path(__file__).with_name("families.yaml").read_text("utf-8")
    found: Mapping[str, list[str]] = read_yaml(text)["families"]
    return found


def families_of(check: str) -> list[str]:
    """Return the names of the families that a check detects."""
    return [name for name, checks in families().items() if check in checks]
