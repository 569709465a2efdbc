"""Processes of a shard: one runs operators on the device, the other computes their references on the CPU.

The first reads operators from its standard input, one JSON list ``[name, [type, ...]]`` in a line and the one
after it before it begins; ``null`` ends it. It writes one JSON object per line to its standard output:

    {"event": "ready"}
    {"event": "begin", "operator": name, "type": type}
    {"event": "end", "operator": name, "type": type, "state": ..., "detail": ..., "runs": {...}, "seconds": s}

Where it dies, the last line says in what. The second is started by the first as ``references.py`` starts its
own: isolated, so that what changes the torch under test does not change what it is compared with.
"""

from __future__ import annotations

import importlib
import json
import os
import selectors
import sys
import time
from pathlib import Path
from typing import IO, Any

from . import database
from .backends import BACKENDS
from .children import Talking, python
from .context import CheckFailedError, SuiteContext
from .database_compare import WrongError
from .database_reference import compute
from .database_trial import Bench, Trial
from .registry import PACKAGES
from .settling import settle

_LONGEST = 600
#: Some of upstream's samples are in the order of a set: it has to be the same in both processes.
SAME_ORDER = {"PYTHONHASHSEED": "0"}


def _own_output() -> IO[str]:
    """Return the standard output for records; what anything else prints goes to standard error."""
    kept = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return kept


def serve_references(folder: str, device: str) -> None:
    """Compute what standard input asks for, one ``[number, name, type]`` per line; say when it is there."""
    output = _own_output()
    torch = importlib.import_module("torch")
    settle(torch)
    infos = database.load()
    for line in sys.stdin:
        number, name, kind = json.loads(line)
        try:
            records: Any = compute(torch, infos[name], getattr(torch, kind), device)
        except Exception as error:  # noqa: BLE001 - upstream's samples may not be to be had here
            records = f"{type(error).__name__}: {error}".splitlines()[0][:_LONGEST]
        path = Path(folder) / f"{number}.pt"
        try:
            torch.save(records, path)
        except RuntimeError as error:
            torch.save(f"it cannot be stored: {error}"[:_LONGEST], path)
        output.write(f"{number}\n")


