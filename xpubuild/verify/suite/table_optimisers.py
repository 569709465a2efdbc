"""Optimisers in each of their forms against their definition, written out here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .cases import Case, normal, uniform

_FORMS: dict[str, dict[str, bool]] = {
    "plain": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
    "capturable": {"capturable": True, "foreach": False},
    "capturable foreach": {"capturable": True, "foreach": True},
}
_STEPS = 4


def _sgd(torch: Any, weight: Any, gradients: list[Any], o: dict[str, Any]) -> Any:
    moving = torch.zeros_like(weight)
    for step, plain in enumerate(gradients):
        gradient = plain + o["weight_decay"] * weight
        moving = o["momentum"] * moving + gradient if step else gradient
        weight = weight - o["lr"] * (gradient + o["momentum"] * moving if o.get("nesterov") else moving)
    return weight


def _adam(torch: Any, weight: Any, gradients: list[Any], o: dict[str, Any], *, apart: bool = False) -> Any:
    """Adam; AdamW where weight decay is kept apart from the gradient."""
    (one, two), decay = o["betas"], o["weight_decay"]
    first, second, largest = (torch.zeros_like(weight) for _ in range(3))
    for step, plain in enumerate(gradients, 1):
        weight = weight * (1 - o["lr"] * decay) if apart else weight
        gradient = plain if apart else plain + decay * weight
        first = one * first + (1 - one) * gradient
        second = two * second + (1 - two) * gradient.square()
        largest = torch.maximum(largest, second)
        size = largest if o.get("amsgrad") else second
        root = (size / (1 - two**step)).sqrt() + o["eps"]
        weight = weight - o["lr"] / (1 - one**step) * first / root
    return weight


def _adamw(torch: Any, weight: Any, gradients: list[Any], o: dict[str, Any]) -> Any:
    return _adam(torch, weight, gradients, o, apart=True)


_ADAM = {"lr": 0.01, "betas": (0.875, 0.9375), "eps": 1e-6, "weight_decay": 0.125}
#: Name in ``torch.optim``, its definition, its options, and the forms that it has.
_OPTIMISERS: tuple[tuple[str, Any, dict[str, Any], tuple[str, ...]], ...] = (
    ("SGD", _sgd, {"lr": 0.1, "momentum": 0.875, "weight_decay": 0.0625}, tuple(_FORMS)[:3]),
    (
        "SGD",
        _sgd,
        {"lr": 0.1, "momentum": 0.875, "weight_decay": 0.0625, "nesterov": True},
        tuple(_FORMS)[:3],
    ),
    ("Adam", _adam, _ADAM, tuple(_FORMS)),
    ("Adam", _adam, {**_ADAM, "amsgrad": True}, tuple(_FORMS)),
    ("AdamW", _adamw, _ADAM, tuple(_FORMS)),
)


def _gradients(given: tuple[Any, ...]) -> list[list[Any]]:
    """Return the gradients of each weight by step, from the second half of the inputs."""
    return [[one * (1 - 0.75 * step) for step in range(_STEPS)] for one in given[len(given) // 2 :]]


def _stepped(torch: Any, name: str, options: dict[str, Any]) -> Any:
    def call(*given: Any) -> list[Any]:
        with torch.enable_grad():
            own = [one.detach().clone().requires_grad_() for one in given[: len(given) // 2]]
        if options.get("capturable") and own[0].device.type == "cpu":
            raise NotImplementedError("capturable is for supported devices, not for the CPU")
        optimiser = getattr(torch.optim, name)(own, **options)
        gradients = _gradients(given)
        for step in range(_STEPS):
            for weight, of_weight in zip(own, gradients):
                weight.grad = of_weight[step].detach().clone()
            optimiser.step()
        return [one.detach() for one in own]

    return call


def _defined(torch: Any, definition: Any, options: dict[str, Any]) -> Any:
    def call(*given: Any) -> list[Any]:
        return [definition(torch, w, g, options) for w, g in zip(given, _gradients(given))]

    return call


def cases(torch: Any) -> Iterator[Case]:
    """Return the cases of this table."""
    # Gradients away from 0: there the first step of Adam is a sign.
    inputs = [normal(7, 33), normal(5), uniform(0.5, 2, 7, 33), uniform(0.5, 2, 5)]
    many = [normal(301, 251), normal(5), uniform(0.5, 2, 301, 251), uniform(0.5, 2, 5)]
    for number, (name, definition, options, forms) in enumerate(_OPTIMISERS):
        for form in forms:
            yield Case(
                f"{form} {name} {number}",
                _stepped(torch, name, {**options, **_FORMS[form]}),
                inputs,
                many,
                types=("float32",),
                slack=64,
                reference=_defined(torch, definition, options),
                strided=False,
                nan=False,
            )
