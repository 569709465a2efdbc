"""The suite ops as a judge of broken operators: which of its pairs call one, and what they say of it."""

from __future__ import annotations

import importlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mutation.called import called

#: Pairs that are run for a mutant at most, those that are named like the operator first.
_MOST = 60
_DEADLINE_S = 120.0
_SHORT = ("float16", "bfloat16")


class Database:
    """Operators of torch's database on one device, with references of another process."""

    def __init__(self, package: str, torch: Any, device: str, cache: Path) -> None:
        self._part = {
            name: importlib.import_module(f"{package}.{name}")
            for name in (
                "database",
                "database_samples",
                "database_trial",
                "database_worker",
                "backends",
                "context",
            )
        }
        self.torch, self.device = torch, "cpu" if device == "cpu" else f"{device}:0"
        self.infos = self._part["database"].load()
        backend = self._part["backends"].BACKENDS[device]
        context = self._part["context"].SuiteContext(backend, frozenset())
        self._bench = self._part["database_trial"].Bench(torch, self.device, context.module.synchronize)
        self._folder = tempfile.TemporaryDirectory(prefix="mutants-")
        worker = self._part["database_worker"]
        self._references = worker.References(torch, self.device, Path(self._folder.name), _DEADLINE_S)
        self._records: dict[tuple[str, str], Any] = {}
        self._good: dict[tuple[str, str], bool] = {}
        if not cache.is_file():
            cache.write_text(json.dumps(self._record()), "utf-8")
        self._map: dict[str, list[str]] = json.loads(cache.read_text("utf-8"))

    def end(self) -> None:
        """End the process for references."""
        self._references.end()
        self._folder.cleanup()

    def _types(self, name: str) -> list[str]:
        found: list[str] = self._part["database"].types_of(self.torch, self.infos[name], self.device)
        return found

    def _record(self) -> dict[str, list[str]]:
        """Call each operator of the database once; return core operator -> operators that call it."""
        found: dict[str, list[str]] = {}
        for name in self.infos:
            with called() as seen:
                for kind in self._types(name)[:1]:
                    self._call(name, kind)
            for one in seen:
                found.setdefault(one, []).append(name)
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
        return sorted(self._map.get(name.rstrip("_")) or named, key=lambda one: one not in named)

    def has_no_short_type(self, name: str) -> bool:
        """Return whether an operator of the database has no short type on this device."""
        callers = self._callers(name)
        return bool(callers) and not any(kind in _SHORT for one in callers for kind in self._types(one))

    def pairs(self, name: str, mutation: str) -> list[tuple[str, str]]:
        """Return operators and types in which a mutant of a core operator may show."""
        found = []
        for one in self._callers(name):
            types = self._types(one)
            chosen = [kind for kind in types if kind in _SHORT] if mutation == "half" else types[:1]
            found += [(one, kind) for kind in chosen]
        return found[:_MOST]

    def run(self, broken: Callable[[], Any], pair: tuple[str, str]) -> str | None:
        """Return what the suite says of a pair while an operator is broken, and does not say else."""
        if pair not in self._records:
            self._references.ask(pair[0], [pair[1]])
            try:
                self._records[pair] = self._references.get(*pair)
            except self._part["context"].CheckFailedError:
                self._records[pair] = []
        with broken():
            said = self._problem(pair)
        if said and pair not in self._good:
            self._good[pair] = self._problem(pair) is None
        return said if said and self._good[pair] else None

    def _problem(self, pair: tuple[str, str]) -> str | None:
        name, kind = pair
        try:
            found = self._bench.trial(self.infos[name], getattr(self.torch, kind), self._records[pair])
        except Exception as error:  # noqa: BLE001 - as the suite does
            return f"{type(error).__name__}: {error}"[:200]
        return "; ".join(f"{part}: {problem}" for part, problem in found.problems.items()) or None
