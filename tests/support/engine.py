"""What the tests of the engine share: processes found by a mark, small disks, plans of shell commands."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from xpubuild.engine.events import Event
from xpubuild.engine.fingerprint import fingerprints
from xpubuild.engine.model import Command, Plan, Step
from xpubuild.errors import BuildError

MARK = "ENGINE_TEST_MARK"
#: Enough for sh and the usual small programs, and nothing of the caller's.
PATH = "/usr/local/bin:/usr/bin:/bin"


def new_mark() -> str:
    return f"mark-{uuid.uuid4().hex}"


def marked(mark: str) -> dict[int, str]:
    """Return pid -> command line of every living process with the mark in its environment."""
    wanted = f"{MARK}={mark}".encode()
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            # A process that ended meanwhile; a zombie has an empty environment.
            with contextlib.suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    words = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(entry.name)] = words.decode("utf-8", "replace")
    return found


def eventually(condition: Callable[[], bool], within_s: float = 10.0) -> float | None:
    """Wait for a condition; return the seconds it took, None where it did not come true."""
    started = time.monotonic()
    while True:
        now = time.monotonic() - started
        if condition():
            return now
        if now > within_s:
            return None
        time.sleep(0.01)


@contextlib.contextmanager
def nothing_left(mark: str, within_s: float = 0.0) -> Iterator[None]:
    """Assert that no process with the mark outlives the block by more than ``within_s``; kill what does."""
    try:
        yield
        eventually(lambda: not marked(mark), within_s)
        left = marked(mark)
        assert not left, f"left behind: {left}"
    finally:
        for pid in marked(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def descriptors() -> dict[int, str]:
    """Return what this process has open, by number."""
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        # The one that reads the folder is gone again.
        with contextlib.suppress(FileNotFoundError):
            found[int(entry.name)] = str(entry.readlink())
    return found


@contextlib.contextmanager
def nothing_open() -> Iterator[None]:
    """Assert that the block leaves no descriptor and no child, without the garbage collector's help."""
    gc.disable()
    before = descriptors()
    try:
        yield
        left = {fd: target for fd, target in descriptors().items() if fd not in before}
        assert not left, f"still open: {left}"
        children = psutil.Process().children()
        assert not children, f"still there: {children}"
    finally:
        gc.enable()


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount a tmpfs of ``size`` at ``folder``; the test needs the right to mount."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def program(
    text: str, *arguments: str, mark: str = "", env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run a Python program in a session of its own; at the end its process group is killed."""
    environment = {**os.environ, **(env or {}), MARK: mark}
    process = subprocess.Popen(
        [sys.executable, "-c", text, *arguments],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@dataclass
class Recorder:
    """A sink that keeps every event."""

    events: list[Event] = field(default_factory=list)
    _mutex: threading.Lock = field(default_factory=threading.Lock)

    def emit(self, event: Event) -> None:
        with self._mutex:
            self.events.append(event)

    def close(self) -> None:
        """Do nothing."""

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@dataclass
class FileProof:
    """A file has exactly this content; counts how often it was looked at."""

    path: str
    content: str
    checked: list[str] = field(default_factory=list)

    def describe(self) -> str:
        return f"{Path(self.path).name} has the right content"

    def key(self) -> dict[str, Any]:
        return {"proof": "file", "path": self.path, "content": self.content}

    def check(self) -> dict[str, Any]:
        self.checked.append(self.path)
        path = Path(self.path)
        if not path.is_file() or path.read_text("utf-8") != self.content:
            raise BuildError(f"{path.name} is wrong", why="its content is not what was planned")
        return {"bytes": path.stat().st_size}


def shell(text: str, **options: Any) -> Command:
    return Command(argv=("sh", "-c", text), **options)


def make_plan(workspace: Path, *steps: Step) -> Plan:
    return Plan("test", str(workspace), "0" * 64, steps, fingerprints(steps))


def lines_of(path: Path) -> Sequence[str]:
    return path.read_text("utf-8").splitlines() if path.exists() else []
