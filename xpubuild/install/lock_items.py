"""A lock as named items, such as submodules: the names that differences and errors use. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xpubuild.engine.fingerprint import digest
from xpubuild.install.lock_model import Lock, Machine, Repository, Submodule

#: A short checksum is only there to find what was edited; the sha256 of the whole is what proves a lock.
MARK_DIGITS = 12

Leaf = str | int | None
Item = Mapping[str, Leaf | tuple[str, ...]]
_VALUE = ""


def items(lock: Lock) -> dict[str, Item]:
    """Return every named thing of a lock but its machine: name -> field -> value.

    A thing that is one value has one field, with an empty name.
    """
    return dict(_of_lock(lock))


def machine_items(machine: Machine) -> dict[str, Item]:
    """Return the same of the machine."""
    return {f"machine.{name}": item for name, item in _of_machine(machine)}


def marks(named: Mapping[str, Item]) -> dict[str, str]:
    """Return name -> short checksum, sorted by name."""
    return {name: digest(named[name])[:MARK_DIGITS] for name in sorted(named)}


def _of_lock(lock: Lock) -> Iterator[tuple[str, Item]]:
    yield "recipe", {"name": lock.recipe.name, "digest": lock.recipe.digest}
    for part, short in lock.recipe.parts.items():
        yield f"recipe.{part}", {_VALUE: short}
    yield "plan", {_VALUE: lock.plan}
    options = lock.options
    for name in ("target", "variant", "arch", "cxx11_abi", "components", "env"):
        yield f"options.{name}", {_VALUE: getattr(options, name)}
    yield "options.python", {"version": options.python.version, "range": options.python.range}
    for component, flags in options.flags.items():
        yield f"options.flags.{component}", dict(flags)
    for name, repository in lock.repositories.items():
        yield from _of_repository(f"repositories.{name}", repository)
    for name, file in lock.python.requirements.items():
        yield f"python.requirements.{name}", {"sha256": file.sha256}
        for pin in file.pins:
            yield f"python.requirements.{name}.{pin.key}", _fields(pin, "version", "hashes")
    for wheel in lock.python.wheels:
        yield f"python.wheels.{wheel.component}", _fields(wheel, "dist", "version", "hashes")
    yield from _of_files(lock)


def _of_files(lock: Lock) -> Iterator[tuple[str, Item]]:
    if lock.conda is not None:
        yield "conda", {_VALUE: "used"}
        for package in lock.conda.packages:
            yield (
                f"conda.packages.{package.key}",
                _fields(package, "version", "channel", "file", "md5", "sha256"),
            )
    for archive in lock.archives:
        yield f"archives.{archive.key}", _fields(archive, "url", "sha256", "size", "hash_from")


def _of_repository(name: str, item: Repository) -> Iterator[tuple[str, Item]]:
    yield name, _fields(item, "url", "embedded", "ref", "commit", "tree")
    yield from _of_submodules(name, item.submodules)
    for other in item.configure_time:
        below = f"{name}.configure_time.{other.key}"
        yield below, _fields(other, "url", "path", "asked_for", "commit", "tree")
        yield from _of_submodules(below, other.submodules)


def _of_submodules(name: str, found: Sequence[Submodule]) -> Iterator[tuple[str, Item]]:
    for item in found:
        yield f"{name}.submodules.{item.path}", _fields(item, "url", "commit", "tree")


def _of_machine(machine: Machine) -> Iterator[tuple[str, Item]]:
    for name in ("architecture", "glibc", "python"):
        yield name, {_VALUE: getattr(machine, name)}
    for name, compiler in machine.compilers.items():
        yield f"compilers.{name}", _fields(compiler, "kind", "version", "target")
    if machine.drivers is not None:
        yield "drivers.family", {_VALUE: machine.drivers.family}
        for name, version in machine.drivers.packages.items():
            yield f"drivers.packages.{name}", {_VALUE: version}
    if machine.oneapi is not None:
        for name, version in machine.oneapi.components.items():
            yield f"oneapi.components.{name}", {_VALUE: version}
        environment = machine.oneapi.environment
        yield "oneapi.environment.unset", {_VALUE: environment.unset}
        for name, value in environment.set.items():
            yield f"oneapi.environment.set.{name}", {_VALUE: value}
        for name, change in environment.paths.items():
            yield f"oneapi.environment.paths.{name}", _fields(change, "prepend", "append", "remove")


def _fields(part: Any, *names: str) -> Item:
    return {name: getattr(part, name) for name in names}
