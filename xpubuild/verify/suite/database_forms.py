"""The forms of an operator on the device: forward, strided, in-place, out=, gradients, forward-mode."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .database import name_of
from .database_calls import Arguments, call_backward, ends_of, pushed, results_of, sources_of
from .database_choice import Choice, reordered
from .database_compare import Comparison, WrongError
from .database_samples import leaves, rebuilt

#: Operators whose arguments are on the CPU on every device, all but the input.
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
        weights = [self._there(weight, end.dtype) for weight, end in zip(expected["weights"], ends)]
        found = torch.autograd.grad(ends, sources_of(torch, arguments), weights, allow_unused=True)
        self.comparison.all_close("gradient", found, self._choice().gradient(results, self.record))

    def _forward_mode(self) -> None:
        torch, expected = self.torch, self.record["forward-mode"]
        arguments = self._arguments(grad=True)
        sources = sources_of(torch, arguments)
        tangents = [self._there(weight, one.dtype) for weight, one in zip(expected["weights"], sources)]
        call = lambda given: call_backward(self.info, given)  # noqa: E731
        found = pushed(torch, self.sample, arguments, tangents, call)
        self.comparison.all_close("tangent", found, expected["values"])

    def _choice(self) -> Choice:
        return Choice(self.torch, self.name, self.sample, self.record["inputs"][0])

    def _there(self, weight: Any, dtype: Any) -> Any:
        return weight.to(device=self.bench.device, dtype=dtype)

    def _same(self, results: list[Any], *, compare: bool = True) -> None:
        expected, types = self.record["results"], self.record["types"]
        if len(results) != len(expected):
            raise WrongError(f"{len(results)} results instead of {len(expected)}")
        if self.record.get("kind") == "nan":
            compare = self.comparison.nan_arrives(results, expected) if compare else False
        elif compare and self.record["inputs"]:
            results = reordered(self.torch, self.name, results, expected)
            expected = self._choice().allowed(results, expected)
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
