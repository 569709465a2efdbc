"""Group ``operators``: random numbers by their statistics, repeatable results, and GradScaler's skips."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .context import SuiteContext, require
from .registry import check
from .tolerance import CONFIDENCE

#: Numbers of a draw: in 64 blocks of 2^14, so that one that is wrong from 2^16 on is seen.
_BLOCKS, _BLOCK = 64, 2**14


def _draws(context: SuiteContext, dtype: Any) -> dict[str, tuple[Callable[[], Any], float, float, float]]:
    """Return how to draw, with the mean, the variance and the fourth central moment of each distribution."""
    torch = context.torch
    # Short types have fewer: of more, the mean of what 8 bits round is no longer near enough.
    size = (_BLOCKS if dtype == torch.float32 else _BLOCKS // 4, _BLOCK)
    like = torch.empty(size, dtype=dtype, device=context.device)
    third, functional = torch.full_like(like, 0.3), torch.nn.functional
    uniform = (0.5, 1 / 12, 1 / 80)
    chance = (0.3, 0.21, 0.21 * (1 - 3 * 0.21))
    return {
        "rand": (lambda: torch.rand_like(like), *uniform),
        "uniform_": (lambda: like.clone().uniform_(-1, 3), 1.0, 16 / 12, 256 / 80),
        "randn": (lambda: torch.randn_like(like), 0.0, 1.0, 3.0),
        "normal_": (lambda: like.clone().normal_(2, 3), 2.0, 9.0, 243.0),
        "normal": (lambda: torch.normal(third, 2.0), 0.3, 4.0, 48.0),
        "exponential_": (lambda: like.clone().exponential_(2.0), 0.5, 0.25, 9 / 16),
        "bernoulli": (lambda: torch.bernoulli(third), *chance),
        "bernoulli_": (lambda: like.clone().bernoulli_(0.3), *chance),
        "dropout": (lambda: functional.dropout(like.clone().fill_(0.75), 0.25), 0.75, 0.1875, 0.0820),
        "randint": (lambda: torch.randint_like(like, 0, 101), 50.0, 850.0, 1300330.0),
    }


def _more_draws(context: SuiteContext) -> dict[str, tuple[Callable[[], Any], float, float, float]]:
    """Return those that a device has in float32 alone."""
    torch, size, device = context.torch, (_BLOCKS, _BLOCK), context.device

    def of(name: str, *bounds: int) -> Any:
        """Draw by a new generator, whose seed is the next number of the default one."""
        generator = torch.Generator(device).manual_seed(int(torch.randint(2**30, ())))
        return getattr(torch, name)(*bounds, size, device=device, generator=generator)

    like = torch.ones(size, device=context.device)
    heads, many = torch.tensor([0.1, 0.2, 0.7], device=context.device).expand(_BLOCKS, 3), torch.multinomial
    return {
        "rand by a generator": (lambda: of("rand"), 0.5, 1 / 12, 1 / 80),
        "randn by a generator": (lambda: of("randn"), 0.0, 1.0, 3.0),
        "randint by a generator": (lambda: of("randint", 0, 101), 50.0, 850.0, 1300330.0),
        "neighbours of randn": (lambda: _neighbours(torch.randn_like(like)), 0.0, 1.0, 9.0),
        "log_normal_": (lambda: like.clone().log_normal_(0, 0.25).log(), 0.0, 0.0625, 3 * 0.0625**2),
        "geometric_": (lambda: like.clone().geometric_(0.5), 2.0, 2.0, 26.0),
        "cauchy_": (lambda: like.clone().cauchy_().atan(), 0.0, math.pi**2 / 12, math.pi**4 / 80),
        "poisson": (lambda: torch.poisson(like * 4), 4.0, 4.0, 52.0),
        "gamma": (lambda: torch._standard_gamma(like * 3), 3.0, 3.0, 45.0),
        "binomial": (lambda: torch.binomial(like * 10, like * 0.3), 3.0, 2.1, 12.684),
        "multinomial": (lambda: many(heads, _BLOCK, replacement=True).float(), 1.6, 0.44, 0.4832),
    }


def _neighbours(drawn: Any) -> Any:
    return drawn[:, :-1] * drawn[:, 1:]


def _unlikely(drawn: Any, mean: float, variance: float, fourth: float) -> str | None:
    """Return which statistic of all numbers, or of a block, is too far from its expectation."""
    numbers = drawn.detach().cpu().double()
    for name, part in (("all", numbers.reshape(1, -1)), ("a block", numbers)):
        count = part.shape[1]
        for what, found, wanted, spread in (
            ("mean", part.mean(1), mean, math.sqrt(variance)),
            ("variance", (part - mean).square().mean(1), variance, math.sqrt(fourth - variance**2)),
        ):
            off = float(((found - wanted).abs() / (spread / math.sqrt(count) + 1e-3 * abs(wanted))).max())
            if not off <= CONFIDENCE:
                return f"the {what} of {name} is off by {off:.3g} of its deviations"
    return None


@check("operators.random", "random numbers have the statistics of their distributions")
def random(context: SuiteContext) -> None:
    """Compare mean and variance of all numbers and of blocks; two draws differ, and a seed repeats one."""
    torch = context.torch
    groups = [(torch.float32, _more_draws(context))]
    groups += [(dtype, _draws(context, dtype)) for dtype in (torch.float32, torch.bfloat16)]
    for dtype, draws in groups:
        for name, (draw, *moments) in draws.items():
            if dtype == torch.bfloat16 and name in ("exponential_", "randint", "normal_"):
                continue  # 8 bits hold too few of their values
            torch.manual_seed(2026)
            first, second = draw(), draw()
            torch.manual_seed(2026)
            require(torch.equal(first, draw()), f"{name}: the same seed gives other numbers")
            require(not torch.equal(first, second), f"{name}: the next numbers are the same")
            for drawn in (first, second):
                problem = _unlikely(drawn, *moments)
                require(problem is None, f"{name} of {dtype}: {problem}")
                outside = name in ("rand", "rand by a generator") and bool(((drawn < 0) | (drawn >= 1)).any())
                require(not outside or dtype != torch.float32, "rand gives numbers outside of [0, 1)")
    _permutations(context)


def _permutations(context: SuiteContext) -> None:
    torch = context.torch
    for count, dtype in ((100, torch.float16), (100, torch.int64), (70001, torch.int64)):
        one, two = (torch.randperm(count, device=context.device, dtype=dtype).cpu().long() for _ in range(2))
        require(torch.equal(one.sort()[0], torch.arange(count)), f"randperm({count}) is no permutation")
        require(not torch.equal(one, two), f"randperm({count}) gives the same order twice")
        moved = float((one - torch.arange(count)).abs().double().mean()) / count
        require(abs(moved - 1 / 3) < 0.15, f"randperm({count}) moves elements by {moved:.2g} of its length")
    picked = torch.multinomial(torch.ones(50, device=context.device), 50).cpu()
    require(torch.equal(picked.sort()[0], torch.arange(50)), "multinomial without replacement repeats")
    ones = torch.ones(300, 301, device=context.device, requires_grad=True)
    kept = torch.nn.functional.dropout(ones, 0.4)
    (gradient,) = torch.autograd.grad(kept.sum(), ones)
    require(torch.equal(kept.detach(), gradient), "the gradient of dropout has another mask")


@check("operators.grad_scaler", "GradScaler skips a step whose gradients overflow")
def grad_scaler(context: SuiteContext) -> None:
    """Step with finite gradients, then with an infinite one: weights stay, the scale is halved."""
    torch = context.torch
    if not hasattr(torch.amp, "GradScaler"):
        return context.note("this torch has no torch.amp.GradScaler")
    weight = torch.linspace(-1, 1, 70001).to(context.device).requires_grad_()
    optimiser = torch.optim.SGD([weight], lr=0.5)
    scaler = torch.amp.GradScaler(context.backend.name, init_scale=1024.0, growth_interval=2)
    for gradient, wanted_scale in ((2.0, 1024.0), (float("inf"), 512.0), (float("nan"), 256.0), (1.0, 256.0)):
        before = weight.detach().cpu().clone()
        arrived = torch.full_like(weight, gradient if math.isfinite(gradient) else 1.0)
        arrived[-3] = gradient
        weight.grad = arrived * scaler.scale(torch.ones((), device=context.device))
        scaler.step(optimiser)
        scaler.update()
        after = weight.detach().cpu()
        moved = before - 0.5 * arrived.cpu() if math.isfinite(gradient) else before
        require(torch.allclose(after, moved, rtol=0, atol=1e-6), f"a step with gradient {gradient} is wrong")
        scale = scaler.get_scale()
        require(scale == wanted_scale, f"the scale after gradient {gradient} is {scale}, not {wanted_scale}")
    return None