class References:
    """The other process, as this one sees it."""

    def __init__(self, torch: Any, device: str, folder: Path, deadline_s: float) -> None:
        self._torch, self._device, self._folder, self._deadline_s = torch, device, folder, deadline_s
        self._process: Talking | None = None
        self._asked: dict[tuple[str, str], int] = {}
        self._number = self._told = 0

    def ask(self, name: str, kinds: list[str]) -> None:
        """Ask for the references of an operator; they are computed while this process goes on."""
        for kind in kinds:
            self._number += 1
            self._asked[name, kind] = self._number
            self._send(self._number, name, kind)

    def get(self, name: str, kind: str) -> list[dict[str, Any]]:
        """Return the references of one type.

        Raises:
            CheckFailedError: there are none; the message says why.
        """
        number = self._asked.pop((name, kind))
        path = self._folder / f"{number}.pt"
        if not self._wait(number):
            self._again()
            raise CheckFailedError("the process for references died or hung in this operator on the CPU")
        found = self._torch.load(path, weights_only=False)
        path.unlink()
        if isinstance(found, str):
            raise CheckFailedError(found)
        return list(found)

    def end(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.end()
            self._process = None

    def _send(self, number: int, name: str, kind: str) -> None:
        if self._process is None:
            home = os.pathsep.join(_homes())
            script = Path(__file__).with_name("run.py")
            command = python(script, "--database-references", self._folder, home, self._device)
            # As -I does, which would ignore the hash seed too. One thread: the other one of a busy machine
            # would be waited for at each operator.
            clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
            env = {**clean, **SAME_ORDER, "OMP_NUM_THREADS": "1"}
            self._process = Talking([command[0], "-s", *command[1:]], env)
        self._process.send(json.dumps([number, name, kind]).encode())

    def _wait(self, number: int) -> bool:
        """Wait until a number is there; the other process says them in the order they were asked for."""
        if self._process is None:
            return False
        output = self._process.output
        end = time.monotonic() + self._deadline_s
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            while self._told != number:
                line = output.readline() if selector.select(max(0.0, end - time.monotonic())) else b""
                if not line:
                    return False
                self._told = int(line)
        return True

    def _again(self) -> None:
        """Start another process for what was asked of the one that is gone."""
        self.end()
        for (name, kind), number in self._asked.items():
            self._send(number, name, kind)


def _homes() -> list[str]:
    """Return the folders of torch and what its database imports: an isolated Python has other paths."""
    found = [importlib.import_module(name).__file__ for name in ("torch", *PACKAGES["database"])]
    return list(dict.fromkeys(str(Path(str(one)).parent.parent) for one in found))


def serve_trials(device: str, folder: str, deadline_s: float) -> None:
    """Run the operators of standard input on a device such as ``xpu:1``."""
    output = _own_output()
    backend = BACKENDS[device.partition(":")[0]]
    os.environ.update(backend.environment)
    torch = importlib.import_module("torch")
    settle(torch)
    context = SuiteContext(backend, frozenset())
    context.full_precision()
    infos = database.load()
    bench = Bench(torch, device, context.module.synchronize, backend.fallback_warning)
    references = References(torch, device, Path(folder), deadline_s)

    def tell(**record: Any) -> None:
        output.write(json.dumps(record) + "\n")

    def following() -> Any:
        found = json.loads(sys.stdin.readline() or "null")
        if found:
            references.ask(found[0], found[1])
        return found

    tell(event="ready")
    try:
        current = following()
        while current:
            name, kinds = current
            tell(event="next")
            after = following()
            for kind in kinds:
                tell(event="begin", operator=name, type=kind)
                began = time.monotonic()
                found = _cell(bench, infos[name], kind, references)
                tell(
                    event="end", operator=name, type=kind, seconds=round(time.monotonic() - began, 3), **found
                )
            current = after
    finally:
        references.end()


def _cell(bench: Bench, info: Any, kind: str, references: References) -> dict[str, Any]:
    try:
        records = references.get(database.name_of(info), kind)
    except CheckFailedError as fault:
        return {"state": "skipped", "detail": f"no reference: {fault}"[:_LONGEST], "runs": {}}
    try:
        found = bench.trial(info, getattr(bench.torch, kind), records)
    except WrongError as wrong:
        return {"state": "failed", "detail": str(wrong)[:_LONGEST], "runs": {}}
    except Exception as error:  # noqa: BLE001 - samples are made with the torch under test
        said = f"samples cannot be made: {type(error).__name__}: {error}".splitlines()[0]
        return {"state": "failed", "detail": said[:_LONGEST], "runs": {}}
    return _verdict(found)


def _verdict(found: Trial) -> dict[str, Any]:
    """Return the state of a cell: one wrong part is a failure; what was compared with nothing is skipped."""
    runs = dict(+found.runs)
    refused = f"the device refuses {len(found.refused)} runs: {found.refused[0]}" if found.refused else ""
    refused = refused[:_LONGEST]
    if found.problems:
        said = "; ".join(f"{part}: {problem}" for part, problem in found.problems.items())
        return {"state": "failed", "detail": said[:_LONGEST], "runs": runs, "parts": list(found.problems)}
    if refused and "forward" not in runs:
        return {"state": "skipped", "detail": refused, "runs": runs}
    if not runs:
        why = found.faults[0] if found.faults else "upstream has no samples for it"
        return {"state": "skipped", "detail": f"no reference: {why}"[:_LONGEST], "runs": runs}
    if found.fell_back:
        return {"state": "skipped", "detail": "it runs on the CPU: the device has no kernel", "runs": runs}
    if "forward" in found.left_out:
        return {"state": "skipped", "runs": runs,
                "detail": f"only run, and types compared: {found.left_out['forward']}"}  # fmt: skip
    return {"state": "passed", "detail": refused, "runs": runs, "references": dict(found.references)}
