"""What changes tensors in place, and optimisers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .cases import SHORT_TOO, Case, normal, uniform

_TWO = [uniform(0.3, 3, 7, 33), uniform(0.3, 3, 7, 33)]
_MANY = [uniform(0.3, 3, 301, 251), uniform(0.3, 3, 301, 251)]
#: Methods with ``_``, with their arguments after the second tensor.
_IN_PLACE: dict[str, tuple[Any, ...]] = {
    "add_": (), "sub_": (), "mul_": (), "div_": (), "pow_": (), "copysign_": (), "copy_": (), "atan2_": (),
    "lerp_": (0.3,), "fmod_": (), "remainder_": (), "hypot_": (),
}  # fmt: skip
_ALONE = (
    "exp_",
    "log_",
    "sqrt_",
    "rsqrt_",
    "tanh_",
    "sigmoid_",
    "neg_",
    "abs_",
    "relu_",
    "floor_",
    "ceil_",
    "round_",
    "reciprocal_",
    "erf_",
    "sin_",
    "cos_",
    "trunc_",
    "square_",
    "zero_",
    "log1p_",
    "expm1_",
    "atan_",
)
_OUT = ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "atan2", "matmul")
_OPTIMISERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1}),
    ("Adam", {"lr": 0.01, "amsgrad": True}),
    ("AdamW", {"lr": 0.01, "weight_decay": 0.1}),
    ("Adagrad", {"lr": 0.05}),
    ("RMSprop", {"lr": 0.01, "momentum": 0.5, "centered": True}),
    ("Adadelta", {"lr": 0.5}),
    ("Adamax", {"lr": 0.01}),
    ("NAdam", {"lr": 0.01}),
    ("RAdam", {"lr": 0.01}),
    ("ASGD", {"lr": 0.05}),
    ("Rprop", {"lr": 0.01}),
)
_FUSED = ("SGD", "Adam", "AdamW")
#: In short types, SGD of the CPU skips whole vectors of elements: https://github.com/pytorch/pytorch/issues/191763
_FUSED_IN_FLOAT32 = ("SGD",)


def _places(torch: Any) -> Iterator[Case]:
    for name, more in _IN_PLACE.items():
        yield Case(
            name,
            lambda a, b, n=name, m=more: getattr(a.clone(), n)(b, *m),
            _TWO,
            _MANY,
            slack=8,
            nan=name != "copysign_",
        )
    for name in _ALONE:
        yield Case(
            name, lambda a, n=name: getattr(a.clone(), n)(), _TWO[:1], _MANY[:1], slack=8, nan=name != "zero_"
        )
    for name in _OUT:
        square = [normal(33, 33), normal(33, 33)] if name == "matmul" else _TWO
        yield Case(
            f"{name} out",
            lambda a, b, n=name: getattr(torch, n)(a, b, out=torch.full_like(a, 9)),
            square,
            slack=8,
        )
    yield Case("strided out", lambda a, b: torch.add(a, b, out=a.new_zeros(33, 14).t()[::2]), _TWO)
    yield Case("addcmul_", lambda a, b: a.clone().addcmul_(a, b, value=0.5), _TWO, _MANY, slack=4)
    yield Case("addcdiv_", lambda a, b: a.clone().addcdiv_(a, b, value=0.5), _TWO, _MANY, slack=4)
    yield Case(
        "add_ with a scalar",
        lambda a: a.clone().add_(1.5).mul_(2).div_(3).sub_(0.5),
        _TWO[:1],
        _MANY[:1],
        slack=4,
    )
    yield Case("clamp_", lambda a: a.clone().clamp_(0.5, 2), _TWO[:1], _MANY[:1], exact=True)
    yield Case("fill_", lambda a: a.clone().fill_(2.5), _TWO[:1], _MANY[:1], exact=True, nan=False)
    yield Case(
        "masked_fill_",
        lambda a: a.clone().masked_fill_(a > 1, 2.5),
        _TWO[:1],
        _MANY[:1],
        exact=True,
        nan=False,
    )
    yield Case("setting a slice", _set_slices, _TWO, _MANY, exact=True, nan=False)
    yield Case(
        "addmm_",
        lambda a, b: a.clone().addmm_(a, b, beta=0.5),
        [normal(33, 33)] * 2,
        [normal(270, 270)] * 2,
        slack=2,
    )
    yield Case("cumsum_", lambda a: a.clone().cumsum_(1), _TWO[:1], _MANY[:1], slack=4)
    yield Case(
        "index_add_",
        lambda a, b: a.clone().index_add_(0, torch.arange(len(a), device=a.device) // 2, b),
        _TWO,
        _MANY,
        slack=4,
    )


def _set_slices(a: Any, b: Any) -> Any:
    changed = a.clone()
    changed[1::2, ::3] = b[1::2, ::3]
    changed[0] = 2.5
    changed[a > 2] = -1.0
    return changed


def _optimisers(torch: Any) -> Iterator[Case]:
    shapes = [normal(7, 33), normal(5), uniform(0.5, 2, 7, 33), uniform(0.5, 2, 5)]
    many = [normal(301, 251), normal(70001), uniform(0.5, 2, 301, 251), uniform(0.5, 2, 70001)]
    for number, (name, options) in enumerate(_OPTIMISERS):
        kinds = ("foreach", "fused") if name in _FUSED else ("foreach",)
        for kind in (*kinds, "single"):
            yield Case(
                f"{kind} {name} {number}",
                _stepped(torch, name, {**options, **_kind(kind)}),
                shapes,
                many,
                types=SHORT_TOO if kind == "fused" and name not in _FUSED_IN_FLOAT32 else ("float32",),
                slack=64,
                reference=_stepped(torch, name, {**options, **_kind("single")}),
            )


def _kind(name: str) -> dict[str, bool]:
    return {"foreach": False} if name == "single" else {name: True}


def _stepped(torch: Any, name: str, options: dict[str, Any]) -> Any:
    """Return a call that takes parameters, then as many gradients, and makes three steps."""

    def call(*given: Any) -> list[Any]:
        half = len(given) // 2
        with torch.enable_grad():
            own = [one.detach().clone().requires_grad_() for one in given[:half]]
        optimiser = getattr(torch.optim, name)(own, **options)
        for step in range(3):
            for one, gradient in zip(own, given[half:]):
                one.grad = gradient * (1 + step)
            optimiser.step()
        return [one.detach() for one in own]

    return call


def cases(torch: Any) -> Iterator[Case]:
    """Return the cases of this table."""
    yield from _places(torch)
    yield from _optimisers(torch)
