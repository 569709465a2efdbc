"""One attempt: its folder, its processes, what they answered, and what is promised of the end."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from support.engine import eventually, small_disk
from support.ordeal.judge import Answer, LostError
from support.ordeal.world import World, contents
from support.power import Disk, disk

_ENDS_S = 30.0


@dataclass
class Usual:
    """How an undisturbed install went: what it made, how long it took, the files that it left."""

    wheels: dict[str, dict[str, str]]
    seconds: float
    megabytes: float
    files: list[str]


@dataclass
class Trial:
    """A place to install into, and the random numbers of the attempt."""

    world: World
    rng: random.Random
    place: Path
    usual: Usual | None = None
    limit_s: float = 300.0
    answers: list[Answer] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    hits: int = 0

    @property
    def workspace(self) -> Path:
        return self.place / "ws"

    @property
    def install_words(self) -> tuple[str, ...]:
        return (*self.world.install, "--workspace", str(self.workspace), "--json")

    @property
    def usual_s(self) -> float:
        return self.usual.seconds if self.usual else 5.0

    def note(self, text: str) -> None:
        self.notes.append(text)

    def moment(self, longest: float = 1.0) -> float:
        """Return a random moment of an install, in seconds since its start."""
        return self.rng.uniform(0.02, longest) * self.usual_s

    def start(self, words: Sequence[str], prefix: Sequence[str] = ()) -> subprocess.Popen[str]:
        out, err = (
            self.place / f"{name}-{len(self.answers)}-{time.monotonic_ns()}" for name in ("out", "err")
        )
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "xpubuild", *words], stdin=subprocess.DEVNULL,
                stdout=stdout, stderr=stderr, text=True, start_new_session=True,
                env=self.world.environment(self.place, self.variables), cwd=self.place / "home",
            )  # fmt: skip
        process.torture = (tuple(words), out, err, time.monotonic())  # type: ignore[attr-defined]
        return process

    def wait(self, process: subprocess.Popen[str], seconds: float) -> None:
        """Wait for the moment of a kill or a cut, and count it if the command still runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        self.hits += process.poll() is None

    def end(self, process: subprocess.Popen[str], within_s: float | None = None) -> Answer:
        """Wait for a command; one that does not end is stopped and lost."""
        words, out, err, started = process.torture  # type: ignore[attr-defined]
        try:
            code = process.wait(within_s or self.limit_s)
        except subprocess.TimeoutExpired:
            self.kill_all(process)
            raise LostError(
                f"did not end within {within_s or self.limit_s:.0f} s: {' '.join(words)}"
            ) from None
        texts = [path.read_bytes().decode("utf-8", "replace") for path in (out, err)]
        for path in (out, err):
            path.unlink()
        answer = Answer(words, code, texts[0], texts[1], time.monotonic() - started)
        self.answers.append(answer)
        return answer

    def run(self, *words: str, prefix: Sequence[str] = (), limit_s: float | None = None) -> Answer:
        return self.end(self.start(words, prefix), limit_s)

    def kill_all(self, process: subprocess.Popen[str]) -> None:
        """Kill whatever belongs to this attempt, at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for pid in self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        eventually(lambda: not self.alive(), _ENDS_S)

    def alive(self) -> list[int]:
        """Return the processes that have this place in their environment or command line."""
        mark, found = str(self.place).encode(), []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    texts = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
                    if mark in texts:
                        found.append(int(entry.name))
        return found

    def nothing_left(self) -> None:
        """Raise LostError where a process outlives the command that started it."""
        if eventually(lambda: not self.alive(), _ENDS_S) is None:
            left = [" ".join(psutil.Process(pid).cmdline())[:200] for pid in self.alive()]
            for pid in self.alive():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            raise LostError(f"processes are left: {left}")

    def carry_on(self) -> None:
        """Run the same command again, undisturbed: it ends in the usual result, or LostError is raised."""
        self.nothing_left()
        answer = self.run(*self.install_words)
        if answer.code != 0:
            raise LostError(f"the same command does not carry on: {answer}")
        self.look()

    def look(self) -> None:
        """Raise LostError unless wheels, installed files and sources are those of an undisturbed install."""
        made = {path.name: contents(path) for path in sorted((self.workspace / "wheels").glob("*.whl"))}
        if self.usual and made != self.usual.wheels:
            raise LostError(f"other wheels than usual: {made}")
        checked = self.run("check", str(self.workspace), "--json")
        if checked.code != 0:
            raise LostError(f"check finds damage: {checked} {checked.out[-1500:]}")
        program, wanted = self.world.imports
        python = self.workspace / "env" / "bin" / "python"
        said = subprocess.run(
            [python, "-c", program], capture_output=True, text=True, check=False, timeout=300
        )
        if said.stdout.strip() != wanted:
            raise LostError(f"what was built says {said.stdout!r} when it is imported: {said.stderr[-1500:]}")


def measure(world: World, place: Path) -> Trial:
    """Install into ``place`` without any fault; what it makes is what each attempt has to end in."""
    place.mkdir()
    trial = Trial(world, random.Random(0), place)  # noqa: S311
    answer = trial.run(*trial.install_words)
    if answer.code != 0:
        raise RuntimeError(f"the tortured plan does not install: {answer} {answer.out[-3000:]}")
    trial.look()
    wheels = {path.name: contents(path) for path in sorted((trial.workspace / "wheels").glob("*.whl"))}
    left = sorted(place.rglob("*"))
    size = sum(path.lstat().st_blocks * 512 for path in left) / (1 << 20)
    files = [str(path.relative_to(place)) for path in left if path.is_file()]
    trial.usual = Usual(wheels, answer.seconds, size, files)
    return trial


@contextlib.contextmanager
def place_in(folder: Path) -> Iterator[Path]:
    """Make a folder for an attempt, and remove it."""
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def place_of(kind: str, folder: Path, size: str, megabytes: int) -> Iterator[tuple[Path, Disk | None]]:
    """Make the place that a kind of attempt needs: a disk, a small file system, or a folder."""
    with place_in(folder):
        if kind == "power":
            with disk(folder, megabytes) as made:
                yield made.place, made
        elif kind == "full":
            with small_disk(folder / "small", size) as small:
                yield small, None
        else:
            yield folder, None
