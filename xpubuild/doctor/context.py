"""What checks read: the machine, the caller's environment, the recipe, and probes that are run once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from xpubuild.host.disk import DiskFacts, disk_facts
from xpubuild.host.readers import LIVE_ROOT, inside

if TYPE_CHECKING:
    from xpubuild.doctor.model import Profile

    # pydantic takes as long to import as the whole machine takes to look at, and few runs have a recipe.
    from xpubuild.host.report import HostReport
    from xpubuild.recipe.model import LoadedRecipe

T = TypeVar("T")


@dataclass(frozen=True)
class Context:
    """Everything a check may look at.

    ``root`` is / or the folder of an unpacked image; every path is read below it (``context.path``).
    ``environ`` is the caller's whole environment: nothing of it is taken for granted, everything is a
    suspect. With another root it is empty: what a shell here says is nothing about an image. ``python`` is
    the interpreter whose torch matters: the active or the named one, or None; with another root it is the
    place on this machine. ``workspace`` is the named or entered one, which need not exist yet, or None.
    ``profiles`` is what the host is to do. ``measure`` tells of the file system of a folder.
    """

    host: HostReport
    environ: Mapping[str, str]
    root: Path = LIVE_ROOT
    recipe: LoadedRecipe | None = None
    python: Path | None = None
    workspace: Path | None = None
    profiles: frozenset[Profile] = frozenset({"build", "run"})
    measure: Callable[[Path], DiskFacts] = disk_facts
    _probes: dict[Callable[[Context], Any], _Once] = field(default_factory=dict, compare=False, repr=False)
    _guard: threading.Lock = field(default_factory=threading.Lock, compare=False, repr=False)

    @property
    def to_build(self) -> bool:
        """Whether a build is all that was asked about: what only a build needs is then needed."""
        return self.profiles == {"build"}

    @property
    def live(self) -> bool:
        """Whether this is the running machine and not a recorded tree."""
        return self.root == LIVE_ROOT

    def path(self, absolute: str) -> Path:
        """Return where an absolute path of the inspected system is on this one.

        In a tree that is the place after all links, none of which leads out of it: what a check finds there
        is the tree's own. An entry of a folder may be a link again: ``host.readers`` take the root for it.
        """
        return inside(self.root / absolute.lstrip("/"), self.root)

    def probe(self, ask: Callable[[Context], T]) -> T:
        """Return ``ask(self)``, run once however many checks want it; what it raises, each of them gets."""
        with self._guard:
            once = self._probes.setdefault(ask, _Once())
        value: T = once.get(lambda: ask(self))
        return value


class _Once:
    """A value that is made once; other threads wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done = False
        self._value: Any = None
        self._error: Exception | None = None

    def get(self, make: Callable[[], Any]) -> Any:
        with self._lock:
            if not self._done:
                try:
                    self._value = make()
                except Exception as error:
                    self._error = error
                    self._done = True
                    raise
                self._done = True
            elif self._error is not None:
                raise self._error
        return self._value
