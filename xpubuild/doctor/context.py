"""What checks read: the machine, the caller's environment, the recipe, and probes that are run once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from xpubuild.frozen import frozen
from xpubuild.machine.disk import DiskFacts, disk_facts
from xpubuild.machine.readers import LIVE_ROOT, inside

if TYPE_CHECKING:
    # pydantic takes as long to import as the whole machine takes to look at, and few runs have a recipe.
    from xpubuild.machine.host_report import HostReport
    from xpubuild.recipe.model import LoadedRecipe

T = TypeVar("T")
#: What a host is checked for.
Profile = Literal["build", "run"]


@frozen
class CheckContext:
    """Everything that a check can read.

    ``root`` is / or the folder of an unpacked image; every path is read below it (``context.path``).
    ``environ`` is the caller's complete environment, unfiltered. With another root it is empty: this shell's
    variables say nothing about an image. ``python`` is
    the selected interpreter: from ``--python`` or the active one, or None; with another root it is the
    path on this machine. ``workspace`` is the selected or active one, which need not exist yet, or None.
    ``profiles`` is what the host is checked for. ``measure`` returns facts about a folder's file system.
    ``asked`` are the ids of the checks that were chosen by name (``--only``), empty where all are run.
    ``loader`` lists the folders that the dynamic loader searches by default, if not those of this machine.
    """

    host: HostReport
    environ: Mapping[str, str]
    root: Path = LIVE_ROOT
    recipe: LoadedRecipe | None = None
    python: Path | None = None
    workspace: Path | None = None
    profiles: frozenset[Profile] = frozenset({"build", "run"})
    measure: Callable[[Path], DiskFacts] = disk_facts
    loader: tuple[Path, ...] | None = None
    asked: frozenset[str] = frozenset()
    _probes: dict[Callable[[CheckContext], Any], _Once] = field(
        default_factory=dict, compare=False, repr=False
    )
    _guard: threading.Lock = field(default_factory=threading.Lock, compare=False, repr=False)

    @property
    def to_build(self) -> bool:
        """Whether only a build was requested, so that its requirements are failures."""
        return self.profiles == {"build"}

    @property
    def live(self) -> bool:
        """Whether this is the running machine and not a recorded tree."""
        return self.root == LIVE_ROOT

    def path(self, absolute: str) -> Path:
        """Return where an absolute path of the inspected system is on this one.

        In a tree all links are resolved below its root, so a check only reads files of the tree. An entry of
        a folder may be a link again: pass the root to ``host.readers``.
        """
        return inside(self.root / absolute.lstrip("/"), self.root)

    def probe(self, ask: Callable[[CheckContext], T]) -> T:
        """Return ``ask(self)``, which runs once for all checks; an exception is raised in each of them."""
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
