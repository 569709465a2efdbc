"""The errors for users of a mirror."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from xpubuild.errors import FetchError, SourceIntegrityError
from xpubuild.supply.mirror.reading import Damage


def no_mirror(path: Path) -> FetchError:
    """Return the error of a folder that is empty or not there."""
    return FetchError(
        f"{path} is not a mirror",
        why="the folder is empty" if path.exists() else "the folder does not exist",
        fix="fill it on a machine with a network, or pass another folder with --mirror",
        commands=(f"xpubuild fetch RECIPE --mirror {shlex.quote(str(path))}",),
        evidence={"reason": "offline", "mirror": str(path)},
    )


def damage_error(path: Path, damages: Sequence[Damage]) -> SourceIntegrityError:
    """Return the error that names what is damaged in a mirror."""
    count = f" and {len(damages) - 1} more" if len(damages) > 1 else ""
    first = damages[0]
    return SourceIntegrityError(
        f"the mirror {path} is damaged: {first.path} {first.what}{count}",
        why=first.why,
        fix="with a network, fetch the same recipe again: only damaged files are downloaded again",
        commands=(f"xpubuild fetch --mirror {shlex.quote(str(path))} --check",),
        evidence={"mirror": str(path), "damaged": [
            {"path": item.path, "what": item.what, "why": item.why, "entry": item.entry} for item in damages
        ]},
    )  # fmt: skip


def no_file(path: Path, sha256: str) -> FetchError:
    """Return the error of a file that no fetch has brought."""
    return FetchError(
        f"the mirror {path} has no file with the sha256 {sha256}",
        why="it was not fetched",
        fix="fetch the recipe on a machine with a network",
        commands=(f"xpubuild fetch RECIPE --mirror {shlex.quote(str(path))}",),
        evidence={"reason": "offline", "sha256": sha256, "mirror": str(path)},
    )
