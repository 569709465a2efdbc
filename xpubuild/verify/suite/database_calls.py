"""How operators of the database are called, and what their results are made into."""

from __future__ import annotations

import contextlib
import importlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

Arguments = tuple[Any, Any, Any]


@contextlib.contextmanager
def quiet(words: str = "") -> Iterator[list[str]]:
    """Ignore what torch says about itself; yield a list that gets the warnings with certain words."""
    seen: list[str] = []

    def show(message: Any, *_args: Any, **_kwargs: Any) -> None:
        if words in str(message):
            seen.append(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always" if words else "ignore")
        warnings.showwarning = show
        yield seen


@contextlib.contextmanager
def double_by_default(torch: Any) -> Iterator[None]:
    """Make tensors in double precision where no type is given."""
    earlier = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(earlier)


def results_of(torch: Any, sample: Any, results: Any) -> list[Any]:
    """Return the tensors and numbers of results, after upstream's function that makes them comparable."""
    pytree = importlib.import_module("torch.utils._pytree")
    if sample.output_process_fn_grad is not None:
        results = sample.output_process_fn_grad(results)
    flat = pytree.tree_flatten(results)[0]
    kept = (torch.Tensor, bool, int, float, complex)
    return [
        one if isinstance(one, torch.Tensor) else torch.tensor(one) for one in flat if isinstance(one, kept)
    ]


def dense(torch: Any, tensor: Any) -> Any:
    """Return a plain tensor with the same numbers."""
    tensor = tensor.detach()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if getattr(tensor, "is_quantized", False):
        tensor = tensor.dequantize()
    return tensor.resolve_conj().resolve_neg()


def call_backward(info: Any, arguments: Arguments) -> Any:
    """Call an operator as upstream's gradient tests do."""
    source, args, kwargs = arguments
    return info.gradcheck_wrapper(info.op, source, *args, **kwargs)


def ends_of(torch: Any, results: list[Any]) -> list[Any]:
    """Return the results that gradients flow from."""
    return [one for one in results if one.requires_grad and one.layout == torch.strided]


def sources_of(torch: Any, arguments: Arguments) -> list[Any]:
    """Return the tensors among arguments that gradients flow to."""
    pytree = importlib.import_module("torch.utils._pytree")
    flat = pytree.tree_flatten(arguments)[0]
    return [one for one in flat if isinstance(one, torch.Tensor) and one.requires_grad]


def wide(torch: Any, tensor: Any) -> Any:
    """Return a tensor in double precision, if it is one of numbers that round."""
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


@contextlib.contextmanager
def own_seeds(torch: Any) -> Iterator[Callable[[int], Any]]:
    """Yield the function that seeds torch, while upstream's operators cannot: some call it themselves."""
    seed = torch.manual_seed
    torch.manual_seed = lambda _: torch.default_generator
    try:
        yield seed
    finally:
        torch.manual_seed = seed


def differ(torch: Any, one: Any, other: Any) -> bool:
    """Return whether two results differ; NaN is equal to NaN."""
    if one.shape != other.shape:
        return True
    one, other = wide(torch, one), wide(torch, other)
    return not bool(((one == other) | ((one != one) & (other != other))).all())  # noqa: PLR0124 - NaN
