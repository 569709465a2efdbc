"""References of the operator database, computed by another process on the CPU.

A reference is torch's own on the CPU in
double precision: the inputs are those of the type under test, converted without rounding. Each comes with how
much it changes with its inputs, so that a limit can be what a backward stable algorithm keeps to. The same
operator on the CPU in the type under test says which types results have.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from .database import differentiable, load, name_of, objections
from .database_calls import (
    Arguments,
    call_backward,
    dense,
    differ,
    double_by_default,
    ends_of,
    own_seeds,
    quiet,
    results_of,
    sources_of,
    wide,
)
from .database_choice import has_derivative
from .database_samples import evenly, leaves, mapped, samples
from .references import CHANGE, _moved

#: Samples of a type for which gradients are computed; the others have forward results alone.
GRADIENTS = 4
#: Operators that round a quotient to the type, and then to a whole number.
_JUMPS = ("div.floor_rounding", "div.trunc_rounding", "floor_divide", "remainder", "fmod", "__rmod__")


def compute(torch: Any, name: str, type_name: str, device: str) -> list[dict[str, Any]]:
    """Return one record for each sample of an operator in a type: its tensors, and what is expected."""
    info, dtype = load()[name], getattr(torch, type_name)
    grad = differentiable(torch, info, dtype, device)
    against = objections(torch, info, dtype, device)
    with quiet():
        made = samples(torch, info, dtype, grad=grad)
        return [
            Reference(torch, info, sample).record(against, gradients=grad and evenly(made, number, GRADIENTS))
            for number, sample in enumerate(made)
        ]


class Reference:
    """One sample in this process."""

    def __init__(self, torch: Any, info: Any, sample: Any) -> None:
        self.torch, self.info, self.sample = torch, info, sample
        self.tensors = [one.detach().clone() for one in leaves(sample)[0] if isinstance(one, torch.Tensor)]

    def record(self, against: dict[str, str], *, gradients: bool) -> dict[str, Any]:
        """Return the tensors of this sample and its expectations; ``fault`` where there is no reference."""
        found: dict[str, Any] = {"inputs": self.tensors}
        try:
            found["results"] = self._forward()
        except Exception as error:  # noqa: BLE001 - what upstream's operators and references raise is theirs
            found["fault"] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            return found
        found["types"], found["random"] = self._types()
        if gradients and "backward" not in against and self._differentiable():
            with contextlib.suppress(Exception):  # it has none for these arguments
                found["backward"] = backward(self)
        return found

    def _differentiable(self) -> bool:
        if self.tensors and not has_derivative(self.torch, name_of(self.info), self.tensors[0]):
            return False
        return bool(sources_of(self.torch, mapped(self.torch, self.sample, lambda _, one: one)))

    def _jumps(self) -> bool:
        """Whether results jump where a quotient is rounded: the reference then has the same short type."""
        short = (self.torch.float16, self.torch.bfloat16)
        return name_of(self.info) in _JUMPS and any(one.dtype in short for one in self.tensors)

    def arguments(self, seed: int | None = None) -> Arguments:
        """Return the arguments in double precision, of new tensors; ``seed`` moves each a little."""
        torch, jumps = self.torch, self._jumps()

        def change(number: int, tensor: Any) -> Any:
            made = (tensor.detach() if jumps else wide(torch, tensor.detach())).clone()
            if seed is not None and not jumps and made.layout == torch.strided:
                made = _moved(torch, made, 100 * number + seed)
            return made.requires_grad_(
                tensor.requires_grad and (made.is_floating_point() or made.is_complex())
            )

        source, args, kwargs = mapped(torch, self.sample, change)
        if jumps:
            return source, args, kwargs
        types = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64,
                 torch.complex32: torch.complex128, torch.complex64: torch.complex128}  # fmt: skip
        args = tuple(_wider(types, torch, one) for one in args)
        return source, args, {name: _wider(types, torch, one) for name, one in kwargs.items()}

    def _run(self, arguments: Arguments) -> list[Any]:
        source, args, kwargs = arguments
        with double_by_default(self.torch), self.torch.no_grad():
            return results_of(self.torch, self.sample, self.info.op(source, *args, **kwargs))

    def _forward(self) -> list[dict[str, Any]]:
        results = [dense(self.torch, one).clone() for one in self._run(self.arguments())]
        spreads = spread(self.torch, results, lambda seed: self._run(self.arguments(seed)))
        return [{"value": one, "spread": changes} for one, changes in zip(results, spreads)]

    def _types(self) -> tuple[list[str] | None, bool]:
        """Return the results' types on the CPU, and whether two runs differ: random or not initialised."""
        torch = self.torch
        runs = []
        try:
            with own_seeds(torch) as choose:
                for seed in SEEDS:
                    choose(seed)
                    source, args, kwargs = mapped(torch, self.sample, lambda _, one: one.detach().clone())
                    with torch.no_grad():
                        runs.append(results_of(torch, self.sample, self.info.op(source, *args, **kwargs)))
        except Exception:  # noqa: BLE001 - the CPU need not have this type
            return None, False
        pairs = [(dense(torch, a), dense(torch, b)) for a, b in zip(*runs)]
        return [str(one.dtype).partition(".")[2] for one in runs[0]], any(
            differ(torch, *pair) for pair in pairs
        )


