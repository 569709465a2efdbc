"""Runs operators of the database on the device: a process for trials, each form of an operator, the verdict.

The process reads operators from its standard input, one JSON list ``[name, [type, ...]]`` per line, each
before it begins the previous one; ``null`` ends it. It writes one JSON object per line to standard output:

    {"event": "ready"}
    {"event": "begin", "operator": name, "type": type}
    {"event": "end", "operator": name, "type": type, "state": ..., "detail": ..., "runs": {...}, "seconds": s}

If it dies, the last line shows in which operator. Another process computes references (``references.py``).
"""

from __future__ import annotations

import collections
import importlib
import json
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .backends import BACKENDS
from .context import CheckFaultError, SuiteContext
from .database import differentiable, load, name_of, objections
from .database_calls import Arguments, call_backward, ends_of, quiet, results_of, sources_of
from .database_choice import allowed, reordered
from .database_compare import Comparison, WrongError
from .database_samples import evenly, leaves, rebuilt, samples
from .references import References, own_output
from .settling import settle

#: Operators whose arguments, except the input, are on the CPU for every device.
_STAY = ("tensor_split",)


@dataclass
class Forms:
    """One sample in one type; ``bench`` and ``found`` are of ``database_trial.py``."""

    bench: Any
    info: Any
    dtype: Any
    found: Any
    what: str
    sample: Any
    record: dict[str, Any]

    def __post_init__(self) -> None:
        self.torch, self.name = self.bench.torch, name_of(self.info)
        self.comparison = Comparison(
            self.torch, self.info, self.dtype, self.bench.device, self.record["inputs"]
        )

    def all_forms(self, *, forms: bool) -> None:
        """Run all forms that upstream says the operator has."""
        against, info, record = self.found.left_out, self.info, self.record
        if record["random"]:
            against = {**against, "forward": against.get("forward", "two runs on the CPU differ")}
            self.found.left_out.setdefault("forward", against["forward"])
        self.found.attempt("forward", self.what, lambda: self._forward(compare="forward" not in against))
        if forms and "forward" not in against and "forward" not in self.found.problems:
            if "strided" not in against:
                self.found.attempt("strided", self.what, self._strided)
            if info.get_inplace() is not None and "in-place" not in against and self._keeps_form():
                self.found.attempt("in-place", self.what, self._in_place)
            if info.supports_out and "out" not in against and self._plain_results():
                self.found.attempt("out", self.what, self._out)
        if "backward" in record and "forward" not in against:
            self.found.attempt("backward", self.what, self._backward)

    def _arguments(self, change: Callable[[Any], Any] = lambda one: one, *, grad: bool = False) -> Arguments:
        """Return the arguments on the device, with the tensors of the references' process."""
        torch, device = self.torch, self.bench.device
        flat, structure = leaves(self.sample)
        given = iter(self.record["inputs"])
        made: list[Any] = []
        for one in flat:
            if isinstance(one, torch.Tensor):
                stays = made and self.info.name in _STAY
                there = change(next(given).to("cpu" if stays else device, copy=True))
                made.append(there.requires_grad_(one.requires_grad) if grad else there)
            elif isinstance(one, torch.Generator):
                made.append(torch.Generator(device).manual_seed(7))
            elif (isinstance(one, str) and one == "cpu") or (
                isinstance(one, torch.device) and one.type == "cpu"
            ):
                made.append(torch.device(device))
            else:
                made.append(one)
        return rebuilt(made, structure)

    def _forward(self, *, compare: bool) -> None:
        source, args, kwargs = self._arguments()
        with self.torch.no_grad():
            results = results_of(self.torch, self.sample, self.info.op(source, *args, **kwargs))
        self._same(results, compare=compare)

    def _strided(self) -> None:
        torch = self.torch
        utils = importlib.import_module("torch.testing._internal.common_utils")

        def change(one: Any) -> Any:
            return utils.noncontiguous_like(one) if one.layout == torch.strided else one

        source, args, kwargs = self._arguments(change)
        with torch.no_grad():
            results = results_of(torch, self.sample, self.info.op(source, *args, **kwargs))
        self._same(results)

    def _in_place(self) -> None:
        source, args, kwargs = self._arguments()
        with self.torch.no_grad():
            result = self.info.get_inplace()(source, *args, **kwargs)
        if result is not source:
            raise WrongError("the in-place form returns another tensor")
        self._same([source])

    def _keeps_form(self) -> bool:
        """Whether the result can be stored in the input."""
        if not isinstance(self.sample.input, self.torch.Tensor) or self.sample.broadcasts_input:
            return False
        mine = str(self.sample.input.dtype).partition(".")[2]
        results = self.record["results"]
        return (
            len(results) == 1
            and self.record["types"] == [mine]
            and results[0]["value"].shape == self.sample.input.shape
        )

    def _plain_results(self) -> bool:
        return self.record["types"] is not None and self.sample.input is not None

    def _out(self) -> None:
        torch = self.torch
        pytree = importlib.import_module("torch.utils._pytree")
        source, args, kwargs = self._arguments()
        with torch.no_grad():
            results = self.info.op(source, *args, **kwargs)
            flat, _ = pytree.tree_flatten(results)
            if not all(isinstance(one, torch.Tensor) and one.layout == torch.strided for one in flat):
                return
            if not isinstance(results, torch.Tensor) and len(flat) != len(results):
                return  # nested lists
            # Every second element of a wider tensor, full of something else.
            wider = [torch.ones((*one.shape, 2), dtype=one.dtype, device=one.device)[..., 0] for one in flat]
            out = wider[0] if isinstance(results, torch.Tensor) else tuple(wider)
            if isinstance(results, list):
                out = list(wider)
            source, args, kwargs = self._arguments()
            self.info.op(source, *args, **kwargs, out=out)
            if isinstance(results, tuple) and type(results) is not tuple:
                out = type(results)(out)
        self._same(results_of(torch, self.sample, out))

    def _backward(self) -> None:
        torch, expected = self.torch, self.record["backward"]
        arguments = self._arguments(grad=True)
        results = results_of(torch, self.sample, call_backward(self.info, arguments))
        ends = ends_of(torch, results)
        weights = [
            one.to(device=self.bench.device, dtype=end.dtype) for one, end in zip(expected["weights"], ends)
        ]
        found = torch.autograd.grad(ends, sources_of(torch, arguments), weights, allow_unused=True)
        self.comparison.all_close(found, expected["values"])

    def _same(self, results: list[Any], *, compare: bool = True) -> None:
        expected, types = self.record["results"], self.record["types"]
        if len(results) != len(expected):
            raise WrongError(f"{len(results)} results instead of {len(expected)}")
        if compare and self.record["inputs"]:
            results = reordered(self.torch, self.name, results, expected)
            source = self.record["inputs"][0]
            expected = allowed(self.torch, self.name, self.sample, results, expected, source=source)
        # Numbers and shapes come as CPU tensors; the result of an operator on a tensor stays on the device.
        single = len(expected) == 1 and isinstance(self.sample.input, self.torch.Tensor) and types is not None
        here = self.bench.device.partition(":")[0]
        for number, (result, wanted) in enumerate(zip(results, expected)):
            which = f"result {number}: " if len(expected) > 1 else ""
            mine = str(result.dtype).partition(".")[2]
            if (
                types is not None
                and mine != types[number]
                and not (number and _longer(self.torch, result.dtype, getattr(self.torch, types[number])))
            ):
                raise WrongError(f"{which}the type is {mine} instead of {types[number]}")
            if single and result.dim() and result.device.type != here:
                raise WrongError(f"{which}the result is on {result.device}")
            if compare:
                self.comparison.close(which, result, wanted)


