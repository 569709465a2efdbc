"""What a repair is asked for, and what it decides about a wheel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Literal

from xpubuild.frozen import frozen

#: ``site``: for machines with the same modules; ``portable``: for any machine of the platform tag.
Kind = Literal["portable", "site"]


@frozen
class RepairRequest:
    """What was asked for.

    ``runtime`` is the site-packages folder of an environment with what the wheel needs: Intel's, torch.
    ``bundle`` puts the libraries of Intel's runtime into the wheel instead of requiring their distributions.
    ``search`` are more folders with libraries; ``builder`` are folders whose names must not be in the wheel.
    """

    kind: Kind = "portable"
    bundle: bool = False
    runtime: Path | None = None
    search: tuple[Path, ...] = ()
    builder: tuple[Path, ...] = ()


@frozen
class Pin:
    """A distribution that the repaired wheel requires, for these libraries of it."""

    name: str
    version: str
    libraries: tuple[str, ...]


@frozen
class Bundled:
    """A library that is copied into the wheel: as ``member``, with the SONAME ``soname``."""

    library: str
    member: str
    soname: str
    source: Path
    dist: str = ""
    """The installed distribution that it comes from, "" for none."""


@frozen
class Edit:
    """What changes in one shared object; ``rename`` maps old to new names of needed libraries."""

    rpath: tuple[str, ...]
    rename: Mapping[str, str] = field(default_factory=dict)
    soname: str = ""


@frozen
class Expected:
    """Libraries that are neither in the wheel nor in a pinned distribution, by where they come from."""

    system: tuple[str, ...] = ()
    driver: tuple[str, ...] = ()
    torch: tuple[str, ...] = ()
    site: tuple[str, ...] = ()


@frozen
class Decision:
    """All that a repair does to a wheel. ``edits`` are by member, those of ``bundled`` included."""

    edits: Mapping[str, Edit] = field(default_factory=dict)
    bundled: tuple[Bundled, ...] = ()
    pins: tuple[Pin, ...] = ()
    expected: Expected = Expected()
