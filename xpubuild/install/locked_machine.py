"""Compares the machine of a lock with this one: exactly, compatibly, or not at all. Pure.

docs/how-to/lock.md explains "compatible". A build uses the oneAPI and the compilers of this machine; a lock
cannot install them, it can only report that they differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from xpubuild.install.lock_compare import Difference, different_items
from xpubuild.install.lock_items import machine_items
from xpubuild.install.lock_model import Drivers, Machine, Oneapi, Policy


def machine_differences(lock: Machine, here: Machine, policy: Policy) -> list[Difference]:
    """Return what of this machine does not satisfy ``policy``; nothing for "ignore"."""
    if policy == "ignore":
        return []
    if policy == "exact":
        return different_items(machine_items(lock), machine_items(here))
    return list(_incompatible(lock, here))


def not_older(version: str, than: str) -> bool:
    """Whether a version is the same or newer, by its numbers; an epoch (``1:2.3``) counts first."""
    return version == than or _numbers(version) >= _numbers(than)


def _numbers(version: str) -> tuple[int, ...]:
    epoch, colon, rest = version.rpartition(":")
    numbers = tuple(map(int, re.findall(r"\d+", rest)))
    return (int(epoch) if colon and epoch.isdigit() else 0, *numbers)


def _first(version: str, count: int) -> list[str]:
    return re.findall(r"\d+", version)[:count]


def _incompatible(lock: Machine, here: Machine) -> Iterator[Difference]:
    if lock.architecture != here.architecture:
        yield _one("architecture", lock.architecture, here.architecture, "it must be the same")
    if not not_older(here.glibc, lock.glibc):
        yield _one("glibc", lock.glibc, here.glibc, "it must not be older")
    if _first(lock.python, 2) != _first(here.python, 2):
        yield _one("python", lock.python, here.python, "major and minor version must be the same")
    for name, compiler in lock.compilers.items():
        other = here.compilers.get(name)
        asked = f"{compiler.kind} {compiler.version}"
        found = f"{other.kind} {other.version}" if other else None
        same = other is not None and other.kind == compiler.kind
        if other is None or not same or _first(compiler.version, 1) != _first(other.version, 1):
            yield _one(f"compilers.{name}", asked, found, "kind and major version must be the same")
    yield from _drivers(lock.drivers, here.drivers)
    yield from _oneapi(lock.oneapi, here.oneapi)


def _drivers(lock: Drivers | None, here: Drivers | None) -> Iterator[Difference]:
    if lock is None:
        return
    family = here.family if here else None
    if lock.family != family:
        yield _one("drivers.family", lock.family, family, "it must be the same")
    installed: Mapping[str, str] = here.packages if here else {}
    for name, version in lock.packages.items():
        found = installed.get(name)
        if found is None or not not_older(found, version):
            yield _one(f"drivers.packages.{name}", version, found, "it must not be older")


def _oneapi(lock: Oneapi | None, here: Oneapi | None) -> Iterator[Difference]:
    if lock is None:
        return
    installed: Mapping[str, str] = here.components if here else {}
    for name, version in lock.components.items():
        found = installed.get(name)
        if found is None or _first(version, 2) != _first(found, 2):
            yield _one(
                f"oneapi.components.{name}", version, found, "major and minor version must be the same"
            )
    before, after = _variables(lock), _variables(here)
    for name in sorted(before ^ after):
        was, now = (name in before) or None, (name in after) or None
        place = f"machine.oneapi.environment.{name}"
        word = (
            "is changed by oneAPI in the lock, but not here"
            if was
            else "is changed by oneAPI here, but not in the lock"
        )
        yield Difference(place, was and name, now and name, f"{place} {word}")


def _variables(oneapi: Oneapi | None) -> set[str]:
    if oneapi is None:
        return set()
    environment = oneapi.environment
    return {*environment.set, *environment.unset, *environment.paths}


def _one(name: str, old: str | None, new: str | None, rule: str) -> Difference:
    place = f"machine.{name}"
    here = f"this machine has {new}" if new is not None else "this machine has none"
    return Difference(place, old, new, f"{place}: the lock has {old or 'none'}, {here}; {rule}")