def _longer(torch: Any, dtype: Any, other: Any) -> bool:
    """Whether a type has more bits than another: CUDA keeps what a backward pass needs of short types so."""
    rounds = dtype.is_floating_point and other.is_floating_point
    return bool(rounds and torch.finfo(dtype).bits > torch.finfo(other).bits)


#: In-place and out= forms and strided inputs are run for so many samples of a type.
_FORMS = 5
#: Messages of a kernel that does not support an argument. Those for a missing type or dense kernel are
#: different, and are failures.
_REFUSED = re.compile(r"only supports? |not supported on |arguments from the 'Sparse\w+' backend")


@dataclass
class Trial:
    """What came out for one operator in one type: runs and problems by part, samples without a reference."""

    runs: collections.Counter[str] = field(default_factory=collections.Counter)
    problems: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Messages of the device for refused parts of a sample."""
    fell_back: bool = False
    """Whether torch said that it computed on the CPU instead."""

    def attempt(self, aspect: str, what: str, run: Callable[[], None]) -> None:
        """Run one part of one sample, unless this part was wrong before."""
        if aspect in self.problems:
            return
        self.runs[aspect] += 1
        try:
            run()
        except WrongError as wrong:
            self.problems[aspect] = f"{what}: {wrong}"
        except Exception as error:  # noqa: BLE001 - whatever an operator raises is its result
            stated = str(error).splitlines()[0] if str(error) else ""
            if isinstance(error, RuntimeError) and _REFUSED.search(stated):
                self.runs[aspect] -= 1
                self.refused.append(f"{aspect}: {what}: {stated}"[:300])
                return
            self.problems[aspect] = f"{what}: {type(error).__name__}: {stated}"[:300]


class Bench:
    """The device, and what all trials on it share."""

    def __init__(self, torch: Any, device: str, synchronize: Callable[[], None], fallback: str = "") -> None:
        self.torch, self.device, self.synchronize, self.fallback = torch, device, synchronize, fallback

    def trial(self, info: Any, dtype: Any, records: list[dict[str, Any]]) -> Trial:
        """Run an operator in one type; ``records`` are the references of its samples."""
        torch, found = self.torch, Trial()
        grad = differentiable(torch, info, dtype, self.device)
        found.left_out = objections(torch, info, dtype, self.device)
        with quiet(self.fallback) as fell_back:
            made = samples(torch, info, dtype, grad=grad)
            if len(made) != len(records):
                raise WrongError(f"{len(made)} samples here, {len(records)} where references are made")
            for number, (sample, record) in enumerate(zip(made, records)):
                if "fault" in record:
                    found.faults.append(f"sample {number}: {record['fault']}")
                    continue
                Forms(self, info, dtype, found, f"sample {number}", sample, record).all_forms(
                    forms=evenly(made, number, _FORMS)
                )
            self.synchronize()
        found.fell_back = bool(fell_back)
        return found


_LONGEST = 600


def serve_trials(device: str, folder: str, deadline_s: float) -> None:
    """Run the operators of standard input on a device such as ``xpu:1``."""
    output = own_output()
    backend = BACKENDS[device.partition(":")[0]]
    os.environ.update(backend.environment)
    torch = importlib.import_module("torch")
    settle(torch)
    context = SuiteContext(backend, frozenset())
    context.full_precision()
    infos = load()
    bench = Bench(torch, device, context.module.synchronize, backend.fallback_warning)
    references = References(torch, device, Path(folder), deadline_s)

    def tell(**record: Any) -> None:
        output.write(json.dumps(record) + "\n")

    def following() -> Any:
        found = json.loads(sys.stdin.readline() or "null")
        if found:
            for kind in found[1]:
                references.ask("operator", found[0], kind)
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
        records = references.get("operator", name_of(info), kind)
    except CheckFaultError as fault:
        return {"state": "skipped", "detail": f"no reference: {fault}"[:_LONGEST], "runs": {}}
    try:
        found = bench.trial(info, getattr(bench.torch, kind), records)
    except WrongError as wrong:
        return {"state": "failed", "detail": str(wrong)[:_LONGEST], "runs": {}}
    except Exception as error:  # noqa: BLE001 - samples are made with the torch under test
        stated = f"samples cannot be made: {type(error).__name__}: {error}".splitlines()[0]
        return {"state": "failed", "detail": stated[:_LONGEST], "runs": {}}
    return _verdict(found)


def _verdict(found: Trial) -> dict[str, Any]:
    """Return the state of a cell: one wrong part is a failure; what has no reference is skipped."""
    runs = dict(+found.runs)
    refused = f"the device refuses {len(found.refused)} runs: {found.refused[0]}" if found.refused else ""
    refused = refused[:_LONGEST]
    if found.problems:
        stated = "; ".join(f"{part}: {problem}" for part, problem in found.problems.items())
        return {"state": "failed", "detail": stated[:_LONGEST], "runs": runs, "parts": list(found.problems)}
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
    return {"state": "passed", "detail": refused, "runs": runs}
