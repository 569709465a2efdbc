"""The build identity of a wheel: everything that decides it, free of the workspace's folder. Pure.

It is made from the steps of the plan that the wheel rests on. A step that states what decides its result
(``relevant``: a pin, the digests of requirement files) counts with that; one that does not, and the build
itself, counts with its commands too. Names of folders that differ from one user to the next are replaced by
words. What is not in a plan (the content of compilers and libraries) comes from ``store.machine``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from xpubuild.engine.fingerprint import digest
from xpubuild.engine.model import Command, Plan, Step

#: Raised when the meaning of an identity changes; wheels that were kept before are then not found.
FORMAT = 1
_HASH = re.compile(r"[0-9a-f]{64}")
_SHORT = 12
_LONGEST = 60
_MISSING = object()


def build_inputs(
    plan: Plan, step: str, dist: str, machine: Mapping[str, Any], places: Mapping[str, str]
) -> dict[str, Any]:
    """Return what decides the wheel that a step of the plan builds.

    ``places`` maps paths to the words that stand for them, such as ``{workspace}``; ``dist`` is the name of
    the distribution, ``machine`` what ``store.machine`` found.
    """
    return {
        "format": FORMAT,
        "distribution": dist,
        "steps": {item.id: _decisive(item, places) for item in _below(plan, step) if not _installs(item)},
        "machine": dict(machine),
    }


def identity(inputs: Mapping[str, Any]) -> str:
    """Return the build identity (sha256, hex) of what decides a wheel."""
    return digest(inputs)


def _below(plan: Plan, name: str) -> Iterator[Step]:
    """Yield a step and all that it rests on, each once."""
    waiting, seen = [name], set[str]()
    while waiting:
        step = plan.step(waiting.pop())
        if step.id not in seen:
            seen.add(step.id)
            waiting += step.needs
            yield step


def _installs(step: Step) -> bool:
    """Whether a step only puts a wheel in place that another step of the plan built."""
    return step.id.endswith(".install")


def _decisive(step: Step, places: Mapping[str, str]) -> dict[str, Any]:
    found = {"relevant": _moved(dict(step.relevant), places)} if step.relevant else {}
    if not step.relevant or step.publish is not None:
        found["commands"] = [_command(command, places) for command in step.commands]
    return found


def _command(command: Command, places: Mapping[str, str]) -> dict[str, Any]:
    key: dict[str, Any] = _moved(command.key(), places)
    return {name: value for name, value in key.items() if value}


def _moved(value: Any, places: Mapping[str, str]) -> Any:
    """Return a value with the words of places instead of their paths, in keys too."""
    if isinstance(value, str):
        for path in sorted(places, key=len, reverse=True):
            # A path that only begins alike is another one: /usr/bin/gcc and /usr/bin/gcc-12.
            value = re.sub(re.escape(path) + r"(?![\w.+-])", places[path], value)
        return value
    if isinstance(value, Mapping):
        return {_moved(key, places): _moved(item, places) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_moved(item, places) for item in value]
    return value


def differences(wanted: Mapping[str, Any], kept: Mapping[str, Any]) -> list[str]:
    """Return in words each field in which what is kept differs from what is wanted, shortest names first."""
    ours, theirs = dict(_fields(wanted)), dict(_fields(kept))
    names = sorted(
        (name for name in {*ours, *theirs} if ours.get(name, _MISSING) != theirs.get(name, _MISSING)),
        key=lambda name: (name.count("."), name),
    )
    return [f"{_named(name)}: {_said(theirs, name)} there, {_said(ours, name)} here" for name in names]


def _fields(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a document with their dotted names; a list of words is one leaf."""
    items: Iterable[tuple[Any, Any]]
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list) and any(isinstance(item, (Mapping, list)) for item in value):
        items = enumerate(value, start=1)
    else:
        yield name, value
        return
    for key, item in items:
        yield from _fields(item, f"{name}.{key}" if name else str(key))


def _named(name: str) -> str:
    return name.removeprefix("steps.").removeprefix("machine.")


def _said(fields: Mapping[str, Any], name: str) -> str:
    if name not in fields:
        return "nothing"
    value = fields[name]
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    if _HASH.fullmatch(text):
        return text[:_SHORT]
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
