"""One attempt by its seed: which kind it is, what it does, and the verdict."""

from __future__ import annotations

import contextlib
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.ordeal import faults
from support.ordeal.attack import Finished
from support.ordeal.hostile import TARGETS, attack_with
from support.ordeal.judge import CARRIED_ON, CLEAR, LET_IN, LOST, LetInError, LostError
from support.ordeal.trial import Trial, measure, place_of
from support.ordeal.world import World

#: How many of a thousand attempts are of a kind.
SHARES = {
    "kill": 290, "mixed": 10, "signal": 60, "power": 90, "full": 70, "error": 110, "short": 40, "network": 60,
    "together": 50, "clock": 40, **{f"hostile {target}": 12 for target in TARGETS},
}  # fmt: skip
_SAID = 1500


@dataclass
class Result:
    seed: int
    kind: str
    verdict: str
    seconds: float
    notes: list[str]
    codes: list[int]
    reason: str = ""
    plan: str = "small"
    #: Kills, signals and cuts that came while the command ran; of other kinds there is one.
    hits: int = 1


def kind_of(seed: int, kinds: tuple[str, ...] = tuple(SHARES)) -> str:
    return random.Random(seed).choices(kinds, [SHARES[kind] for kind in kinds])[0]  # noqa: S311


@dataclass
class Worker:
    """Makes attempts one after the other, in a folder of its own."""

    world: World
    folder: Path
    undisturbed: Trial
    good: Finished | None = None

    @classmethod
    def make(cls, world: World, folder: Path) -> Worker:
        """Install once as usual, to know what each attempt has to end in."""
        return cls(world, folder, measure(world, folder / "good"))

    def attempt(self, seed: int, kind: str, plan: str = "small") -> Result:
        trial = Trial(self.world, random.Random(seed + 1), self.folder, self.undisturbed.usual)  # noqa: S311
        started, verdict, reason = time.monotonic(), "", ""
        try:
            verdict = self._make(trial, kind, self.folder / f"a{seed}")
        except LostError as error:
            verdict, reason = LOST, str(error)
        except LetInError as error:
            verdict, reason = LET_IN, str(error)
        codes = [answer.code for answer in trial.answers]
        seconds = round(time.monotonic() - started, 2)
        hits = trial.hits if kind in ("kill", "signal", "power") else 1
        return Result(seed, kind, verdict, seconds, trial.notes, codes, reason[-2 * _SAID :], plan, hits)

    def _make(self, trial: Trial, kind: str, folder: Path) -> str:
        size = faults.small_size(trial) if kind == "full" else ""
        with (
            self._outside(folder),
            place_of(kind, folder / "place", size, self.world.megabytes) as (place, disk),
        ):
            trial.place = place
            if kind.startswith("hostile "):
                return self._attack(trial, kind.removeprefix("hostile "))
            if disk:
                faults.power(trial, disk)
            else:
                faults.FAULTS[kind](trial)
            failed = any(answer.code > 0 for answer in trial.answers)
            trial.carry_on()
            return CLEAR if failed else CARRIED_ON

    def _attack(self, trial: Trial, target: str) -> str:
        if self.good is None:
            self.good = Finished.make(self.undisturbed)
        return attack_with(trial, target, self.good)

    @staticmethod
    @contextlib.contextmanager
    def _outside(folder: Path) -> Iterator[None]:
        folder.mkdir()
        try:
            yield
        finally:
            shutil.rmtree(folder, ignore_errors=True)
