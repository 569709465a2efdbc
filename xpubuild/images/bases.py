"""The systems that images can be made from, and their packages. Reads ``bases.yaml``."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from xpubuild.distribution import System
from xpubuild.errors import UsageError, did_you_mean
from xpubuild.frozen import frozen
from xpubuild.safe_yaml import read_yaml

_TABLE = Path(__file__).with_name("bases.yaml")


@frozen
class Base:
    """One system: its row in ``bases.yaml``, and that of its package manager."""

    name: str
    title: str
    image: str
    """The full name of its image."""
    system: System
    python: str
    """The program of its Python."""
    row: Mapping[str, Any]
    manager: Mapping[str, Any]

    def install(self, stage: str, components: Iterable[str]) -> tuple[str, ...]:
        """Return the shell lines that install what a stage (build or runtime) needs."""
        own = [name for item in components for name in self.row["components"].get(item, {}).get(stage, ())]
        packages = " ".join(sorted({*self.manager[stage], *own}))
        return tuple(line.format(packages=packages) for line in self.manager["install"])

    def unattended(self, commands: Iterable[str]) -> tuple[str, ...]:
        """Return commands of ``distributions.yaml`` as an image build runs them."""
        found = tuple(commands)
        for here, there in self.manager["instead"].items():
            found = tuple(line.replace(here, there) for line in found)
        return found


@functools.cache
def bases() -> Mapping[str, Base]:
    """Return the bases by name, the default first."""
    document = read_yaml(_TABLE.read_text("utf-8"))
    return {
        name: Base(
            name, row["title"], row["image"], System((row["id"],), row["version"]), row["python"]["program"],
            row, document["managers"][row["manager"]],
        )
        for name, row in document["bases"].items()
    }  # fmt: skip


def base_named(name: str) -> Base:
    """Return a base.

    Raises:
        UsageError: there is none of this name.
    """
    known = bases()
    if name not in known:
        raise UsageError(
            f"there is no base '{name}'",
            why=f"the bases are: {', '.join(known)}" + did_you_mean(name, known),
            fix="use one of these with --base",
        )
    return known[name]
