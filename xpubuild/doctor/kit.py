"""What checks are made with: the decorator, their answers, and the machine they look at.

A check is a function of a ``Look`` with a docstring: its first line says what holds where the check is ok,
the rest is the page of the check (Markdown): what is tested, why it matters, how to fix it.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from xpubuild.frozen import frozen
from xpubuild.machine.disk import DiskFacts, disk_facts
from xpubuild.machine.readers import LIVE_ROOT, inside

if TYPE_CHECKING:
    # pydantic takes as long to import as the whole machine takes to look at, and few runs have a recipe.
    from xpubuild.machine.host_report import HostReport
    from xpubuild.recipe.model import LoadedRecipe, Recipe

T = TypeVar("T")
#: What a host is checked for.
Profile = Literal["build", "run"]
BUILD: frozenset[Profile] = frozenset({"build"})
#: Checks about the device itself; a machine that only builds has none.
RUN: frozenset[Profile] = frozenset({"run"})


@frozen
class Fix:
    """What to do about a finding; ``commands`` is what to type, on the distribution of the host."""

    summary: str
    commands: tuple[str, ...] = ()


@frozen
class Outcome:
    """The answer of a check: ``detail`` is one or two sentences, ``evidence`` plain JSON values.

    ``status`` is ok, warn, fail, skip, error, or "finding": the severity of the check.
    """

    status: str
    detail: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    fix: Fix | None = None


def todo(summary: str, *commands: str) -> Fix:
    """Return a fix and what to type for it."""
    return Fix(summary, commands)


def ok(detail: str, **evidence: Any) -> Outcome:
    """Return that the check passed."""
    return Outcome("ok", detail, evidence)


def finding(detail: str, fix: Fix, **evidence: Any) -> Outcome:
    """Return a failure or a warning, according to the severity of the check."""
    return Outcome("finding", detail, evidence, fix)


def warn(detail: str, fix: Fix, **evidence: Any) -> Outcome:
    """Return a warning."""
    return Outcome("warn", detail, evidence, fix)


def fail(detail: str, fix: Fix, **evidence: Any) -> Outcome:
    """Return a failure."""
    return Outcome("fail", detail, evidence, fix)


def skip(why: str, **evidence: Any) -> Outcome:
    """Return that the check does not apply or cannot run here, and why."""
    return Outcome("skip", why, evidence)


@dataclass(eq=False)
class Check:
    """One property of the host that is tested, by calling it with a ``Look``; see ``check``."""

    ask: Callable[[Look], Outcome]
    id: str
    title: str
    explanation: str = ""
    severity: Literal["warn", "fail"] = "fail"
    profiles: Collection[Profile] = frozenset({"build", "run"})
    needs: tuple[str, ...] = ()
    live: bool = False
    recipe: bool = False
    deadline_s: float = 10.0
    docs: str = ""
    #: Why the checks that this one stands for could not be loaded.
    problem: str = ""

    def __call__(self, look: Look) -> Outcome:
        """Return the answer; exceptions of the check are raised."""
        answer = self.ask(look)
        found = isinstance(answer, Outcome) and answer.status == "finding"
        return replace(answer, status=self.severity) if found else answer

    @property
    def group(self) -> str:
        """The part of the id before the first dot."""
        return self.id.partition(".")[0]

    @property
    def page(self) -> str | None:
        """Where its page is; None for a plug-in's that names none."""
        shipped = self.ask.__module__.startswith("xpubuild.doctor.checks.")
        return f"docs/checks/{self.id}.md" if shipped else self.docs or None


def check(identifier: str, **options: Any) -> Callable[[Callable[[Look], Outcome]], Check]:
    """Make a function a check.

    Options: ``severity`` is the status of ``finding``, "fail" or "warn". ``profiles`` (BUILD, RUN; default:
    both) say what the host must be for. ``needs`` are ids (separated by spaces) of checks that must have
    status ok or warn, otherwise this one is skipped: one cause is one failure. ``live`` marks checks that
    need the running machine: with ``--root`` they are skipped. ``recipe`` marks those that need a recipe.
    ``deadline_s`` is its time, ``docs`` the page of a plug-in's check.

    Raises:
        ValueError: the id is no sequence of words.
        TypeError: an option is unknown.
    """
    if not re.fullmatch(r"\w+(\.\w+)*", identifier, re.ASCII):
        raise ValueError(f"the id '{identifier}' is not a sequence of words separated by dots")
    options["needs"] = tuple(options.get("needs", "").split())

    def decorate(ask: Callable[[Look], Outcome]) -> Check:
        title, _, explanation = inspect.cleandoc(ask.__doc__ or identifier).partition("\n")
        return Check(ask, identifier, title.rstrip("."), explanation.strip(), **options)

    return decorate


