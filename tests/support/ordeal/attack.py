"""A finished install, and what an attack on it shares: asking commands, comparing what they made."""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from integration.gitserver import plain_clone, snapshot

from support.ordeal.inputs import Hostile
from support.ordeal.judge import CARRIED_ON, CLEAR, LetInError
from support.ordeal.trial import Trial
from support.ordeal.world import contents


@dataclass
class Finished:
    """A finished install with its lock and a mirror, which hostile inputs are made of."""

    trial: Trial
    lock: Path
    mirror: Path
    tree: dict[str, str]

    @classmethod
    def make(cls, trial: Trial) -> Finished:
        """Lock and fetch beside an undisturbed install."""
        world, folder = trial.world, trial.place
        recipe, lock, mirror = world.install[1], folder / "small.lock.yaml", folder / "mirror"
        for words in (
            ("lock", recipe, "--output", str(lock), "--json"),
            ("fetch", recipe, "--mirror", str(mirror), "--json"),
        ):  # fmt: skip
            answer = trial.run(*words)
            if answer.code != 0:
                raise RuntimeError(str(answer))
        tree = plain_clone(world.git.url("fast.git"), world.commit, folder / "clone")
        return cls(trial, lock, mirror, tree)


@dataclass
class Attack:
    """A hostile input, the attempt's own folder, and the finished install."""

    trial: Trial
    hostile: Hostile
    good: Finished
    limit_s: float = 60.0

    @property
    def rng(self) -> random.Random:
        return self.trial.rng

    def ask(self, *words: str | Path, trial: Trial | None = None) -> int:
        """Run a command: it ends as documented, prints nothing that a terminal obeys; return its code."""
        answer = (trial or self.trial).run(*map(str, words), limit_s=self.limit_s)
        answer.must_be_clear()
        answer.must_be_printable()
        return answer.code

    def install(self, *words: str | Path) -> str:
        """Install into the attempt's own workspace; what it made has to be what is usual."""
        code = self.ask("install", *words, "--workspace", self.trial.workspace, "--json")
        assert self.trial.usual
        for wheel in (self.trial.workspace / "wheels").glob("fast*.whl"):
            if code == 0 and self.trial.usual.wheels.get(wheel.name) != contents(wheel):
                raise LetInError(f"another wheel is made: {contents(wheel)}")
        tree = self.trial.workspace / "src" / "fast"
        found = snapshot(tree).items() if code == 0 and tree.exists() else self.good.tree.items()
        if not self.good.tree.items() <= found:
            raise LetInError("another tree is checked out")
        return CLEAR if code else CARRIED_ON

    @contextlib.contextmanager
    def finished(self) -> Iterator[Trial]:
        """Lend the finished install; its workspace is what it was afterwards."""
        finished, kept = self.good.trial, self.trial.place / "kept"
        subprocess.run(["cp", "-a", str(finished.workspace), str(kept)], check=True)
        try:
            yield finished
        finally:
            shutil.rmtree(finished.workspace)
            subprocess.run(["cp", "-a", str(kept), str(finished.workspace)], check=True)
