"""Spreads the operators of the database over processes and devices, and sees each through to a state.

One process per shard runs operators (``database_trial.py``). Where it dies or does not answer in time, that
costs the operator that it was in: it is started again with the next.
"""

from __future__ import annotations

import collections
import concurrent.futures
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .children import Ended, Talking, python

#: The first import of torch and its database from a cold network file system takes minutes.
_START_S = 900.0
_END_S = 30.0

Operator = tuple[str, list[str]]


@dataclass(frozen=True)
class Limits:
    """Seconds for one operator in one type, and for everything (None: no limit)."""

    cell_s: float
    whole_s: float | None = None


class Pool:
    """Runs operators in shards; ``on_cell`` gets each finished cell."""

    def __init__(
        self, devices: list[str], folder: Path, limits: Limits, on_cell: Callable[[dict[str, Any]], None],
        env: dict[str, str],
    ) -> None:  # fmt: skip
        self._devices, self._folder, self._limits, self._on_cell = devices, folder, limits, on_cell
        self._env, self._lock = {**os.environ, **env}, threading.Lock()
        self._queue: collections.deque[Operator] = collections.deque()
        self.restarts = 0

    def run(self, operators: Iterable[Operator]) -> None:
        """Run (name, types) in the given order until all have a state or the time is over.

        Raises:
            RuntimeError: a process cannot start, or fails after all is done.
        """
        self._queue.extend(operators)
        self._end = time.monotonic() + (self._limits.whole_s or float("inf"))
        devices = self._devices[: len(self._queue)]
        with concurrent.futures.ThreadPoolExecutor(max(1, len(devices))) as pool:
            for shard in [pool.submit(self._shard, device) for device in devices]:
                shard.result()

    def _shard(self, device: str) -> None:
        try:
            self._process(device)
            while self._queue and time.monotonic() < self._end:
                self.restarts += 1
                self._process(device)
        except BaseException:
            self._end = 0.0  # for the others too
            raise

    def _following(self) -> Operator | None:
        with self._lock:
            return self._queue.popleft() if self._queue and time.monotonic() < self._end else None

    def _settle(self, name: str, **cell: Any) -> None:
        with self._lock:
            self._on_cell({"operator": name, **cell})

    def _process(self, device: str) -> None:
        """Run operators in one process until there are no more, or it ends."""
        home = Path(tempfile.mkdtemp(prefix="shard-", dir=self._folder))
        script, log = Path(__file__).with_name("run.py"), home / "output.txt"
        command = python(script, "--database-trials", device, home, self._limits.cell_s * 0.8)
        process = Talking(command, self._env, log=log, group=True)
        given: collections.deque[Operator] = collections.deque()
        kind, ready, line = None, False, None

        def give() -> None:
            """Give the next operator, or say that there is none."""
            following = self._following()
            given.extend([following] if following else [])
            process.send(json.dumps(following).encode())

        try:
            give()
            began = time.monotonic()
            while line := process.line(self._limits.cell_s if ready else _START_S):
                began, record = time.monotonic(), json.loads(line)
                event = record.pop("event")
                ready = ready or event == "ready"
                if event == "next":
                    give()
                elif event == "begin":
                    kind = record["type"]
                elif event == "end":
                    kind, (name, left) = None, given[0]
                    left.remove(record["type"])
                    if not left:
                        given.popleft()
                    self._settle(name, **{key: value for key, value in record.items() if key != "operator"})
        finally:  # one that closed its output is given a moment
            code = process.end(_END_S if line == b"" else 0.0)
        ended = Ended(code, line is None, _tail(log))
        if given:
            self._blame(given, kind, ended, round(time.monotonic() - began, 3), ready=ready)
        elif code not in (0, -signal.SIGKILL):  # all is done; one that takes long to end was ended
            raise RuntimeError(ended.describe("a process of operators"))

    def _blame(
        self, given: collections.deque[Operator], kind: str | None, ended: Ended, spent: float, *, ready: bool
    ) -> None:
        """Settle the operator that a process was in; what it had not begun goes back."""
        if not ready:
            raise RuntimeError(ended.describe("the process that runs operators (at its start)"))
        name, left = given.popleft()
        with self._lock:
            self._queue.extendleft(reversed(given))
        state, at = "timed out" if ended.timed_out else "crashed", kind or left[0]
        detail = ended.describe("its process")[:600]
        self._settle(name, type=at, state=state, detail=detail, runs={}, seconds=spent)
        for other in left:
            if other != at:
                rest = f"it {state} in {at}"
                self._settle(name, type=other, state="not run", detail=rest, runs={}, seconds=0.0)


def _tail(log: Path) -> str:
    """Return the end of what a process printed; of a native stack, what is above it."""
    lines = log.read_bytes()[-20000:].decode("utf-8", "replace").splitlines()
    fatal = [line for line in lines if line.startswith("Fatal Python error")]
    return "\n".join(fatal[-1:] or lines[-5:])
