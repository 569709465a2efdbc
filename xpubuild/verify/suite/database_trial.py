"""Runs one operator in one type on the device, in all its forms, and compares each with its reference.

A result may be off by upstream's tolerance, and by ``ELEMENT`` roundings of its type times how much it
changes with its inputs, as the elements of the operator tables may (``operators.py``). Upstream compares with
the same type on the same device as a rule, and a device with the CPU within 1e-3 (``test_compare_cpu``). Here
references are in double precision and results have roundings in between too, so that its tolerances are taken
times ``SLACK``, which stays far below 1e-3.
"""

from __future__ import annotations

import collections
import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .database import differentiable, objections, tolerance
from .database_reference import (
    Arguments,
    call_backward,
    dense,
    ends_of,
    pushed,
    quiet,
    results_of,
    sources_of,
    wide,
)
from .database_samples import leaves, rebuilt, samples
from .operators import ELEMENT
from .tolerance import unit_roundoff

#: In-place and out= forms and strided inputs are run for so many samples of a type.
_FORMS = 5
SLACK = 8.0
#: Roundings of a sum of ``n`` numbers, times the root of ``n``.
_SUMS = 4.0
#: Gradients and tangents are computed from results that have such errors themselves.
DERIVATIVE = 4.0


class WrongError(Exception):
    """A result is wrong; the message says how."""


