"""The systems that images can be made from, and their packages. Reads ``bases.yaml``."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal

from xpubuild.distribution import System
from xpubuild.errors import UsageError, did_you_mean
from xpubuild.frozen import frozen
from xpubuild.safe_yaml import read_yaml

_TABLE = Path(__file__).with_name("bases.yaml")
#: The stages of an image, by the key of their packages.
Stage = Literal["build", "runtime"]


@frozen
class Base:
    """One system: ``image`` is its full name, ``python`` the program of version ``python_version``.

    ``manager`` is the row of its package manager in ``bases.yaml``, ``env`` what builds need in their
    environment.
    """

    name: str
    title: str
    image: str
    system: System
    python: str
    python_version: str
    gcc: str
    manager: Mapping[str, Any]
    components: Mapping[str, Mapping[str, list[str]]]
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def caches(self) -> Mapping[str, str]:
        """Folders of the package manager that a builder may keep, by a short name."""
        return dict(self.manager["caches"])

    def install(self, stage: Stage, components: Iterable[str], more: Iterable[str] = ()) -> tuple[str, ...]:
        """Return the shell lines that install what a stage needs, and ``more``."""
        own = [name for item in components for name in self.components.get(item, {}).get(stage, ())]
        names = sorted({*self.manager[stage], *own, *more})
        return tuple(str(line).format(packages=" ".join(names)) for line in self.manager["install"])

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
            name=name,
            title=row["title"],
            image=row["image"],
            system=System((row["id"],), row["version"]),
            python=row["python"]["program"],
            python_version=row["python"]["version"],
            gcc=row["gcc"],
            manager=document["managers"][row["manager"]],
            components=row["components"],
            env=row.get("env", {}),
        )
        for name, row in document["bases"].items()
    }


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