@frozen
class Look:
    """Everything that a check can read.

    ``root`` is / or the folder of an unpacked image; every path is read below it (``path``). ``environ`` is
    the caller's complete environment, unfiltered; with another root it is empty: this shell's variables say
    nothing about an image. ``python`` is the selected interpreter: from ``--python`` or the active one, or
    None; with another root it is the path on this machine. ``workspace`` is the selected or active one,
    which need not exist yet, or None. ``profiles`` is what the host is checked for. ``measure`` returns
    facts about a folder's file system. ``asked`` are the ids of the checks that were chosen by name
    (``--only``), empty where all are run. ``loader`` lists the folders that the dynamic loader searches by
    default, if not those of this machine.
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
    _known: dict[Callable[[Look], Any], Future[Any]] = field(default_factory=dict, compare=False, repr=False)
    _guard: threading.Lock = field(default_factory=threading.Lock, compare=False, repr=False)

    @property
    def wanted(self) -> Recipe | None:
        """The recipe itself, or None."""
        return self.recipe.recipe if self.recipe else None

    @property
    def to_build(self) -> bool:
        """Whether only a build was requested, so that its requirements are failures."""
        return self.profiles == {"build"}

    @property
    def live(self) -> bool:
        """Whether this is the running machine and not a recorded tree."""
        return self.root == LIVE_ROOT

    def path(self, absolute: Path | str) -> Path:
        """Return where a path of the inspected system is on this one; one below its root is unchanged.

        In a tree all links are resolved below its root, so a check only reads files of the tree. An entry of
        a folder may be a link again: pass the root to ``machine.readers``.
        """
        place = Path(absolute)
        if self.live or place.is_relative_to(self.root):
            return place
        return inside(self.root / str(place).lstrip("/"), self.root)

    def shown(self, path: Path) -> str:
        """Return a path as it is called inside the inspected system."""
        below = not self.live and path.is_relative_to(self.root)
        return f"/{path.relative_to(self.root)}" if below else str(path)

    @property
    def home(self) -> Path | None:
        """The home folder of the caller, or None if the environment has none."""
        value = self.environ.get("HOME", "")
        return self.path(value) if value.startswith("/") else None

    def listed(self, variable: str) -> tuple[Path, ...]:
        """Return the absolute entries of a search list such as LD_LIBRARY_PATH, each once, in order."""
        entries = self.environ.get(variable, "").split(os.pathsep)
        return tuple(dict.fromkeys(self.path(entry) for entry in entries if entry.startswith("/")))

    def probe(self, ask: Callable[[Look], T]) -> T:
        """Return ``ask(self)``, which runs once for all checks; an exception is raised in each of them."""
        with self._guard:
            first = ask not in self._known
            future: Future[T] = self._known.setdefault(ask, Future())
        if first:
            try:
                future.set_result(getattr(ask, "__wrapped__", ask)(self))
            except BaseException as error:  # noqa: BLE001 - it is raised wherever the answer is wanted
                future.set_exception(error)
        return future.result()


def once(ask: Callable[[Look], T]) -> Callable[[Look], T]:
    """Make a function of a ``Look`` run once for all checks."""

    @functools.wraps(ask)
    def asked(look: Look) -> T:
        return look.probe(asked)

    return asked


def real(path: Path) -> Path:
    """Return a path without links, as far as it exists."""
    return Path(os.path.realpath(path))


def plural(count: int, word: str) -> str:
    """Return a count and its word: 1 file, 2 files."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def commas(items: Iterable[object]) -> str:
    """Return items as text, separated by commas."""
    return ", ".join(map(str, items))
