"""Inputs of the operator database: upstream's samples and those that it has not.

Such as an empty one, one with more than 2^16 elements, one with other numbers in the shapes of the first, and
one with a NaN.

Two processes make them from the same seed: one computes references from them, the other runs the device. Only
structure and arguments of the second are its own; its tensors are replaced by those of the first.
"""

from __future__ import annotations

import copy
import importlib
import itertools
import math
import random
from collections.abc import Callable
from typing import Any

from .database_choice import made_distinct
from .tables_elements import DROP_NAN

#: Samples of an operator in one type: of more, that many are taken evenly from the first ``_LOOKED_AT``.
MOST = 12
_LOOKED_AT = 100
LARGE = 2**16
_SEED = 20261123
#: Where torch sees such a device, some samples name it or have a tensor there.
_DEVICES = ("cuda", "xpu", "mps")
#: What is reduced over its first and over its second dimension to more than 2^16 results.
_TALL = ((3, 70001), (70001, 3))
#: Rows of others make other matrices, which need not be regular; work grows with the cube of a dimension.
_DECOMPOSITIONS = (
    "linalg", "lu", "svd", "pca", "qr", "geqrf", "cholesky", "cov", "corrcoef", "logdet", "det", "pinverse",
    "inverse", "matrix_exp", "trapz", "ormqr", "triangular",
)  # fmt: skip


def seed(torch: Any, more: int = 0) -> None:
    """Seed every generator that samples are made with."""
    torch.default_generator.manual_seed(_SEED + more)
    random.seed(_SEED + more)
    importlib.import_module("numpy").random.seed((_SEED + more) % 2**32)


def samples(torch: Any, info: Any, dtype: Any, *, grad: bool) -> list[tuple[str, Any]]:
    """Return (kind, SampleInput) on the CPU: ``upstream``, ``empty``, ``large``, ``again`` or ``nan``."""
    seed(torch)
    # Not sample_inputs(): it seeds all devices for each sample, which takes longer than most operators.
    given = list(itertools.islice(info.sample_inputs_func(info, "cpu", dtype, grad), _LOOKED_AT))
    given = [_on_cpu(torch, one) for one in given]
    step = max(1.0, len(given) / MOST)
    made = [("upstream", given[int(number * step)]) for number in range(min(MOST, len(given)))]
    made += [("empty", one) for one in _empty(torch, info, given)]
    made += [("large", one) for one in _large(torch, info, given)]
    made += [("again", one) for one in _again(torch, info, dtype, given[:1], grad=grad)]
    made += [("nan", one) for one in _with_nan(torch, info, given)]
    for _, sample in made:
        name = f"{info.name}.{info.variant_test_name}".rstrip(".")
        sample.input = made_distinct(torch, name, sample.input)
    return made


