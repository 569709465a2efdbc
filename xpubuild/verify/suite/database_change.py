"""How references change with their inputs: sensitivities, gradients and forward-mode derivatives.

All are in double precision. ``sample`` is a ``Reference``: one sample in the process for references.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .database_calls import call_backward, dense, double_by_default, ends_of, pushed, results_of, sources_of
from .references import CHANGE, _moved

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

    return _expected(sample, weights, gradients)


def tangents(sample: Any) -> dict[str, Any]:
    """Return derivatives of the results along random tangents of the inputs, and their spread."""
    torch = sample.torch
    weights = _weights(torch, sources_of(torch, sample.arguments()), 1977)

    def derivatives(seed: int | None = None) -> list[Any]:
        given = _moved_weights(torch, weights, seed)
        with double_by_default(torch):
            call = lambda arguments: call_backward(sample.info, arguments)  # noqa: E731
            found = pushed(torch, sample.sample, sample.arguments(seed), given, call)
        return [torch.zeros(()) if one is None else dense(torch, one) for one in found]

    return _expected(sample, weights, derivatives)


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


def _expected(sample: Any, weights: list[Any], compute_one: Callable[..., list[Any]]) -> dict[str, Any]:
    values = [one.clone() for one in compute_one()]  # no two of them on one memory
    spreads = spread(sample.torch, values, compute_one)
    pairs = zip(values, spreads)
    weights = [one.clone() for one in weights]
    return {"weights": weights, "values": [{"value": one, "spread": changes} for one, changes in pairs]}
