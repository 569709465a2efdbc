"""A kept wheel: the build identity by which it is found, and its record.

The identity covers everything that determines the wheel, but not the workspace's folder: the steps of the
plan that it depends on, and the parts of this machine that a build depends on (``depot.machine``). A step
that states its inputs (``relevant``: a pin, the digests of requirement files) counts with these; one that
does not, and the build itself, with its commands too. Placeholders replace folders that differ by user.

A store has ``wheels/DISTRIBUTION/IDENTITY.json``, one record each, and beside it the wheel as ``SHA256.whl``.
Both are found by name alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from xpubuild.documents import built
from xpubuild.engine.fingerprint import digest
from xpubuild.engine.model import Plan, Step, closure
from xpubuild.frozen import frozen
from xpubuild.supply.depot.entries import WHEELS, described, is_filename
from xpubuild.untrusted import json_value

SCHEMA = "xpubuild.kept-wheel/1"
#: Increased when the meaning of an identity changes; wheels that were kept before are then not found.
FORMAT = 1
#: The audit of PyTorch's wheel has some 200 kB.
MOST_BYTES = 32 << 20
#: Name of a distribution, as a folder's name.
DISTRIBUTION = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,100}[a-z0-9])?")
RECORD = re.compile(r"(?P<identity>[0-9a-f]{64})\.json")
WHEEL = re.compile(r"(?P<sha256>[0-9a-f]{64})\.whl")
#: The name of the evidence that says by which identity a wheel was built.
IDENTITY = "build identity"
TAKEN = "taken from a store"
_SHA256 = re.compile(r"[0-9a-f]{64}")


def build_inputs(
    plan: Plan, step: str, dist: str, machine: Mapping[str, Any], places: Mapping[str, str]
) -> dict[str, Any]:
    """Return what decides the wheel that a step of the plan builds.

    ``places`` maps paths to their placeholders, such as ``{workspace}``; ``dist`` is the name of
    the distribution, ``machine`` what ``depot.machine`` found.
    """
    # Steps that only install what another step of the plan built do not affect the wheel.
    needed = closure([step], lambda name: plan.step(name).needs)
    steps = (item for item in plan.steps if item.id in needed and not item.id.endswith(".install"))
    return {
        "format": FORMAT,
        "distribution": dist,
        "steps": {item.id: _decisive(item, places) for item in steps},
        "machine": dict(machine),
    }


def identity(inputs: Mapping[str, Any]) -> str:
    """Return the build identity (sha256, hex) of what decides a wheel."""
    return digest(inputs)


def _decisive(step: Step, places: Mapping[str, str]) -> dict[str, Any]:
    found = {"relevant": _moved(dict(step.relevant), places)} if step.relevant else {}
    if not step.relevant or step.publish is not None:
        keys = (_moved(command.key(), places) for command in step.commands)
        found["commands"] = [{name: value for name, value in key.items() if value} for key in keys]
    return found


def _moved(value: Any, places: Mapping[str, str]) -> Any:
    """Return a value with placeholders instead of paths, in keys too."""
    if isinstance(value, str):
        for path in sorted(places, key=len, reverse=True):
            # A path with the same beginning is another one: /usr/bin/gcc and /usr/bin/gcc-12.
            value = re.sub(re.escape(path) + r"(?![\w.+-])", places[path], value)
        return value
    if isinstance(value, Mapping):
        return {_moved(key, places): _moved(item, places) for key, item in value.items()}
    return [_moved(item, places) for item in value] if isinstance(value, (list, tuple)) else value


def taken_from(evidence: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the store that the wheel of a step was taken from, None where it was built."""
    return next((str(item["store"]) for item in evidence if item.get("proof") == TAKEN), None)


class RecordError(ValueError):
    """The text is no record of the wheel that it is named for; the message says why."""


@frozen
class Record:
    """A kept wheel. ``size`` is in bytes; ``inputs`` is what the identity is made from.

    ``read`` and ``searched`` are files that must be here as they were for the build (``depot.build_reads``);
    if they are empty, ``inputs`` covers the whole system.
    ``built`` says when, by which xpubuild and for which recipe; ``audit`` and ``commands`` are those of the
    receipt.
    """

    identity: str
    dist: str
    file: str
    sha256: str
    size: int
    inputs: Mapping[str, Any]
    built: Mapping[str, Any]
    audit: Mapping[str, Any]
    commands: tuple[Mapping[str, Any], ...] = ()
    read: Mapping[str, str] = field(default_factory=dict)
    searched: Mapping[str, str] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """The version of the wheel, as its file name has it."""
        return described(self.file)[2]

    @property
    def path(self) -> str:
        """Where the record is in a store."""
        return record_path(self.dist, self.identity)

    @property
    def wheel_path(self) -> str:
        """Where the wheel is in a store."""
        return f"{WHEELS}/{self.dist}/{self.sha256}.whl"

    def to_bytes(self) -> bytes:
        """Return the text of the record."""
        return (json.dumps({"schema": SCHEMA, **vars(self)}, indent=1, sort_keys=True) + "\n").encode()


def record_path(dist: str, key: str) -> str:
    """Return the path of a record in a store, by distribution and build identity."""
    return f"{WHEELS}/{dist}/{key}.json"


def read_record(data: bytes, dist: str, key: str) -> Record:
    """Return the record that has this name.

    Raises:
        RecordError: it is not one, or its content is that of another build.
    """
    try:
        document = json_value(data)
    except ValueError as error:
        raise RecordError(f"it is not JSON: {error}") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise RecordError(f"it is not {SCHEMA}")
    try:
        record: Record = built(Record, document)
    except ValueError as error:
        raise RecordError(str(error)) from None
    if record.size < 0 or not _SHA256.fullmatch(record.sha256):
        raise RecordError("its size or sha256 is none")
    if record.dist != dist or not is_filename(record.file) or described(record.file)[:2] != ("wheel", dist):
        raise RecordError(f"it is of {record.dist}, not of {dist}")
    if record.identity != key or identity(record.inputs) != key:
        raise RecordError("what it says it was made from is not what it is named for")
    return record
