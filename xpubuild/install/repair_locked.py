"""Whether the runtime that portable wheels will require is the one of a lock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from xpubuild.artifacts.repair_runtime import Runtime, component_of
from xpubuild.artifacts.site_packages import InstalledDist
from xpubuild.errors import LockMismatchError
from xpubuild.install import lock_model as model

#: The folders of oneAPI, which a lock has its versions from, say major and minor.
_PARTS = 2


def require_locked(site_packages: Path, lock: model.Lock) -> None:
    """Compare the packages with Intel's runtime in an environment with a lock.

    A package that the lock pins has that version; another one has major and minor of the oneAPI component
    that its libraries are of. Other packages are left alone.

    Raises:
        LockMismatchError: a version differs; the message has both.
    """
    found = list(_differences(site_packages, lock))
    if found:
        name, here, there = found[0]
        raise LockMismatchError(
            f"{name} {here} does not match the lock: {there}",
            why="; ".join(f"{site_packages} has {item[0]} {item[1]}, the lock {item[2]}" for item in found),
            fix=(
                "install the version of the lock there, pass another environment with --runtime, or create a "
                "new lock"
            ),
            commands=(f"xpubuild lock {lock.recipe.name}",),
            evidence={"packages": [list(item) for item in found]},
        )


def _differences(site_packages: Path, lock: model.Lock) -> Iterator[tuple[str, str, str]]:
    """Yield name, version and what the lock has, of each package that differs."""
    pinned = _pinned(lock)
    oneapi = lock.machine.oneapi.components if lock.machine.oneapi is not None else {}
    for dist, component in _of_intel(site_packages):
        if dist.name in pinned:
            if not any(_same(dist.version, version) for version in pinned[dist.name]):
                yield dist.name, dist.version, f"{dist.name} {' or '.join(sorted(pinned[dist.name]))}"
        elif component in oneapi and not _same(dist.version, oneapi[component], parts=_PARTS):
            yield dist.name, dist.version, f"oneAPI's {component} {oneapi[component]}"


def _of_intel(site_packages: Path) -> Iterator[tuple[InstalledDist, str]]:
    """Yield the distributions with libraries of Intel's runtime, and their oneAPI component."""
    found: dict[str, tuple[InstalledDist, str]] = {}
    runtime = Runtime(site_packages)
    for owned in runtime.matching(("*",)):
        component = component_of(owned.library)
        # Intel's wheels have theirs beside site-packages; others, such as torch, may have copies inside.
        beside = runtime.site_packages not in owned.path.parents
        if component is not None and beside:
            found.setdefault(owned.dist.name, (owned.dist, component))
    yield from (found[name] for name in sorted(found))


def _pinned(lock: model.Lock) -> dict[str, set[str]]:
    """Return the versions of each package that pip or conda brings."""
    entries = [(pin.name, pin.version) for file in lock.python.requirements.values() for pin in file.pins]
    entries += [(wheel.dist, wheel.version) for wheel in lock.python.wheels]
    entries += [(item.name, item.version) for item in (lock.conda.packages if lock.conda is not None else ())]
    found: dict[str, set[str]] = {}
    for name, version in entries:
        found.setdefault(canonicalize_name(name), set()).add(version)
    return found


def _same(here: str, there: str, parts: int | None = None) -> bool:
    try:
        one, other = Version(here), Version(there)
    except InvalidVersion:
        return here == there
    return one == other if parts is None else one.release[:parts] == other.release[:parts]
