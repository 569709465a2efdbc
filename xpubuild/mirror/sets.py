"""Sets: what one fetch needed, so that it can be told without a network whether all of it is here. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from xpubuild.mirror.entries import EntryError, canonical, unsealed

SCHEMA = "xpubuild.mirror-set/1"
_DIGITS = 16


@dataclass(frozen=True)
class RepositoryUse:
    """One commit that a build needs. ``path`` is its place below ``component``'s tree, "" for the top.

    ``configure_time`` marks what the build clones itself; ``ref`` is the tag by which it asks for it.
    """

    component: str
    url: str
    commit: str
    path: str = ""
    ref: str | None = None
    configure_time: bool = False


@dataclass(frozen=True)
class MirrorSet:
    """What the build of ``recipe`` needs for these Python versions."""

    recipe: str
    pythons: tuple[str, ...]
    repositories: tuple[RepositoryUse, ...]
    files: tuple[str, ...]
    inputs: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the set as its file holds it, without digest."""
        return {
            "schema": SCHEMA,
            "recipe": self.recipe,
            "inputs": self.inputs,
            "pythons": list(self.pythons),
            "repositories": [asdict(item) for item in self.repositories],
            "files": list(self.files),
        }

    @property
    def name(self) -> str:
        """The recipe's name and the digest of the content: the name of the set's file."""
        digest = hashlib.sha256(canonical(self.to_json())).hexdigest()
        return f"{self.recipe}-{digest[:_DIGITS]}"


def read_set(data: bytes) -> MirrorSet:
    """Return the set of a file.

    Raises:
        EntryError: the file is damaged.
    """
    document: Mapping[str, Any] = unsealed(data, SCHEMA)
    try:
        return MirrorSet(
            recipe=str(document["recipe"]),
            inputs=str(document["inputs"]),
            pythons=tuple(map(str, document["pythons"])),
            repositories=tuple(RepositoryUse(**item) for item in document["repositories"]),
            files=tuple(map(str, document["files"])),
        )
    except (KeyError, TypeError) as error:
        raise EntryError(f"a field is missing or wrong: {error}") from error
