"""Cases of the operator tables: what is called, with which inputs, and how they are made.

Inputs are described in a text, one word for each, and ``make`` builds them on the CPU from a seed: ``n3x67``
are normally distributed numbers of that shape, ``u-3:3@3x67`` uniform ones between two bounds, ``n5x7*3``
three such inputs; ``KINDS`` has all letters. Numbers have 8 significant bits, so that float64, float32,
bfloat16 and float16 hold the same ones and share one reference.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

#: Cases by kind of type: what most operators have, and what FFT and linear algebra have.
SHORT_TOO = ("float32", "float16", "bfloat16")
LONG_ONLY = ("float32", "float64")
#: Letter of a word -> kind of numbers. ``integers`` are in int64, from the lower bound up to below the upper
#: one, as ``whole`` ones are in a floating-point type. ``distinct`` differ along the last dimension (at most
#: 256 there), ``ranked`` everywhere: too many for short types. Matrices are ``positive`` definite with
#: condition numbers below 10, or ``regular`` ones with a dominant diagonal. Half of ``booleans`` are true.
KINDS = {
    "n": "normal", "u": "uniform", "i": "integers", "b": "booleans", "w": "whole", "c": "complexes",
    "d": "distinct", "r": "ranked", "p": "positive", "m": "regular",
}  # fmt: skip
_WORD = re.compile(r"([a-z])(?:([-.\d]+):([-.\d]+)@)?([\dx]*)(?:\*(\d+))?")


@dataclass(frozen=True)
class Input:
    """One input: ``kind`` of numbers, its shape, and the numbers' range or how many integers there are."""

    kind: str
    shape: tuple[int, ...]
    low: float = 0.0
    high: float = 1.0


@functools.cache
def described(text: str) -> tuple[Input, ...]:
    """Return the inputs that a text describes; a word of another form is a ValueError."""
    found: list[Input] = []
    for word in text.split():
        match = _WORD.fullmatch(word)
        if match is None:
            raise ValueError(f"{word!r} describes no input")
        kind, low, high, shape, times = match.groups()
        sizes = tuple(int(size) for size in shape.split("x") if size)
        found += [Input(KINDS[kind], sizes, float(low or 0), float(high or 1))] * int(times or 1)
    return tuple(found)


def make(torch: Any, described: Input, seed: int) -> Any:  # noqa: PLR0911 - one for each kind
    """Return the tensor that is described: float64, complex128, int64 or bool, on the CPU."""
    generator = torch.Generator().manual_seed(seed)
    shape, kind = described.shape, described.kind
    if kind == "integers":
        return torch.randint(int(described.low), int(described.high), shape, generator=generator)
    if kind == "booleans":
        return torch.randint(0, 2, shape, generator=generator).bool()
    if kind == "uniform":
        unit = torch.rand(shape, generator=generator, dtype=torch.float64)
        return few_bits(torch, described.low + (described.high - described.low) * unit)
    if kind == "distinct":
        order = torch.rand(shape, generator=generator).argsort(-1)
        return order.double() - shape[-1] // 2
    if kind == "ranked":
        count = math.prod(shape)
        return torch.randperm(count, generator=generator).reshape(shape).double() - count // 2
    if kind == "whole":
        return torch.randint(int(described.low), int(described.high), shape, generator=generator).double()
    plain = torch.randn(shape, generator=generator, dtype=torch.float64)
    if kind == "complexes":
        imaginary = torch.randn(shape, generator=generator, dtype=torch.float64)
        return torch.complex(few_bits(torch, plain), few_bits(torch, imaginary))
    if kind == "normal":
        return few_bits(torch, plain)
    size = shape[-1]
    if kind == "positive":
        square = few_bits(torch, plain @ plain.mT / (2 * size))
        plain = torch.tril(square) + torch.tril(square, -1).mT
        return plain + torch.eye(size, dtype=torch.float64)
    return few_bits(torch, plain) + 2 * round(size**0.5) * torch.eye(size, dtype=torch.float64)


def few_bits(torch: Any, numbers: Any) -> Any:
    """Round to 8 significant bits."""
    return numbers.to(torch.bfloat16).double()


Call = Callable[..., Any]
#: The set of inputs with which NaN arrives at the results in the backward pass.
NAN_GRADIENT = "nan gradient"
#: The set whose first floating-point input is NaN as a whole, for where one NaN need not arrive.
ALL_NAN = "all nan"


