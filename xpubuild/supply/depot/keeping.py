"""What a step of the plan asks of the stores: is its wheel kept, take it, keep what was built instead."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from xpubuild.errors import XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.supply.depot.kept_wheels import FolderStore
from xpubuild.supply.depot.record import IDENTITY, TAKEN, Record
from xpubuild.supply.git.edits import BARE

if TYPE_CHECKING:
    from xpubuild.supply.depot.served import Served

#: Makes the record of a wheel from the file, the evidence of its step and the commands that were run.
MakeRecord = Callable[[Path, Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]], Record]
#: A place with kept wheels.
Store: TypeAlias = "FolderStore | Served"


@frozen
class Found:
    """What the stores answered: the record and whose it is.

    ``unknown`` maps a store to why it gave no answer; ``differs`` says why a kept wheel is not taken: what of
    its build is another here.
    """

    record: Record | None = None
    store: Store | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)
    differs: str = ""


def look_up(stores: Sequence[Store], dist: str, key: str, seconds: float) -> Found:
    """Ask stores for a build; the first of them in order that has it counts.

    The user's own is asked first, and alone. The others are asked side by side, and one that has not answered
    after so many seconds is not waited for any longer: "unknown" is an answer.
    """
    given: dict[str, Record | str | None] = {}

    def ask(store: Store) -> None:
        given[store.name] = _answer(store, dist, key)

    for store in (store for store in stores if store.own):
        ask(store)
    if not any(isinstance(answer, Record) for answer in given.values()):
        others = [store for store in stores if not store.own]
        threads = [threading.Thread(target=ask, args=(store,), daemon=True) for store in others]
        for thread in threads:
            thread.start()
        end = time.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        given |= {store.name: given.get(store.name, "it did not answer in time") for store in others}
    unknown = {name: answer for name, answer in given.items() if isinstance(answer, str)}
    for store in stores:
        if isinstance(answer := given.get(store.name), Record):
            return Found(answer, store, unknown)
    return Found(unknown=unknown)


def _answer(store: Store, dist: str, key: str) -> Record | str | None:
    try:
        return store.why_not() or store.look(dist, key)
    except XpuBuildError as error:
        return f"{error.what}: {error.why}"
    except OSError as error:
        return str(error.strerror or error)


@frozen
class NotKept:
    """The keeper of a step whose wheel no store can have; ``why`` says so in the plan."""

    why: str

    def to_json(self) -> dict[str, Any]:
        """Return what the plan document says of it."""
        return {"answer": "none", "why": self.why}

    def describe(self) -> str:
        """Return the same in a few words."""
        return ""

    def take(self, stage: Path) -> None:
        """Take nothing."""

    def refuse(self, why: str) -> None:
        """Learn nothing."""

    def built(self) -> None:
        """Return nothing: there is no identity."""

    def keep(self, *_: object) -> Sequence[str]:
        """Keep nothing."""
        return ()


@dataclass
class WheelKeeper:
    """The keeper of a step that builds a wheel.

    ``writable`` are the stores to keep it in; ``again`` returns the identity as it is after the build: what
    decides it may have changed; ``record`` makes the record from a file and evidence, for ``kept_as``.
    """

    identity: str
    found: Found
    writable: Sequence[FolderStore]
    again: Callable[[], str]
    record: MakeRecord
    kept_as: Callable[[], str] | None = None
    refused: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return what the plan document says of it."""
        found = self.found
        return {
            "identity": self.identity,
            "answer": "kept" if found.record else "unknown" if found.unknown else "absent",
            "store": found.store.name if found.store else None,
            "wheel": found.record.file if found.record else None,
            "unknown": dict(found.unknown),
            "differs": found.differs,
        }

    def describe(self) -> str:
        """Return the same in a few words."""
        found = self.found
        if found.store is not None:
            return f"from the store {found.store.name}"
        differs = [f"a kept wheel differs in {found.differs}"] if found.differs else []
        return "; ".join((*self.unanswered(), *differs))

    def unanswered(self) -> tuple[str, ...]:
        """Return which stores gave no answer, and why, one line each."""
        return tuple(f"the store {name} is not used: {why}" for name, why in self.found.unknown.items())

    def take(self, stage: Path) -> dict[str, Any] | None:
        """Put the kept wheel into ``stage``; return the evidence, None where nothing is kept.

        Raises:
            SourceIntegrityError, FetchError: it is altered, or gone.
            NoSpaceError, ToolchainError: the stage cannot be written.
        """
        found = self.found
        if found.record is None or found.store is None:
            return None
        found.store.bring(found.record, stage)
        return {
            "proof": TAKEN,
            "store": found.store.name,
            "identity": self.identity,
            "sha256": found.record.sha256,
            "built": dict(found.record.built),
        }

    def refuse(self, why: str) -> None:
        """Learn that what was taken cannot be used."""
        self.refused = why

    def built(self) -> dict[str, Any]:
        """Return the identity of what is built here."""
        return {
            "proof": IDENTITY,
            "identity": self.kept_as() if self.kept_as is not None else self.identity,
            **({"refused": self.refused} if self.refused else {}),
        }

    def keep(
        self,
        files: Sequence[Path],
        evidence: Sequence[Mapping[str, Any]],
        commands: Sequence[Mapping[str, Any]],
    ) -> Sequence[str]:
        """Keep the wheel in every store that can be written; return what the user should know.

        Raises:
            AuditError: the wheel is of use here alone.
            XpuBuildError: what decides the build cannot be worked out again.
        """
        if not self.writable or len(files) != 1:
            return ()
        if not any(item.get(BARE) for item in evidence):
            return ("the wheel is not kept in the store: its source tree was not proved before the build",)
        if self.again() != self.identity:
            return ("the wheel is not kept in the store: what decides it changed while it was built",)
        record, told = self.record(files[0], evidence, commands), list[str]()
        for store in self.writable:
            why = self._kept(store, record, files[0])
            if why:
                told.append(f"{files[0].name} is not kept in the store {store.name}: {why}")
        return told

    def _kept(self, store: FolderStore, record: Record, wheel: Path) -> str:
        try:
            return store.why_not() or store.keep(record, wheel)
        except XpuBuildError as error:
            return f"{error.what} ({error.why})" if error.why else error.what
        except OSError as error:
            return str(error.strerror or error)