def _wider(types: dict[Any, Any], torch: Any, one: Any) -> Any:
    return types.get(one, one) if isinstance(one, torch.dtype) else one


#: Of the signs by which each input moves.
SEEDS = (3, 4)


def spread(torch: Any, values: list[Any], again: Callable[[int], list[Any]]) -> list[Any]:
    """Return how much each value changes for a relative change of 1 of the inputs; None: it does not."""
    rounding = [one.is_floating_point() or one.is_complex() for one in values]
    found = [torch.zeros_like(one.abs()) if rounds else None for one, rounds in zip(values, rounding)]
    for seed in SEEDS if any(rounding) else ():
        try:
            moved = again(seed)
        except Exception:  # noqa: BLE001 - inputs at the edge of a domain cannot be moved
            return [None for _ in values]
        for number, (one, other) in enumerate(zip(values, moved)):
            if found[number] is None or one.shape != other.shape:
                continue
            change = (dense(torch, other) - one).abs() / CHANGE
            found[number] = torch.maximum(found[number], torch.nan_to_num(change, 0.0, 0.0, 0.0))
    return found


def backward(sample: Any) -> dict[str, Any]:
    """Return gradients of the inputs, the weights of the results that they are for, and their spread."""
    torch = sample.torch
    weights: list[Any] = []

    def gradients(seed: int | None = None) -> list[Any]:
        arguments = sample.arguments(seed)
        with double_by_default(torch):
            ends = ends_of(torch, results_of(torch, sample.sample, call_backward(sample.info, arguments)))
            weights[:] = weights or _weights(torch, ends, 977)
            given = _moved_weights(torch, weights, seed)
            found = torch.autograd.grad(ends, sources_of(torch, arguments), given, allow_unused=True)
        return [torch.zeros(()) if one is None else dense(torch, one) for one in found]

    values = [one.clone() for one in gradients()]  # no two of them on one memory
    pairs = zip(values, spread(torch, values, gradients))
    return {
        "weights": [one.clone() for one in weights],
        "values": [{"value": one, "spread": changes} for one, changes in pairs],
    }


def _weights(torch: Any, tensors: list[Any], first: int) -> list[Any]:
    """Return random multiples of 1/4 in the form of tensors, which every type holds."""
    made = []
    for number, one in enumerate(tensors):
        generator = torch.Generator().manual_seed(first + number)
        parts = [torch.randint(-4, 5, one.shape, generator=generator).double() / 4 for _ in range(2)]
        made.append(torch.complex(*parts) if one.is_complex() else parts[0])
    return made


def _moved_weights(torch: Any, weights: list[Any], seed: int | None) -> list[Any]:
    if seed is None:
        return weights
    return [_moved(torch, one, 7000 + 100 * number + seed) for number, one in enumerate(weights)]
