"""Spreads the operators of the database over processes and devices, and sees each through to a state.

One process per shard runs operators (``database_trial.py``). Where it dies or does not come back in time,
that costs the operator that it was in: it is started again with the next.
"""

from __future__ import annotations

import collections
import json
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .children import Ended, Talking, python

#: The first import of torch and its database from a cold network file system takes minutes.
_START_S = 900.0
_TICK_S = 0.2
_END_S = 30.0

Cell = tuple[str, str]


@dataclass(frozen=True)
class Limits:
    """Seconds for one operator in one type, and for everything (None: no limit)."""

    cell_s: float
    whole_s: float | None = None


@dataclass
class _Shard:
    """One process and what is known of it."""

    device: str
    process: Talking
    log: Path
    given: collections.deque[tuple[str, list[str]]] = field(default_factory=collections.deque)
    cell: Cell | None = None
    since: float = 0.0
    ready: bool = False
    done: bool = False
    rest: bytes = b""


class Pool:
    """Runs operators in shards; ``on_cell`` gets each finished cell."""

    def __init__(
        self, devices: list[str], folder: Path, limits: Limits, on_cell: Callable[[dict[str, Any]], None],
        env: dict[str, str],
    ) -> None:  # fmt: skip
        self._devices, self._folder, self._limits, self._on_cell = devices, folder, limits, on_cell
        self._env = env
        self._queue: collections.deque[tuple[str, list[str]]] = collections.deque()
        self._shards: list[_Shard] = []
        self._selector = selectors.DefaultSelector()
        self.restarts = 0

    def run(self, operators: Iterable[tuple[str, list[str]]]) -> None:
        """Run (name, types) in the given order until all have a state or the time is over."""
        self._queue.extend(operators)
        self._end = time.monotonic() + (self._limits.whole_s or float("inf"))
        try:
            for device in self._devices[: len(self._queue)]:
                self._start(device)
            while self._shards:
                for key, _ in self._selector.select(_TICK_S):
                    self._read(key.data)
                for shard in list(self._shards):
                    self._watch(shard)
        finally:
            for shard in list(self._shards):
                self._stop(shard)
            self._selector.close()

    def _start(self, device: str) -> None:
        number = len(list(self._folder.glob("shard-*")))
        home = self._folder / f"shard-{number}"
        home.mkdir()
        script = Path(__file__).with_name("run.py")
        command = python(script, "--database-trials", device, home, self._limits.cell_s * 0.8)
        log = home / "output.txt"
        process = Talking(command, {**os.environ, **self._env}, log=log, group=True)
        shard = _Shard(device, process, log, since=time.monotonic())
        self._shards.append(shard)
        self._selector.register(process.output, selectors.EVENT_READ, shard)
        self._give(shard)

    def _give(self, shard: _Shard) -> None:
        """Give the next operator, or say that there is none."""
        following = self._queue.popleft() if self._queue and time.monotonic() < self._end else None
        if following is not None:
            shard.given.append(following)
        shard.process.send(json.dumps(following).encode())

    def _read(self, shard: _Shard) -> None:
        data = os.read(shard.process.output.fileno(), 1 << 16)
        if not data:
            shard.done = True
            return
        *lines, shard.rest = (shard.rest + data).split(b"\n")
        for line in lines:
            self._take(shard, json.loads(line))

    def _take(self, shard: _Shard, record: dict[str, Any]) -> None:
        shard.since = time.monotonic()
        if record["event"] == "ready":
            shard.ready = True
        elif record["event"] == "next":
            self._give(shard)
        elif record["event"] == "begin":
            shard.cell = (record["operator"], record["type"])
        else:
            self._settle(shard, record)

    def _settle(self, shard: _Shard, record: dict[str, Any]) -> None:
        """Hand on one cell, and forget it."""
        shard.cell = None
        name, left = shard.given[0]
        left.remove(record["type"])
        if not left:
            shard.given.popleft()
        self._on_cell({key: value for key, value in record.items() if key != "event"} | {"operator": name})

    def _watch(self, shard: _Shard) -> None:
        """See to a shard that ended or takes too long."""
        spent = time.monotonic() - shard.since
        late = spent > (self._limits.cell_s if shard.ready else _START_S)
        if not shard.done and not late:
            return
        code = self._stop(shard)
        if shard.given:
            self._blame(shard, code, spent, late=late and not shard.done)
        elif code not in (0, -signal.SIGKILL):  # all is done; one that takes long to end was ended
            raise RuntimeError(Ended(code, False, _tail(shard.log)).describe("a process of operators"))
        if self._queue and time.monotonic() < self._end:
            self.restarts += 1
            self._start(shard.device)

    def _blame(self, shard: _Shard, code: int, spent: float, *, late: bool) -> None:
        """Settle the operator that a process was in; what it had not begun goes back."""
        name, left = shard.given.popleft()
        for one in reversed(shard.given):
            self._queue.appendleft(one)
        if not shard.ready:
            said = _tail(shard.log)
            raise RuntimeError(
                Ended(code, late, said).describe("the process that runs operators (at its start)")
            )
        said = Ended(code, late, _tail(shard.log)).describe("its process")
        kind = shard.cell[1] if shard.cell else left[0]
        state = "timed out" if late else "crashed"
        self._on_cell({"operator": name, "type": kind, "state": state, "detail": said[:600], "runs": {},
                       "seconds": round(spent, 3)})  # fmt: skip
        rest = {"state": "not run", "detail": f"it {state} in {kind}", "runs": {}, "seconds": 0.0}
        for other in left:
            if other != kind:
                self._on_cell({"operator": name, "type": other, **rest})

    def _stop(self, shard: _Shard) -> int:
        """End a process and all that it started; one that closed its output is given a moment."""
        self._selector.unregister(shard.process.output)
        self._shards.remove(shard)
        return shard.process.end(_END_S if shard.done else 0.0)


def _tail(log: Path) -> str:
    """Return the end of what a process printed; of a native stack, what is above it."""
    lines = log.read_bytes()[-20000:].decode("utf-8", "replace").splitlines()
    fatal = [line for line in lines if line.startswith("Fatal Python error")]
    return "\n".join(fatal[-1:] or lines[-5:])
