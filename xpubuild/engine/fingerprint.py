"""Identity by content: the canonical JSON form of a thing, and its sha256."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from xpubuild.engine.model import Step

#: Raised when the meaning of a fingerprint changes; old journals then simply do not match.
FORMAT = 1
_CHUNK = 1 << 20


def canonical_json(value: Any) -> str:
    """Return the one JSON text of ``value``: sorted keys, no spaces, ASCII only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(value: Any) -> str:
    """Return the sha256 (hex) of the canonical JSON of ``value``."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def file_digest(path: Path | str, algorithm: str = "sha256") -> bytes:
    """Return the digest of a whole file.

    Raises:
        OSError: the file cannot be read.
    """
    total = hashlib.new(algorithm)
    with open(path, "rb", buffering=0) as stream:  # noqa: PTH123 - a Path of each file takes longer
        buffer = memoryview(bytearray(min(_CHUNK, os.fstat(stream.fileno()).st_size + 1)))
        while size := stream.readinto(buffer):
            total.update(buffer[:size])
    return total.digest()


def file_sha256(path: Path) -> str:
    """Return the sha256 (hex) of a file's bytes."""
    return file_digest(path).hex()


def fingerprints(steps: Iterable[Step]) -> dict[str, str]:
    """Return step id -> fingerprint for steps in topological order; each has those of the steps it needs.

    Titles, timeouts and shell equivalents are not included: they do not change the results.
    """
    found: dict[str, str] = {}
    for step in steps:
        publish = step.publish
        decisive = {
            "format": FORMAT,
            "id": step.id,
            "commands": [command.key() for command in step.commands],
            "proofs": [key for proof in step.proofs if (key := proof.key()) is not None],
            "relevant": dict(step.relevant),
            "publish": [publish.stage, publish.folder, publish.pattern] if publish else None,
            "needs": {name: found[name] for name in step.needs},
        }
        found[step.id] = digest(decisive)
    return found
