"""References of the operator database, computed by another process on the CPU.

A reference is that of the ``OpInfo`` (a function of NumPy) where it has one, else torch's own on the CPU in
double precision: the inputs are those of the type under test, converted without rounding. Each comes with how
much it changes with its inputs, as in ``references.py``, so that a limit can be what a backward stable
algorithm keeps to. The same operator on the CPU in the type under test says which types results have.
"""

from __future__ import annotations

import contextlib
import importlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from .database import differentiable, name_of, objections
from .database_samples import leaves, mapped, samples
from .references import CHANGE, _moved, _rounds

#: Samples of a type for which gradients are computed; the others have forward results alone.
GRADIENTS = 4
_SEEDS = (3, 4)
#: Operators that round a quotient to the type, and then to a whole number.
_JUMPS = ("div.floor_rounding", "div.trunc_rounding", "floor_divide", "remainder", "fmod", "__rmod__")

Arguments = tuple[Any, Any, Any]


def compute(torch: Any, info: Any, dtype: Any, device: str) -> list[dict[str, Any]]:
    """Return one record for each sample: its tensors, and what is expected of them."""
    grad = differentiable(torch, info, dtype, device)
    against = objections(torch, info, dtype, device)
    with quiet():
        made = samples(torch, info, dtype, grad=grad)
        records = []
        for number, (_, sample) in enumerate(made):
            wanted = grad and number % max(1, len(made) // GRADIENTS) == 0
            records.append(_Sample(torch, info, sample).record(against, gradients=wanted))
    return records


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
def _double_by_default(torch: Any) -> Iterator[None]:
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


def pushed(
    torch: Any, sample: Any, arguments: Arguments, tangents: list[Any], call: Callable[..., Any]
) -> list[Any]:
    """Return the derivatives of results along ``tangents`` by forward-mode AD; None where one is zero."""
    forward_ad = importlib.import_module("torch.autograd.forward_ad")
    pytree = importlib.import_module("torch.utils._pytree")
    flat, structure = pytree.tree_flatten(arguments)
    left = iter(tangents)
    with forward_ad.dual_level():
        dual = [
            forward_ad.make_dual(one.detach(), next(left))
            if isinstance(one, torch.Tensor) and one.requires_grad
            else one
            for one in flat
        ]
        results = results_of(torch, sample, call(pytree.tree_unflatten(dual, structure)))
        parts = [forward_ad.unpack_dual(one).tangent for one in results]
        return [None if part is None else part.detach().clone() for part in parts]


def wide(torch: Any, tensor: Any) -> Any:
    """Return a tensor in double precision, if it is one of numbers that round."""
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


class _Sample:
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
        if gradients and self._differentiable():
            for aspect, compute_one in (("backward", self._backward), ("forward-mode", self._tangents)):
                supported = aspect == "backward" or (self.info.supports_forward_ad and self._is_wide())
                if aspect not in against and supported:
                    with contextlib.suppress(Exception):  # it has none for these arguments
                        found[aspect] = compute_one()
        return found

    def _differentiable(self) -> bool:
        return bool(sources_of(self.torch, mapped(self.torch, self.sample, lambda _, one: one)))

    def _is_wide(self) -> bool:
        """Whether no input is of a short type: upstream tests forward-mode in double precision alone."""
        short = (self.torch.float16, self.torch.bfloat16)
        return not any(one.dtype in short for one in self.tensors)

    def _jumps(self) -> bool:
        """Whether results jump where a quotient is rounded: the reference then has the same short type."""
        return name_of(self.info) in _JUMPS and not self._is_wide()

    def _arguments(self, seed: int | None = None) -> Arguments:
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
        with _double_by_default(self.torch), self.torch.no_grad():
            return results_of(self.torch, self.sample, self.info.op(source, *args, **kwargs))

    def _forward(self) -> list[dict[str, Any]]:
        torch = self.torch
        results = [dense(torch, one).clone() for one in self._run(self._arguments())]
        spreads = self._spread(results, lambda seed: self._run(self._arguments(seed)))
        own = self._numpy(results)
        made = []
        for number, (result, spread) in enumerate(zip(results, spreads)):
            entry = {"value": result, "spread": spread, "from": "cpu"}
            if own is not None:
                entry |= {"value": own[number].to(wide(torch, result).dtype), "from": "numpy"}
                entry["cpu"] = result
            made.append(entry)
        return made

    def _spread(self, values: list[Any], again: Callable[[int], list[Any]]) -> list[Any]:
        """Return how much each value changes for a relative change of 1 of the inputs; None: it does not."""
        torch = self.torch
        rounding = [one.is_floating_point() or one.is_complex() for one in values]
        spread = [torch.zeros_like(one.abs()) if rounds else None for one, rounds in zip(values, rounding)]
        for seed in _SEEDS if any(rounding) else ():
            try:
                moved = again(seed)
            except Exception:  # noqa: BLE001 - inputs at the edge of a domain cannot be moved
                return [None for _ in values]
            for number, (one, other) in enumerate(zip(values, moved)):
                if spread[number] is None or one.shape != other.shape:
                    continue
                change = (dense(torch, other) - one).abs() / CHANGE
                spread[number] = torch.maximum(spread[number], torch.nan_to_num(change, 0.0, 0.0, 0.0))
        return spread

    def _numpy(self, results: list[Any]) -> list[Any] | None:
        """Return the results of the ``OpInfo``'s own reference; None where it is for other arguments."""
        if self.info.ref is None or self._jumps():
            return None
        torch, made = self.torch, type(self.sample)
        source, args, kwargs = self._arguments()
        try:
            arrays = made(source, args=args, kwargs=kwargs).numpy()
            found = self.info.ref(arrays.input, *arrays.args, **arrays.kwargs)
            found = found if isinstance(found, (tuple, list)) else [found]
            own = [torch.as_tensor(one) for one in found]
        except Exception:  # noqa: BLE001 - it is for other arguments
            return None
        fits = len(own) == len(results) and all(a.shape == b.shape for a, b in zip(own, results))
        # Of int8 NumPy makes float16: such a reference would be coarser than what is compared with it.
        same = fits and all(
            a.dtype == b.dtype or not (_rounds(a) or _rounds(b)) for a, b in zip(own, results)
        )
        return own if same else None

    def _types(self) -> tuple[list[str] | None, bool]:
        """Return the results' types on the CPU, and whether two runs differ: random or not initialised."""
        torch = self.torch
        runs = []
        try:
            with _own_seeds(torch) as choose:
                for seed in _SEEDS:
                    choose(seed)
                    source, args, kwargs = mapped(torch, self.sample, lambda _, one: one.detach().clone())
                    with torch.no_grad():
                        runs.append(results_of(torch, self.sample, self.info.op(source, *args, **kwargs)))
        except Exception:  # noqa: BLE001 - the CPU need not have this type
            return None, False
        pairs = [(dense(torch, a), dense(torch, b)) for a, b in zip(*runs)]
        return [str(one.dtype).partition(".")[2] for one in runs[0]], any(
            _differ(torch, *pair) for pair in pairs
        )

    def _weights(self, tensors: list[Any], first: int) -> list[Any]:
        """Return random multiples of 1/4 in the form of tensors, which every type holds."""
        torch = self.torch
        made = []
        for number, one in enumerate(tensors):
            generator = torch.Generator().manual_seed(first + number)
            parts = [torch.randint(-4, 5, one.shape, generator=generator).double() / 4 for _ in range(2)]
            made.append(torch.complex(*parts) if one.is_complex() else parts[0])
        return made

    def _backward(self) -> dict[str, Any]:
        torch = self.torch
        weights: list[Any] = []

        def gradients(seed: int | None = None) -> list[Any]:
            arguments = self._arguments(seed)
            with _double_by_default(torch):
                ends = ends_of(torch, results_of(torch, self.sample, call_backward(self.info, arguments)))
                weights[:] = weights or self._weights(ends, 977)
                given = self._moved_weights(weights, seed)
                found = torch.autograd.grad(ends, sources_of(torch, arguments), given, allow_unused=True)
            return [torch.zeros(()) if one is None else dense(torch, one) for one in found]

        return self._expected(weights, gradients)

    def _tangents(self) -> dict[str, Any]:
        torch = self.torch
        weights = self._weights(sources_of(torch, self._arguments()), 1977)

        def derivatives(seed: int | None = None) -> list[Any]:
            given = self._moved_weights(weights, seed)
            with _double_by_default(torch):
                call = lambda arguments: call_backward(self.info, arguments)  # noqa: E731
                found = pushed(torch, self.sample, self._arguments(seed), given, call)
            return [torch.zeros(()) if one is None else dense(torch, one) for one in found]

        return self._expected(weights, derivatives)

    def _moved_weights(self, weights: list[Any], seed: int | None) -> list[Any]:
        if seed is None:
            return weights
        return [_moved(self.torch, one, 7000 + 100 * number + seed) for number, one in enumerate(weights)]

    def _expected(self, weights: list[Any], compute_one: Callable[..., list[Any]]) -> dict[str, Any]:
        values = [one.clone() for one in compute_one()]  # no two of them on one memory
        spreads = self._spread(values, compute_one)
        pairs = zip(values, spreads)
        weights = [one.clone() for one in weights]
        return {"weights": weights, "values": [{"value": one, "spread": spread} for one, spread in pairs]}


@contextlib.contextmanager
def _own_seeds(torch: Any) -> Iterator[Callable[[int], Any]]:
    """Yield the function that seeds torch, while upstream's operators cannot: some call it themselves."""
    seed = torch.manual_seed
    torch.manual_seed = lambda _: torch.default_generator
    try:
        yield seed
    finally:
        torch.manual_seed = seed


def _differ(torch: Any, one: Any, other: Any) -> bool:
    if one.shape != other.shape:
        return True
    one, other = wide(torch, one), wide(torch, other)
    return not bool(((one == other) | ((one != one) & (other != other))).all())  # noqa: PLR0124 - NaN


def _wider(types: dict[Any, Any], torch: Any, one: Any) -> Any:
    return types.get(one, one) if isinstance(one, torch.dtype) else one