@dataclass
class Trial:
    """What came out for one operator in one type: runs and problems by part, samples without a reference."""

    runs: collections.Counter[str] = field(default_factory=collections.Counter)
    problems: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    references: collections.Counter[str] = field(default_factory=collections.Counter)
    faults: list[str] = field(default_factory=list)
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
            said = str(error).splitlines()[0] if str(error) else ""
            self.problems[aspect] = f"{what}: {type(error).__name__}: {said}"[:300]


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
            for number, ((kind, sample), record) in enumerate(zip(made, records)):
                if "fault" in record:
                    found.faults.append(f"{kind} {number}: {record['fault']}")
                    continue
                _Run(self, info, dtype, found, f"{kind} {number}", sample, record).all_forms(
                    forms=number % max(1, len(made) // _FORMS) == 0 or kind != "upstream"
                )
            self.synchronize()
        found.fell_back = bool(fell_back)
        return found


@dataclass
class _Run:
    """One sample in one type."""

    bench: Bench
    info: Any
    dtype: Any
    found: Trial
    what: str
    sample: Any
    record: dict[str, Any]

    def __post_init__(self) -> None:
        self.torch = self.bench.torch

    def all_forms(self, *, forms: bool) -> None:
        """Run all forms that upstream says the operator has."""
        against, info, record = self.found.left_out, self.info, self.record
        if record["random"]:
            against = {**against, "forward": against.get("forward", "two runs on the CPU differ")}
            self.found.left_out.setdefault("forward", against["forward"])
        self.found.references[record["results"][0]["from"] if record["results"] else "none"] += 1
        self.found.attempt("forward", self.what, lambda: self._forward(compare="forward" not in against))
        if forms and "forward" not in against and "forward" not in self.found.problems:
            if "strided" not in against:
                self.found.attempt("strided", self.what, self._strided)
            if info.get_inplace() is not None and "in-place" not in against and self._keeps_form():
                self.found.attempt("in-place", self.what, self._in_place)
            if info.supports_out and "out" not in against and self._plain_results():
                self.found.attempt("out", self.what, self._out)
        for aspect, run in (("backward", self._backward), ("forward-mode", self._forward_mode)):
            if aspect in record and "forward" not in against:
                self.found.attempt(aspect, self.what, run)

    def _arguments(self, change: Callable[[Any], Any] = lambda one: one, *, grad: bool = False) -> Arguments:
        """Return the arguments on the device, with the tensors of the references' process."""
        torch, device = self.torch, self.bench.device
        flat, structure = leaves(self.sample)
        given = iter(self.record["inputs"])
        made = []
        for one in flat:
            if isinstance(one, torch.Tensor):
                there = change(next(given).to(device, copy=True))
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
        ends = ends_of(torch, results_of(torch, self.sample, call_backward(self.info, arguments)))
        weights = [self._there(weight, end.dtype) for weight, end in zip(expected["weights"], ends)]
        found = torch.autograd.grad(ends, sources_of(torch, arguments), weights, allow_unused=True)
        self._all_close("gradient", found, expected["values"])

    def _forward_mode(self) -> None:
        torch, expected = self.torch, self.record["forward-mode"]
        arguments = self._arguments(grad=True)
        sources = sources_of(torch, arguments)
        tangents = [self._there(weight, one.dtype) for weight, one in zip(expected["weights"], sources)]
        call = lambda given: call_backward(self.info, given)  # noqa: E731
        found = pushed(torch, self.sample, arguments, tangents, call)
        self._all_close("tangent", found, expected["values"])

    def _there(self, weight: Any, dtype: Any) -> Any:
        return weight.to(device=self.bench.device, dtype=dtype)

    def _all_close(self, what: str, found: Any, expected: list[dict[str, Any]]) -> None:
        for number, (one, wanted) in enumerate(zip(found, expected)):
            if one is None:
                if bool((wanted["value"] != 0).any()):
                    raise WrongError(f"{what} {number} is missing")
                continue
            value = wanted["value"].expand(one.shape) if wanted["value"].dim() == 0 else wanted["value"]
            self._close(f"{what} {number}: ", one, {**wanted, "value": value}, DERIVATIVE)

    def _same(self, results: list[Any], *, compare: bool = True) -> None:
        expected, types = self.record["results"], self.record["types"]
        if len(results) != len(expected):
            raise WrongError(f"{len(results)} results instead of {len(expected)}")
        # Numbers and shapes come as CPU tensors; the result of an operator on a tensor stays on the device.
        single = len(expected) == 1 and isinstance(self.sample.input, self.torch.Tensor) and types is not None
        here = self.bench.device.partition(":")[0]
        for number, (result, wanted) in enumerate(zip(results, expected)):
            which = f"result {number}: " if len(expected) > 1 else ""
            mine = str(result.dtype).partition(".")[2]
            if types is not None and mine != types[number]:
                raise WrongError(f"{which}the type is {mine} instead of {types[number]}")
            if single and result.dim() and result.device.type != here:
                raise WrongError(f"{which}the result is on {result.device}")
            if compare:
                self._close(which, result, wanted)

    def _close(self, which: str, result: Any, wanted: dict[str, Any], factor: float = 1.0) -> None:
        torch, reference = self.torch, wanted["value"]
        found = dense(torch, result).cpu()
        if found.shape != reference.shape:
            raise WrongError(f"{which}the shape is {tuple(found.shape)} instead of {tuple(reference.shape)}")
        relative, absolute = tolerance(self.info, found.dtype, self.bench.device)
        for dtype in {one.dtype for one in self.record["inputs"]} | {self.dtype}:  # the coarsest counts
            if dtype.is_floating_point or dtype.is_complex:
                own = tolerance(self.info, dtype, self.bench.device)
                relative, absolute = max(relative, own[0]), max(absolute, own[1])
        if not (found.is_floating_point() or found.is_complex()):
            wrong = int((found != reference.to(found.dtype)).sum()) if reference.numel() else 0
            if wrong:
                raise WrongError(f"{which}{wrong} of {reference.numel()} elements are wrong")
            return
        # Sums of many numbers: types that are short are added up in float32.
        terms = max([one.numel() for one in self.record["inputs"]], default=1) / max(1, found.numel())
        u = min(unit_roundoff(torch, found.dtype), 2.0**-24)
        if wanted.get("from") == "numpy":  # NumPy's functions have roundings of their own
            relative = max(relative, 1e-6)
        relative += _SUMS * u * math.sqrt(max(1.0, terms))
        problem = _beyond(torch, found, reference, wanted["spread"], (relative, absolute, factor))
        if problem:
            raise WrongError(which + problem)


def _beyond(
    torch: Any, found: Any, reference: Any, spread: Any, limits: tuple[float, float, float]
) -> str | None:
    """Return how far results are from their reference, None where they are near enough."""
    u, (relative, absolute, factor) = unit_roundoff(torch, found.dtype), limits
    if u > 1e-12:  # not for double precision, whose tolerance is wide
        absolute *= SLACK
        relative = max(relative, min(SLACK * relative, 2e-5))
    # What overflows the type is infinite in it, or what becomes of infinity.
    dtype = found.dtype
    expected = wide(torch, reference.to(dtype)) if not found.is_complex() else wide(torch, reference)
    found, reference = wide(torch, found), wide(torch, reference)
    same = (found == expected) | (torch.isnan(found) & torch.isnan(reference))
    # Products of complex numbers overflow in parts.
    largest = torch.finfo(dtype).max / (100 if found.is_complex() else 1)
    same |= ~torch.isfinite(found) & (reference.abs() > largest)
    if reference.is_complex() != found.is_complex():
        return "one is complex and the other is not"
    if factor > 1:  # what arrives at the results is at most 1 (``_weights``), and cancels in some gradients
        absolute = max(absolute, 2 * u)
    room = absolute + relative * reference.abs()
    if spread is not None and spread.shape == reference.shape and spread.numel():
        finite = spread[torch.isfinite(spread)]
        typical = finite.median() if finite.numel() else 0.0
        room = room + ELEMENT * u * (spread + typical + reference.abs())
    room, error = factor * room, (found - reference).abs()
    wrong = ~(same | (error <= room))
    count = int(wrong.sum())
    if not count:
        return None
    ratio = torch.nan_to_num((error / room)[wrong], 1e30, 1e30).max()
    first = tuple(int(one) for one in wrong.nonzero()[0])
    return (
        f"{count} of {reference.numel()} elements are wrong, by up to {float(ratio):.3g} times the allowed"
        " error"
        f" (at {first}: {found[first].item():.6g} instead of {reference[first].item():.6g})"
    )
