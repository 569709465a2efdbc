"""The suite operators as a judge of broken operators: which of its pairs call one, and what they say."""

from __future__ import annotations

import importlib
import os
import shutil
from typing import Any

from mutation.broken import Broken, Recorder
from mutation.spread import share
from mutation.tables import SUITE, Bench, digest

#: Pairs that are run for a mutant at most, those that are named like the operator first.
_MOST = 60
_DEADLINE_S = 120.0
_SHORT = ("float16", "bfloat16")
_PARTS = ("context", "database", "database_samples", "database_trial", "references")


class Database:
    """Operators of torch's database on one device, with references of another process.

    References and the map are kept in the folder of the tables' records.
    """

    def __init__(
        self, bench: Bench, device: str, turn: tuple[str, tuple[int, int]] = ("mutants", (0, 1))
    ) -> None:
        self._part = {name: importlib.import_module(f"{bench.package}.{name}") for name in _PARTS}
        self.torch, self.device = bench.torch, "cpu" if device == "cpu" else f"{device}:0"
        self.infos = self._part["database"].load()
        self._bench = self._part["database_trial"].Bench(
            self.torch, self.device, bench.context.module.synchronize
        )
        self._mine = digest(*sorted(SUITE.glob("database*.py")))
        self._folder = bench.folder / f"ops-{self._mine}"
        # Of this process alone: references arrive there under numbers.
        self._arriving = self._folder / f"arriving-{os.getpid()}"
        self._arriving.mkdir(parents=True, exist_ok=True)
        worker = self._part["references"]
        self._references = worker.References(self.torch, self.device, self._arriving, _DEADLINE_S)
        self._good: dict[tuple[str, str], bool] = {}
        self._map: dict[str, list[str]] = {}
        with Recorder(self.torch, bench.names, bench.backend.dispatch_key) as recorder:
            for name in share([*self.infos], turn[1]) if turn[0] == "records" else self.infos:
                line = f"ops {name} {self._mine} {bench.tool}"
                bench.lines.add(line, lambda name=name: self._called(recorder, name))
                for one in bench.lines.of[line] or ():
                    self._map.setdefault(one, []).append(name)

    def _called(self, recorder: Recorder, name: str) -> list[str]:
        recorder.begin()
        for kind in self._types(name)[:1]:
            self._call(name, kind)
        return list(recorder.found)

    def end(self) -> None:
        """End the process for references."""
        self._references.end()
        shutil.rmtree(self._arriving)

    def _types(self, name: str) -> list[str]:
        found: list[str] = self._part["database"].types_of(self.torch, self.infos[name], self.device)
        return found

    def _call(self, name: str, kind: str) -> None:
        """Run a few samples, forward and backward, whatever they raise."""
        torch, info = self.torch, self.infos[name]
        dtype = getattr(torch, kind)
        try:
            grad = self._part["database"].differentiable(torch, info, dtype, self.device)
            for _, sample in self._part["database_samples"].samples(torch, info, dtype, grad=grad)[:6]:
                source, args, kwargs = self._part["database_samples"].mapped(
                    torch,
                    sample,
                    lambda _, one: one.detach().to(self.device).requires_grad_(one.requires_grad),
                )
                result = info.op(source, *args, **kwargs)
                if grad and isinstance(result, torch.Tensor) and result.requires_grad:
                    result.backward(torch.ones_like(result))
        except Exception:  # noqa: BLE001 - an operator that the map lacks is a survivor, and listed
            return

    def _callers(self, name: str) -> list[str]:
        """Return the operators of the database that call a core operator, those of the same name first.

        Some are called by other kernels, below what can be recorded: those are found by their names.
        """
        stem = name.strip("_")
        named = [
            one for one in self.infos if stem.startswith(one.replace(".", "_").removeprefix("nn_functional_"))
        ]
        return sorted(self._map.get(name) or named, key=lambda one: one not in named)

    def pairs(self, name: str, mutation: str) -> list[tuple[str, str]]:
        """Return operators and types in which a mutant of a core operator may show."""
        found = []
        for one in self._callers(name):
            types = self._types(one)
            chosen = [kind for kind in types if kind in _SHORT] if mutation == "half" else types[:1]
            found += [(one, kind) for kind in chosen]
        return found[:_MOST]

    def _records(self, pair: tuple[str, str]) -> Any:
        """Return the references of a pair, which are made once."""
        stored = self._folder / f"{' '.join(pair)}.pt"
        if not stored.is_file():
            self._references.ask("operator", *pair)
            try:
                made = self._references.get("operator", *pair)
            except self._part["context"].CheckFaultError:
                made = []
            self.torch.save(made, self._arriving / stored.name)
            (self._arriving / stored.name).rename(stored)
        return self.torch.load(stored, weights_only=False)

    def run(self, broken: Broken, pair: tuple[str, str]) -> str | None:
        """Return what the suite says of a pair while an operator is broken, and does not say else."""
        records = self._records(pair)
        with broken:
            said = self._problem(pair, records)
        if said and pair not in self._good:
            self._good[pair] = self._problem(pair, records) is None
        return said if said and self._good[pair] else None

    def _problem(self, pair: tuple[str, str], records: Any) -> str | None:
        name, kind = pair
        try:
            found = self._bench.trial(self.infos[name], getattr(self.torch, kind), records)
        except Exception as error:  # noqa: BLE001 - as the suite does
            return f"{type(error).__name__}: {error}"[:200]
        return "; ".join(f"{part}: {problem}" for part, problem in found.problems.items()) or None
