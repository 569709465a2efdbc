"""What a step of the plan asks of the stores: is its wheel kept, take it, keep what was built instead."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xpubuild.errors import XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.supply.depot.evidence import IDENTITY, TAKEN
from xpubuild.supply.depot.identity import differences
from xpubuild.supply.depot.kept_wheels import FolderStore
from xpubuild.supply.depot.record import Record
from xpubuild.supply.depot.wheel_server import ServedStore
from xpubuild.supply.git.edits import BARE

#: Makes the record of a wheel from the file, the evidence of its step and the commands that were run.
MakeRecord = Callable[[Path, Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]], Record]
_NEAREST_OF = 200
_TOLD = 3
_SHORT = 12


#: A place with kept wheels.
Store = FolderStore | ServedStore


@frozen
class Found:
    """What the stores answered: the record and whose it is, or what could not be asked, and what is nearest.

    ``unknown`` maps a store to why it gave no answer.
    """

    record: Record | None = None
    store: Store | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)
    nearest: Record | None = None
    differs: tuple[str, ...] = ()


def look_up(stores: Sequence[Store], dist: str, key: str, inputs: Mapping[str, Any], seconds: float) -> Found:
    """Ask stores for a build; the first of them in order that has it counts.

    The user's own is asked first, and alone. The others are asked side by side, and one that has not answered
    after so many seconds is not waited for any longer: "unknown" is an answer.
    """
    answers = {
        index: _answer(store, dist, key)
        for index, store in enumerate(stores)
        if isinstance(store, FolderStore) and store.own
    }
    if not any(isinstance(answer, Record) for answer in answers.values()):
        others = {index: store for index, store in enumerate(stores) if index not in answers}
        answers |= _side_by_side(others, dist, key, seconds)
    unknown = {stores[index].name: answer for index, answer in answers.items() if isinstance(answer, str)}
    for index, answer in sorted(answers.items()):
        if isinstance(answer, Record):
            return Found(answer, stores[index], unknown)
    nearest, differs = _nearest(stores, dist, inputs, unknown)
    return Found(unknown=unknown, nearest=nearest, differs=tuple(differs))


def _side_by_side(
    stores: Mapping[int, Store], dist: str, key: str, seconds: float
) -> dict[int, Record | str | None]:
    given: dict[int, Record | str | None] = {}

    def ask(index: int, store: Store) -> None:
        given[index] = _answer(store, dist, key)

    threads = [threading.Thread(target=ask, args=item, daemon=True) for item in stores.items()]
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return {index: given.get(index, "it did not answer in time") for index in stores}


def _answer(store: Store, dist: str, key: str) -> Record | str | None:
    try:
        return store.why_not() or store.look(dist, key)
    except XpuBuildError as error:
        return f"{error.what}: {error.why}"
    except OSError as error:
        return str(error.strerror or error)


def _nearest(
    stores: Sequence[Store], dist: str, inputs: Mapping[str, Any], unknown: Mapping[str, str]
) -> tuple[Record | None, list[str]]:
    """Return the kept wheel of a distribution that differs in the fewest fields; folders can be listed."""
    best: tuple[Record | None, list[str]] = (None, [])
    for store in stores:
        if not isinstance(store, FolderStore) or store.name in unknown:
            continue
        for count, (_, record) in enumerate(store.records(dist)):
            if count >= _NEAREST_OF:
                break
            if isinstance(record, Record):
                found = differences(inputs, record.inputs)
                if best[0] is None or len(found) < len(best[1]):
                    best = (record, found)
    return best


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

    ``writable`` are the stores to keep it in; ``again`` works out anew what decides the build, which may have
    changed while it ran; ``record`` makes the record from a file and evidence, for the identity ``kept_as``.
    """

    identity: str
    inputs: Mapping[str, Any]
    found: Found
    writable: Sequence[FolderStore]
    again: Callable[[], Mapping[str, Any]]
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
            "nearest": found.nearest.identity if found.nearest else None,
            "differs": list(found.differs),
        }

    def describe(self) -> str:
        """Return the same in a few words."""
        found = self.found
        if found.store is not None:
            return f"from the store {found.store.name}"
        told = list(self.unanswered())
        if found.nearest is not None:
            more = len(found.differs) - _TOLD
            fields = "; ".join(found.differs[:_TOLD]) + (f"; {more} more" if more > 0 else "")
            told.append(f"a kept {found.nearest.version} differs in {fields}")
        return "; ".join(told)

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
        changed = differences(self.again(), self.inputs)
        if changed:
            return (f"the wheel is not kept in the store: while it was built, {changed[0]}",)
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