def evenly(made: list[tuple[str, Any]], number: int, most: int) -> bool:
    """Return whether a sample is one of about ``most`` taken evenly, ``again`` and ``nan`` left out."""
    count = sum(kind not in ("again", "nan") for kind, _ in made)
    return number < count and number % max(1, count // most) == 0


def _again(torch: Any, info: Any, dtype: Any, first: list[Any], *, grad: bool) -> list[Any]:
    """Return the first sample with other numbers: what an operator returned before is wrong then."""
    if not first:
        return []
    seed(torch, 1)
    other = next(iter(info.sample_inputs_func(info, "cpu", dtype, grad)))
    other = _on_cpu(torch, other)
    shapes = [
        [leaf.shape if isinstance(leaf, torch.Tensor) else None for leaf in leaves(one)[0]]
        for one in (other, *first)
    ]
    return [other] if shapes[0] == shapes[1] else []


def _with_nan(torch: Any, info: Any, given: list[Any]) -> list[Any]:
    """Return a sample with a NaN in its input. Of decompositions none: MKL's may end the process."""
    if info.name.rpartition(".")[2] in DROP_NAN or info.name.startswith(_DECOMPOSITIONS):
        return []
    for one in _plain(torch, given):
        if one.input.is_floating_point():
            made = copy.copy(one)
            numbers = one.input.detach().clone(memory_format=torch.contiguous_format)
            numbers.view(-1)[numbers.numel() // 2] = float("nan")
            made.input = numbers.requires_grad_(one.input.requires_grad)
            return [made]
    return []


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


def _family(info: Any) -> set[str]:
    return {kind.__name__ for kind in type(info).__mro__}


def _of_shape(torch: Any, info: Any, shape: tuple[int, ...], like: Any) -> Any | None:
    """Return a sample of an elementwise operator or a reduction with tensors of one shape.

    Its numbers are those of ``like`` in another order: upstream chose them far from the edges of a domain.
    """
    families, made = _family(info), copy.copy(like)
    others = [one for one in like.args if isinstance(one, torch.Tensor)]
    if "BinaryUfuncInfo" in families:
        if len(like.args) != 1 or len(others) != 1 or others[0].shape != like.input.shape:
            return None
    elif not families & {"UnaryUfuncInfo", "ReductionOpInfo"} or others or "mask" in like.kwargs:
        return None
    chosen = torch.randint(like.input.numel(), shape)

    def spread(one: Any) -> Any:
        if "prod" in info.name and one.is_floating_point():
            return torch.empty(shape).uniform_(0.99, 1.01).to(one.dtype).requires_grad_(one.requires_grad)
        return one.detach().reshape(-1)[chosen].requires_grad_(one.requires_grad)

    made.input = spread(like.input)
    made.args = tuple(spread(one) if isinstance(one, torch.Tensor) else one for one in like.args)
    return made


def _empty(torch: Any, info: Any, given: list[Any]) -> list[Any]:
    if not given or any(_elements(torch, one) == 0 for one in given):
        return []  # upstream has one
    if "ReductionOpInfo" in _family(info) and getattr(info, "identity", None) is None:
        return []
    for one in _plain(torch, given):
        made = _of_shape(torch, info, (3, 0), one)
        if made is not None:
            return [made]
    return []


def _large(torch: Any, info: Any, given: list[Any]) -> list[Any]:
    """Return samples above 2^16 elements, in no power of two, where the operator scales.

    A reduction has one with that many results too.
    """
    found = []
    for shape in ((257, 263), *_TALL):
        for one in _plain(torch, given):
            if shape in _TALL and not _reduces(one, _TALL.index(shape)):
                continue
            made = _of_shape(torch, info, shape, one)
            if made is not None:
                found.append(made)
                break
    if found:
        return found[:2]
    made = _tiled(torch, info, given)
    return [] if made is None else [made]


def _reduces(sample: Any, dim: int) -> bool:
    """Return whether a sample of a reduction names one of two dimensions."""
    given = sample.kwargs.get("dim", sample.args[0] if sample.args else None)
    return type(given) is int and given in (dim, dim - 2)


def _plain(torch: Any, given: list[Any]) -> list[Any]:
    """Return the samples whose input is a tensor with elements, those with the fewest arguments first."""
    fit = [one for one in given if isinstance(one.input, torch.Tensor) and _is_plain(torch, one.input)]
    return sorted(fit, key=lambda one: len(one.kwargs) + len(one.args))


def _tiled(torch: Any, info: Any, given: list[Any]) -> Any | None:
    """Return a sample whose only tensor is repeated along its first dimension.

    What that does to the result is asked of the meta device: a result that grows more than the input (an
    outer product, a diagonal matrix) is none that scales.
    """
    for one in _plain(torch, given):
        tensors = [leaf for leaf in leaves(one)[0] if isinstance(leaf, torch.Tensor)]
        if len(tensors) != 1 or tensors[0] is not one.input:
            continue
        times = math.ceil((LARGE + 1) / one.input.numel())
        shape = (one.input.shape[0] * times, *one.input.shape[1:])
        if not _scales(torch, info, one, shape):
            continue
        made = copy.copy(one)
        repeated = one.input.detach().repeat(times, *(1 for _ in shape[1:]))
        # Not the same numbers again and again: whoever mixes up blocks would be right.
        made.input = repeated[torch.randperm(shape[0])].requires_grad_(one.input.requires_grad)
        return made
    return None


def _is_plain(torch: Any, tensor: Any) -> bool:
    return bool(tensor.layout == torch.strided and tensor.dim() and tensor.numel() >= 4)


def _scales(torch: Any, info: Any, sample: Any, shape: tuple[int, ...]) -> bool:
    if info.name.startswith(_DECOMPOSITIONS):
        return False
    source = torch.empty(shape, dtype=sample.input.dtype, device="meta")
    try:
        results = info.op(source, *sample.args, **sample.kwargs)
    except Exception:  # noqa: BLE001 - whatever the meta device says no with
        return False
    results = results if isinstance(results, (tuple, list)) else [results]
    sizes = [one.numel() for one in results if isinstance(one, torch.Tensor)]
    # One result for each row (unbind) takes minutes and shows nothing more.
    return 0 < len(sizes) < 17 and max(sizes) <= 4 * source.numel()


def _elements(torch: Any, sample: Any) -> int:
    return sample.input.numel() if isinstance(sample.input, torch.Tensor) else 1
