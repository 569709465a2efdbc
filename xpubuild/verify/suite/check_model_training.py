"""Group ``model``, training: the loss agrees with double precision, and a checkpoint is complete."""

from __future__ import annotations

import copy
import functools
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .context import SuiteContext, require
from .registry import SMOKE, check
from .tolerance import gradient_limit, network_limit, relative_error, trajectory_limit, unit_roundoff

_BATCH = 8
_SIDE = 96
#: Double precision and short types are slow on CPUs, and kernels of all sizes are the same there.
_SIDE_ON_CPU = 64
_STEPS = 3
#: Small enough for the first order to say how the loss falls.
_RATE = 0.002


@dataclass
class _Run:
    """Losses before each step and after the last, the first gradients, and how far the gradients led.

    ``fall`` holds, for each loss, how much of it the steps before took away to first order: the sum of
    gradient times change over all parameters and steps.
    """

    losses: list[float] = field(default_factory=list)
    gradients: list[Any] = field(default_factory=list)
    fall: list[float] = field(default_factory=lambda: [0.0])
    scale: float = 1.0


def _loss(torch: Any, model: Any, data: Any, target: Any, dtype: Any) -> Any:
    with torch.autocast(data.device.type, dtype=dtype, enabled=dtype is not None):
        return torch.nn.functional.cross_entropy(model(data), target)


def _train(torch: Any, model: Any, data: Any, target: Any, dtype: Any = None) -> _Run:
    """Train a few steps; ``dtype`` is that of autocast, whose gradients go through a GradScaler."""
    run = _Run()
    optimizer = torch.optim.SGD(model.parameters(), lr=_RATE, momentum=0.9)
    scaler = torch.amp.GradScaler(data.device.type, init_scale=1024.0, enabled=dtype is not None)
    model.train()
    for _ in range(_STEPS):
        optimizer.zero_grad()
        loss = _loss(torch, model, data, target, dtype)
        _backward(torch, scaler.scale(loss), model)
        scaler.unscale_(optimizer)
        run.losses.append(loss.item())
        gradients = [parameter.grad.detach().clone() for parameter in model.parameters()]
        run.gradients = run.gradients or gradients
        before = [parameter.detach().clone() for parameter in model.parameters()]
        scaler.step(optimizer)
        scaler.update()
        changes = zip(gradients, before, model.parameters())
        moved = sum(float((gradient * (old - new.detach())).sum()) for gradient, old, new in changes)
        run.fall.append(run.fall[-1] + moved)
    with torch.no_grad():
        run.losses.append(_loss(torch, model, data, target, dtype).item())
    run.scale = scaler.get_scale()
    return run


@functools.cache
def _expected(side: int) -> _Run:
    """Return the training in float64 on the CPU: the same for all checks of a process."""
    import torch

    from .workload import generated, images, labels

    data = images(_BATCH, side, seed=3).double()
    return _train(torch, copy.deepcopy(generated()).double(), data, labels(_BATCH))


def _backward(torch: Any, loss: Any, model: Any) -> None:
    """Set the gradients; in double precision by another method, so that the CPU is tested too."""
    if loss.dtype != torch.float64:
        loss.backward()
        return
    parameters = list(model.parameters())
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters)):
        parameter.grad = gradient


def _limits(context: SuiteContext, dtype: Any) -> tuple[float, float]:
    """Return the limits of the relative errors of forward and gradient."""
    from .workload import KINKS, LAYERS, WIDEST

    torch = context.torch
    stored = unit_roundoff(torch, dtype or torch.float32)
    forward = network_limit(LAYERS, WIDEST, stored, unit_roundoff(torch, torch.float32))
    return forward, gradient_limit(KINKS, forward)