@dataclass(frozen=True)
class Case:
    """One operator in one use.

    Attributes:
        name: shown where it fails; unique in its table.
        call: computes the results from the inputs.
        inputs: describes the inputs of the plain run.
        large: the same with more than 2^16 elements; empty where it has none.
        types: dtypes for the floating-point inputs.
        grad: gradients of floating-point inputs are compared too.
        exact: the operator moves or compares, and rounds nothing: results have to be equal.
        slack: factor on the limits, for algorithms with several roundings or long sums, and for float32
            accumulation in an unlucky order.
        reference: computes the reference instead of ``call``.
        nan: with a NaN in the first floating-point input, results that depend on it have to be NaN; with
            ``ALL_NAN`` only that input as a whole is NaN, since which results depend on one is not defined.
        strided: also with inputs that are not contiguous.
        ways: the plain inputs also in these ways (``ways.py``).
    """

    name: str
    call: Call
    inputs: str
    large: str = ""
    types: tuple[str, ...] = SHORT_TOO
    grad: bool = False
    exact: bool = False
    slack: float = 1.0
    reference: Call | None = None
    nan: bool | str = True
    strided: bool = True
    ways: tuple[str, ...] = ()


#: Options that rows share.
GRAD: dict[str, Any] = {"grad": True}
EXACT: dict[str, Any] = {"exact": True}
NO_NAN: dict[str, Any] = {"nan": False}
LONG: dict[str, Any] = {"types": LONG_ONLY}
SINGLE: dict[str, Any] = {"types": ("float32",)}


def slack(factor: float) -> dict[str, Any]:
    """Return the option for a factor on the limits."""
    return {"slack": factor}


def named(home: Any, path: str, *more: Any, **options: Any) -> Call:
    """Return a call of ``path`` (such as ``linalg.inv``), looked up when it runs: a torch may lack it."""

    def call(*given: Any) -> Any:
        return functools.reduce(getattr, path.split("."), home)(*given, *more, **options)

    return call


def rows(torch: Any, *table: tuple[Any, ...], **usual: Any) -> Iterator[Case]:
    """Return a case for each row: name, call, inputs, large inputs if it has some, and options.

    A call that is a text is looked up in torch; an empty one has the case's name. ``usual`` are options of
    all rows, which those of a row replace.
    """
    for name, call, inputs, *more in table:
        large = "".join(one for one in more if isinstance(one, str))
        options = {key: value for one in more if isinstance(one, dict) for key, value in one.items()}
        function = named(torch, call or name) if isinstance(call, str) else call
        yield Case(name, function, inputs, large, **{**usual, **options})


def prepared(torch: Any, case: Case, variant: str) -> list[Any]:
    """Return a variant's inputs: ``plain`` and those of ``variants``, most with the same shapes."""
    first = sum(map(ord, case.name)) * 31 + {"other": 7, "large": 13}.get(variant, 0)
    made = [
        make(torch, one, first + number)
        for number, one in enumerate(described(case.large if variant == "large" else case.inputs))
    ]
    if variant in ("nan", ALL_NAN):
        target = next(tensor for tensor in made if tensor.is_floating_point() or tensor.is_complex())
        places = slice(None) if variant == ALL_NAN else target.numel() // 2
        target.view(-1)[places] = float("nan")
    return made


def variants(case: Case) -> list[str]:
    """Return the names of a case's input sets."""
    floating = any(one.kind not in ("integers", "booleans") for one in described(case.inputs))
    named = (
        ("plain", True), ("other", True), ("large", case.large), ("nan", case.nan is True and floating),
        (ALL_NAN, case.nan and floating), (NAN_GRADIENT, case.grad),
    )  # fmt: skip
    return [name for name, present in named if present]


def evaluate(
    torch: Any, call: Call, tensors: Sequence[Any], *, grad: bool, moved: Call | None = None
) -> tuple[list[Any], list[Any]]:
    """Return the results of a call and the gradients of its floating-point inputs, which ``grad`` asks for.

    The gradients that arrive at the results are random, and the same on each device; ``moved`` changes them.
    """
    if not grad:
        with torch.no_grad():
            return flat(call(*tensors)), []
    leaves = [tensor.detach().requires_grad_(_differentiable(tensor)) for tensor in tensors]
    results = flat(call(*leaves))
    ends = [result for result in results if result.requires_grad]
    weights = []
    for number, result in enumerate(ends):
        kind = "complexes" if result.is_complex() else "normal"
        weight = make(torch, Input(kind, tuple(result.shape)), 977 + number).to(
            device=result.device, dtype=result.dtype
        )
        weights.append(weight if moved is None else moved(weight))
    sources = [leaf for leaf in leaves if leaf.requires_grad]
    found = torch.autograd.grad(ends, sources, weights, allow_unused=True)
    return [result.detach() for result in results], [one for one in found if one is not None]


def _differentiable(tensor: Any) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())


def flat(results: Any) -> list[Any]:
    """Return the tensors in nested tuples and lists."""
    if isinstance(results, (tuple, list)):
        return [tensor for part in results for tensor in flat(part)]
    return [results]
