"""The differences between two locks, each with the name of the item, and between their machines. Pure.

docs/how-to/lock.md explains the policy "compatible". A build uses the oneAPI and the compilers of this
machine; a lock cannot install them, it can only report that they differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from xpubuild.frozen import frozen
from xpubuild.install.lock_model import Lock, Machine, Policy

_MOST_LISTED = 4


@frozen
class Difference:
    """One thing that is not what a lock says."""

    path: str
    """Name of the thing, such as repositories.torch.submodules.NAME.commit."""
    old: Any
    """What the lock has; null where it has nothing."""
    new: Any
    """What there is now; null where there is nothing."""
    text: str
    """The difference as a sentence."""


def differences(old: Lock, new: Lock) -> list[Difference]:
    """Return what differs, the machines aside, in the order of the sections."""
    names = [name for name in Lock.model_fields if name != "machine"]
    one, other = ({name: _named(getattr(lock, name)) for name in names} for lock in (old, new))
    return list(compare("", one, other))


def compare(name: str, old: Any, new: Any) -> Iterator[Difference]:
    """Yield what differs between two trees of named values; None stands for what is not there."""
    if old is None or new is None or not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        if old != new:
            yield Difference(name, old, new, _sentence(name, old, new))
        return
    for key in dict.fromkeys((*old, *new)):
        yield from compare(f"{name}.{key}" if name else key, old.get(key), new.get(key))


def _named(value: Any) -> Any:
    """Return a part of a lock as mappings: the items of a list by their key."""
    if isinstance(value, BaseModel):
        return {name: _named(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {name: _named(item) for name, item in value.items()}
    if isinstance(value, tuple) and any(isinstance(item, BaseModel) for item in value):
        return {item.key: _named(item) for item in value}
    return value or None if isinstance(value, tuple) else value


def _sentence(name: str, old: Any, new: Any) -> str:
    if isinstance(old, Mapping) or isinstance(new, Mapping):
        return f"{name} is {'not' if old is None else 'only'} in the lock"
    if isinstance(old, tuple) and isinstance(new, tuple):
        gone = [item for item in old if item not in new]
        came = [item for item in new if item not in old]
        if not gone and not came:
            return f"{name}: the lock has the order {_listed(old)}, now it is {_listed(new)}"
        parts = [f"the lock has {_listed(gone)}"] if gone else []
        parts += [f"now there is {_listed(came)}"] if came else []
        return f"{name}: {', '.join(parts)}"
    return f"{name}: the lock has {_shown(old)}, now it is {_shown(new)}"


def _listed(values: Sequence[str]) -> str:
    rest = len(values) - _MOST_LISTED
    return ", ".join(values[:_MOST_LISTED]) + (f" and {rest} more" if rest > 0 else "")


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return _listed(value)
    return "none" if value is None else f"'{value}'" if value == "" else str(value)


def machine_differences(lock: Machine, here: Machine, policy: Policy) -> list[Difference]:
    """Return what of this machine does not satisfy ``policy``; nothing for "ignore"."""
    if policy == "exact":
        return list(compare("machine", _named(lock), _named(here)))
    return list(_incompatible(lock, here)) if policy == "compatible" else []


def not_older(version: str, than: str) -> bool:
    """Whether a version is the same or newer, by its numbers; an epoch (``1:2.3``) counts first."""
    return version == than or _numbers(version) >= _numbers(than)


def _numbers(version: str) -> tuple[int, ...]:
    epoch, colon, rest = version.rpartition(":")
    numbers = tuple(map(int, re.findall(r"\d+", rest)))
    return (int(epoch) if colon and epoch.isdigit() else 0, *numbers)


def _first(version: str, count: int) -> list[str]:
    return re.findall(r"\d+", version)[:count]


def _same(version: str, other: str) -> bool:
    return version == other


def _same_minor(version: str, other: str) -> bool:
    return _first(version, 2) == _first(other, 2)


def _same_compiler(text: str, other: str) -> bool:
    return text.partition(" ")[0] == other.partition(" ")[0] and _first(text, 1) == _first(other, 1)


#: Beginning of a name -> what must hold of (here, lock), and how that is reported.
_COMPATIBLE: Mapping[str, tuple[Callable[[str, str], bool], str]] = {
    "architecture": (_same, "it must be the same"),
    "glibc": (not_older, "it must not be older"),
    "python": (_same_minor, "major and minor version must be the same"),
    "compilers.": (_same_compiler, "kind and major version must be the same"),
    "drivers.family": (_same, "it must be the same"),
    "drivers.packages.": (not_older, "it must not be older"),
    "oneapi.components.": (_same_minor, "major and minor version must be the same"),
}


def _values(machine: Machine) -> dict[str, str]:
    """Return what the policy "compatible" compares, by name."""
    found = {"architecture": machine.architecture, "glibc": machine.glibc, "python": machine.python}
    found |= {f"compilers.{name}": f"{one.kind} {one.version}" for name, one in machine.compilers.items()}
    if machine.drivers is not None:
        found |= {"drivers.family": machine.drivers.family} if machine.drivers.family else {}
        found |= {f"drivers.packages.{name}": one for name, one in machine.drivers.packages.items()}
    if machine.oneapi is not None:
        found |= {f"oneapi.components.{name}": one for name, one in machine.oneapi.components.items()}
    return found


def _incompatible(lock: Machine, here: Machine) -> Iterator[Difference]:
    there = _values(here)
    for name, value in _values(lock).items():
        holds, rule = next(rule for start, rule in _COMPATIBLE.items() if name.startswith(start))
        found = there.get(name)
        if found is None or not holds(found, value):
            has = f"this machine has {found or 'none'}"
            text = f"machine.{name}: the lock has {value}, {has}; {rule}"
            yield Difference(f"machine.{name}", value, found, text)
    if lock.oneapi is not None:
        before, after = _variables(lock), _variables(here)
        for variable in sorted(before ^ after):
            place = f"machine.oneapi.environment.{variable}"
            if variable in before:
                text = f"{place} is changed by oneAPI in the lock, but not here"
                yield Difference(place, variable, None, text)
            else:
                text = f"{place} is changed by oneAPI here, but not in the lock"
                yield Difference(place, None, variable, text)


def _variables(machine: Machine) -> set[str]:
    if machine.oneapi is None:
        return set()
    environment = machine.oneapi.environment
    return {*environment.set, *environment.unset, *environment.paths}
