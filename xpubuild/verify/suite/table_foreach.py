"""Foreach operators: on lists of tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .cases import LONG_ONLY, Case, Input, uniform

#: Foreach operators: of one list, of two lists.
_LISTS = (
    "abs",
    "neg",
    "exp",
    "log",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sigmoid",
    "tanh",
    "sin",
    "cos",
    "floor",
    "ceil",
    "round",
    "trunc",
    "erf",
    "erfc",
    "expm1",
    "log1p",
    "log2",
    "log10",
    "lgamma",
    "sinh",
    "cosh",
    "tan",
    "atan",
    "frac",
    "sign",
)
_PAIRS = ("add", "sub", "mul", "div", "maximum", "minimum", "pow")


def _lists(torch: Any) -> Iterator[Case]:
    small: Sequence[Input] = [uniform(0.6, 2, 7, 33), uniform(0.6, 2, 5), uniform(0.6, 2, 3, 4, 9)]
    many: Sequence[Input] = [uniform(0.6, 2, 301, 251), uniform(0.6, 2, 70001), uniform(0.6, 2, 3)]
    for name in _LISTS:
        yield Case(
            f"foreach {name}",
            lambda *given, n=name: _foreach(torch, n)(list(given)),
            small,
            many,
            slack=64 if name == "lgamma" else 8,
            types=LONG_ONLY if name == "lgamma" else ("float32", "bfloat16", "float16"),
            nan=name != "sign",
        )
        if name != "sign":
            yield Case(
                f"foreach {name}_",
                lambda *given, n=name: _changed(torch, n, given),
                small,
                slack=64 if name == "lgamma" else 8,
                types=("float32",),
            )
    for name in _PAIRS:
        for how, call in (("", _with_list), (" scalar", _with_scalar), (" scalars", _with_scalars)):
            yield Case(
                f"foreach {name}{how}",
                lambda *given, n=name, c=call: c(_foreach(torch, n), list(given)),
                small,
                many,
                slack=8,
            )
        yield Case(
            f"foreach {name}_",
            lambda *given, n=name: _changed(torch, n, given, list(given)),
            small,
            many,
            slack=8,
        )
    yield Case(
        "foreach add tensor", lambda *g: torch._foreach_add(list(g), g[0].flatten()[1]), small, slack=4
    )
    yield Case(
        "foreach mul tensor", lambda *g: torch._foreach_mul(list(g), g[0].flatten()[1]), small, many, slack=4
    )
    yield Case(
        "foreach lerp",
        lambda *g: torch._foreach_lerp(list(g), [one * 2 for one in g], 0.3),
        small,
        many,
        slack=8,
    )
    yield Case(
        "foreach addcmul",
        lambda *g: torch._foreach_addcmul(list(g), list(g), list(g), 0.5),
        small,
        many,
        slack=8,
    )
    yield Case(
        "foreach addcdiv",
        lambda *g: torch._foreach_addcdiv(list(g), list(g), list(g), [0.5, 1, 2]),
        small,
        many,
        slack=8,
    )
    yield Case(
        "foreach addcmul_",
        lambda *g: _changed(torch, "addcmul", g, list(g), list(g), 0.5),
        small,
        many,
        slack=8,
    )
    yield Case(
        "foreach addcdiv_",
        lambda *g: _changed(torch, "addcdiv", g, list(g), list(g), 0.5),
        small,
        many,
        slack=8,
    )
    yield Case(
        "foreach lerp_",
        lambda *g: _changed(torch, "lerp", g, [one * 2 for one in g], 0.3),
        small,
        many,
        slack=8,
    )
    yield Case("foreach norm", lambda *g: torch._foreach_norm(list(g), 2), small, many, slack=8)
    yield Case("foreach norm 1", lambda *g: torch._foreach_norm(list(g), 1), small, many, slack=8)
    yield Case("foreach max", lambda *g: torch._foreach_max(list(g)), small, many, exact=True)
    yield Case("foreach zero_", lambda *g: _changed(torch, "zero", g), small, many, exact=True, nan=False)
    yield Case(
        "foreach copy_",
        lambda *g: _changed(torch, "copy", [one * 0 for one in g], list(g)),
        small,
        many,
        exact=True,
    )
    yield Case("clip_grad_norm_", lambda *g: _clipped(torch, g), small, many, slack=64)


def _foreach(torch: Any, name: str) -> Any:
    return getattr(torch, f"_foreach_{name}")


def _with_list(function: Any, given: list[Any]) -> Any:
    return function(given, [one + 0.5 for one in given])


def _with_scalar(function: Any, given: list[Any]) -> Any:
    return function(given, 1.25)


def _with_scalars(function: Any, given: list[Any]) -> Any:
    return function(given, [1.25, 0.75, 2.0])


def _changed(torch: Any, name: str, given: Sequence[Any], *more: Any) -> list[Any]:
    own = [one.clone() for one in given]
    _foreach(torch, f"{name}_")(own, *more)
    return own


def _clipped(torch: Any, given: Sequence[Any]) -> list[Any]:
    with torch.enable_grad():
        own = [one.detach().clone().requires_grad_() for one in given]
    for one, gradient in zip(own, given):
        one.grad = gradient.clone()
    total = torch.nn.utils.clip_grad_norm_(own, 1.5)
    return [total, *(one.grad for one in own)]


def cases(torch: Any) -> Iterator[Case]:
    """Return the cases of this table."""
    yield from _lists(torch)