def _check_training(context: SuiteContext, dtype: Any) -> None:
    torch = context.torch
    from .placement import on_device, require_placed
    from .resnet import PARAMETERS
    from .workload import build, images, labels

    context.full_precision()
    side = _SIDE_ON_CPU if context.backend.name == "cpu" else _SIDE
    model = build()
    there = copy.deepcopy(model).to(context.device)
    data = images(_BATCH, side, seed=3).to(context.device)
    target = labels(_BATCH).to(context.device)
    with on_device(context, 2 * 4 * PARAMETERS):
        found = _train(torch, there, data, target, dtype)
    require_placed(context, "parameters are", there.parameters())
    require_placed(context, "gradients are", found.gradients)
    context.metric("losses", found.losses)
    if dtype is not None:
        context.metric("scale", found.scale)
    finite = all(bool(torch.isfinite(gradient).all()) for gradient in found.gradients)
    require(finite, "a gradient is not finite")
    before = dict(model.named_parameters())
    same = [name for name, new in there.named_parameters() if torch.equal(new.cpu(), before[name])]
    require(not same, f"training did not change {', '.join(same[:3])}")
    require(found.losses[-1] < found.losses[0], f"the loss did not fall: {found.losses}")
    _compare(context, found, _expected(side), dtype)
    context.note(f"loss {found.losses[0]:.3f} to {found.losses[-1]:.3f} in {_STEPS} steps")


def _compare(context: SuiteContext, found: _Run, reference: _Run, dtype: Any) -> None:
    forward, gradient = _limits(context, dtype)
    first = reference.losses[0]
    context.within("loss_error", abs(found.losses[0] - first) / first, forward)
    both = [[one.detach().cpu().double().flatten() for one in run.gradients] for run in (found, reference)]
    error = relative_error(context.torch, *map(context.torch.cat, both))
    context.within("gradient_error", error, gradient)
    for step in range(1, _STEPS + 1):
        wanted = reference.losses[step]
        limit = trajectory_limit(wanted, forward, min(error, gradient), reference.fall[step])
        context.within(f"loss_error_after_{step}", abs(found.losses[step] - wanted), limit)


@check("model.resnet50_train_step", "resnet50 training steps, float32", suites=SMOKE, deadline_s=240)
def resnet50_train_step(context: SuiteContext) -> None:
    """Train a few steps on fixed data; losses and gradients must agree with float64 on the CPU."""
    _check_training(context, None)


@check("model.resnet50_train_amp", "resnet50 training steps, autocast with GradScaler", deadline_s=300)
def resnet50_train_amp(context: SuiteContext) -> None:
    """Train the same in float16 (bfloat16 on the CPU); the scaler's factor must not appear in the
    gradients."""
    torch = context.torch
    _check_training(context, torch.bfloat16 if context.backend.name == "cpu" else torch.float16)


@check("model.checkpoint", "a checkpoint can be loaded and training resumed")
def checkpoint(context: SuiteContext) -> None:
    """Save model and optimizer from the device, load on the CPU and on the device, and take one more step."""
    torch = context.torch
    from torch.utils._pytree import tree_flatten

    from .placement import require_placed

    torch.manual_seed(5)
    layers = (torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten(), torch.nn.Linear(288, 4))
    model = torch.nn.Sequential(*layers).to(context.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    data = torch.randn(4, 3, 8, 8).to(context.device)

    def step(network: Any, one: Any) -> None:
        one.zero_grad()
        network(data).square().mean().backward()
        one.step()

    step(model, optimizer)
    step(model, optimizer)
    saved = copy.deepcopy({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    with tempfile.TemporaryDirectory(prefix="checkpoint-") as folder:
        path = Path(folder) / "checkpoint.pt"
        torch.save(saved, path)
        context.metric("bytes", path.stat().st_size)
        loaded = {
            where: torch.load(path, map_location=where, weights_only=True)
            for where in ("cpu", context.device)
        }
    wanted, form = tree_flatten(saved)
    for where, state in loaded.items():
        found, same_form = tree_flatten(state)
        same = same_form == form and all(_same(torch, a, b) for a, b in zip(wanted, found))
        require(same, f"loaded on {where}, the state differs from what was saved")
    there = loaded[context.device]
    require_placed(context, "loaded parameters are", there["model"].values())
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    twin.load_state_dict(there["model"])
    resumed = torch.optim.AdamW(twin.parameters(), lr=0.5)
    resumed.load_state_dict(there["optimizer"])
    step(model, optimizer)
    step(twin, resumed)
    for (name, left), (_, right) in zip(model.named_parameters(), twin.named_parameters()):
        # Gradients of convolutions are summed in no fixed order on some devices.
        close = torch.allclose(left, right, rtol=1e-3, atol=1e-5)
        require(close, f"the next step after loading changes {name} differently")


def _same(torch: Any, left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor):
        return isinstance(right, torch.Tensor) and torch.equal(left.cpu(), right.cpu())
    return bool(left == right)
