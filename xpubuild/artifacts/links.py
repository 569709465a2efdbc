"""Check that links lead where a plan says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xpubuild.errors import ToolchainError
from xpubuild.frozen import frozen


@frozen
class LinksProof:
    """Each link leads to its program: link -> program."""

    links: Mapping[str, str]

    def describe(self) -> str:
        """Return what is checked."""
        names = " and ".join(Path(link).name for link in self.links)
        return f"{names} are the chosen compilers"

    def key(self) -> dict[str, Any]:
        """Return what the check depends on."""
        return {"proof": "links", "links": dict(self.links)}

    def check(self) -> dict[str, Any]:
        """Return where the links lead."""
        for link, program in self.links.items():
            if not Path(link).is_file() or Path(link).resolve() != Path(program).resolve():
                raise ToolchainError(
                    f"{link} does not lead to {program}",
                    why="builds would compile with another compiler than the plan says",
                    fix="remove it and run the same command again",
                    commands=(f"rm '{link}'",),
                )
        return {"links": dict(self.links)}
