"""What a check finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from xpubuild.documents import plain
from xpubuild.frozen import frozen

Kind = Literal["package", "start-up file", "wheel", "receipt", "source", "repository", "mirror"]
#: What was fetched and is kept; damage to anything else is damage to what was installed or built.
KEPT = frozenset({"source", "repository", "mirror"})


@frozen
class Damage:
    """Something that is not what was installed, built or fetched."""

    kind: Kind
    name: str
    """Name of the package, wheel, component or mirror."""
    path: str
    """The file, or the folder in which it is."""
    why: str
    step: str = ""
    """The step that made it, where the journal knows that."""


@dataclass
class Found:
    """What a check looked at and found; ``bytes`` are those that were hashed of packages and wheels."""

    damaged: list[Damage] = field(default_factory=list)
    unowned: list[str] = field(default_factory=list)
    edited: list[str] = field(default_factory=list)
    packages: int = 0
    files: int = 0
    bytes: int = 0
    wheels: int = 0
    sources: int = 0

    def document(self, workspace: str, repaired: tuple[Damage, ...] = ()) -> dict[str, Any]:
        """Return the ``xpubuild.check/1`` document."""
        return {
            "schema": "xpubuild.check/1",
            "status": "damaged" if self.damaged else "ok",
            "workspace": workspace,
            "checked": {
                "packages": self.packages,
                "files": self.files,
                "bytes": self.bytes,
                "wheels": self.wheels,
                "sources": self.sources,
            },
            "damaged": plain(tuple(self.damaged)),
            "repaired": plain(repaired),
            "unowned": list(self.unowned),
            "edited": list(self.edited),
        }
