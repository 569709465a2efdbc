"""Inputs of the operator database: some of upstream's samples, as two processes make them from the same seed.

One computes references from them, the other runs the device. Only structure and arguments of the second are
its own; its tensors are replaced by those of the first. Large inputs, other numbers in the same shapes and
NaN are in the operator tables (``tables_*.py``).
"""

from __future__ import annotations

import importlib
import itertools
import random
from collections.abc import Callable
from typing import Any

from .database_choice import made_distinct

#: Samples of an operator in one type: of more, that many are taken evenly from the first ``_LOOKED_AT``.
MOST = 12
_LOOKED_AT = 100
_SEED = 20261123
#: Where torch sees such a device, some samples name it or have a tensor there.
_DEVICES = ("cuda", "xpu", "mps")


def seed(torch: Any) -> None:
    """Seed every generator that samples are made with."""
    torch.default_generator.manual_seed(_SEED)
    random.seed(_SEED)
    importlib.import_module("numpy").random.seed(_SEED)


def samples(torch: Any, info: Any, dtype: Any, *, grad: bool) -> list[Any]:
    """Return SampleInputs on the CPU."""
    seed(torch)
    # Not sample_inputs(): it seeds all devices for each sample, which takes longer than most operators.
    given = list(itertools.islice(info.sample_inputs_func(info, "cpu", dtype, grad), _LOOKED_AT))
    step = max(1.0, len(given) / MOST)
    made = [_on_cpu(torch, given[int(number * step)]) for number in range(min(MOST, len(given)))]
    name = f"{info.name}.{info.variant_test_name}".rstrip(".")
    for sample in made:
        sample.input = made_distinct(torch, name, sample.input)
    return made


def evenly(made: list[Any], number: int, most: int) -> bool:
    """Return whether a sample is one of about ``most`` taken evenly."""
    return number % max(1, len(made) // most) == 0


def _on_cpu(torch: Any, sample: Any) -> Any:
    """Return a sample with all tensors on the CPU, and with its name where it names another device."""

    def moved(one: Any) -> Any:
        if isinstance(one, torch.Tensor):
            there = one.device.type in _DEVICES
            return one.detach().cpu().requires_grad_(one.requires_grad) if there else one
        if isinstance(one, torch.device):
            return torch.device("cpu") if one.type in _DEVICES else one
        return "cpu" if isinstance(one, str) and one.partition(":")[0] in _DEVICES else one

    flat, structure = leaves(sample)
    here = [moved(one) for one in flat]
    if any(one is not other for one, other in zip(here, flat)):
        sample.input, sample.args, sample.kwargs = rebuilt(here, structure)
    return sample


def leaves(sample: Any) -> tuple[list[Any], Any]:
    """Return all that a sample's input and arguments hold, and their structure."""
    pytree = importlib.import_module("torch.utils._pytree")
    flat, structure = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    return list(flat), structure


def rebuilt(flat: list[Any], structure: Any) -> tuple[Any, Any, Any]:
    """Return input, arguments and keyword arguments with other leaves."""
    pytree = importlib.import_module("torch.utils._pytree")
    made: tuple[Any, Any, Any] = pytree.tree_unflatten(flat, structure)
    return made


def mapped(torch: Any, sample: Any, change: Callable[[int, Any], Any]) -> tuple[Any, Any, Any]:
    """Return input and arguments with ``change(number, tensor)`` in the place of each tensor."""
    flat, structure = leaves(sample)
    number = itertools.count()
    changed = [change(next(number), one) if isinstance(one, torch.Tensor) else one for one in flat]
    return rebuilt(changed, structure)
