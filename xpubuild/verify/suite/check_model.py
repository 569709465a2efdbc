"""Group ``model``: a whole network, forward and in training, against a double-precision run on the CPU."""

from __future__ import annotations

import copy
from typing import Any

from .context import Context, require
from .registry import FULL, check
from .tolerance import gradient_limit, network_limit, relative_error, unit_roundoff

_SIDE = 224
_TRAIN_BATCH = 8
_TRAIN_SIDE = 96
_STEPS = 3
_RATE = 0.02


def _parameter_bytes(model: Any) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())


def _first_activation_bytes(batch: int, side: int) -> int:
    """Return the size of what the first convolution makes (64 channels, half the side), in a 2-byte type."""
    return batch * 64 * (side // 2) ** 2 * 2


def _infer(context: Context, dtype: Any) -> None:
    """Run inference under autocast to ``dtype`` (None: without) and compare it with float64 on the CPU."""
    torch = context.torch
    from .placement import DeviceMemory, require_placed
    from .workload import LAYERS, WIDEST, build, images

    context.full_precision()
    model = build(context)
    batch = images(2, _SIDE, seed=2)
    with torch.inference_mode():
        reference = copy.deepcopy(model).double()(batch.double())
        there, data = copy.deepcopy(model).to(context.device), batch.to(context.device)
        with (
            DeviceMemory(context, _first_activation_bytes(2, _SIDE)),
            torch.autocast(context.backend.name, dtype=dtype, enabled=dtype is not None),
        ):
            result, again, single = there(data), there(data), there(data[:1])
    require_placed(context, "parameters are", there.parameters())
    require_placed(context, "the output is", (result, again, single))
    require(tuple(result.shape) == (2, 1000), f"the output has shape {tuple(result.shape)}")
    require(bool(torch.isfinite(result).all()), "the output is not finite")
    require(torch.equal(result, again), "two runs on the same data differ")
    wanted = dtype or torch.float32
    require(result.dtype == wanted, f"the output is {result.dtype} instead of {wanted}")
    limit = network_limit(LAYERS, WIDEST, unit_roundoff(torch, wanted), unit_roundoff(torch, torch.float32))
    context.within("relative_error", relative_error(torch, result, reference), limit)
    context.within("batch_dependence", relative_error(torch, single, result[:1]), limit)


@check("model.resnet50_inference", "resnet50 inference, float32", deadline_s=180)
def resnet50_inference(context: Context) -> None:
    """Output finite, the same twice, independent of the batch, and that of float64 on the CPU."""
    _infer(context, None)


@check("model.resnet50_inference_bf16", "resnet50 inference, autocast to bfloat16", deadline_s=180)
def resnet50_inference_bf16(context: Context) -> None:
    """Check the same as float32 inference, with the tolerance of bfloat16."""
    _infer(context, context.torch.bfloat16)


def _train(context: Context, model: Any, data: Any, target: Any) -> tuple[list[float], list[Any]]:
    """Return the loss before each step and after the last, and the gradients of the first step."""
    torch = context.torch
    optimizer = torch.optim.SGD(model.parameters(), lr=_RATE, momentum=0.9)
    losses: list[float] = []
    first: list[Any] = []
    model.train()
    for _ in range(_STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(data), target)
        loss.backward()
        losses.append(loss.item())
        first = first or [parameter.grad.clone() for parameter in model.parameters()]
        optimizer.step()
    with torch.no_grad():
        losses.append(torch.nn.functional.cross_entropy(model(data), target).item())
    return losses, first


def _first_step(context: Context, model: Any, data: Any, target: Any) -> tuple[float, list[Any]]:
    torch = context.torch
    model = copy.deepcopy(model).double().train()
    loss = torch.nn.functional.cross_entropy(model(data.double()), target)
    return loss.item(), list(torch.autograd.grad(loss, list(model.parameters())))


@check("model.resnet50_train_step", "resnet50 training steps, float32", deadline_s=240)
def resnet50_train_step(context: Context) -> None:
    """Train a few steps on fixed data: the loss falls, and the first step is that of float64 on the CPU."""
    torch = context.torch
    from .placement import DeviceMemory, require_placed
    from .workload import KINKS, LAYERS, WIDEST, build, images, labels

    context.full_precision()
    model = build(context)
    data, target = images(_TRAIN_BATCH, _TRAIN_SIDE, seed=3), labels(_TRAIN_BATCH)
    loss, gradients = _first_step(context, model, data, target)
    there, data, target = (
        copy.deepcopy(model).to(context.device),
        data.to(context.device),
        target.to(context.device),
    )
    with DeviceMemory(context, 2 * _parameter_bytes(model)):
        losses, first = _train(context, there, data, target)
    require_placed(context, "parameters are", there.parameters())
    require_placed(context, "gradients are", first)
    context.metric("losses", losses)
    require(all(bool(torch.isfinite(gradient).all()) for gradient in first), "a gradient is not finite")
    before = dict(model.named_parameters())
    same = [name for name, new in there.named_parameters() if torch.equal(new.cpu(), before[name])]
    require(not same, f"training did not change {', '.join(same[:3])}")
    require(losses[-1] < losses[0], f"the loss did not fall: {losses}")
    roundoff = unit_roundoff(torch, torch.float32)
    limit = network_limit(LAYERS, WIDEST, roundoff, roundoff)
    context.within("loss_error", abs(losses[0] - loss) / loss, limit)
    context.within("gradient_error", _gradient_error(torch, first, gradients), gradient_limit(KINKS, limit))
    context.note(f"loss {losses[0]:.3f} to {losses[-1]:.3f} in {_STEPS} steps")


def _gradient_error(torch: Any, found: list[Any], reference: list[Any]) -> float:
    """Return the error of the whole gradient, as one vector."""
    flat = [
        torch.cat([gradient.detach().cpu().double().flatten() for gradient in side])
        for side in (found, reference)
    ]
    return relative_error(torch, *flat)


@check("model.resnet50_compile", "resnet50 inference, torch.compile", suites=FULL, deadline_s=600)
def resnet50_compile(context: Context) -> None:
    """Compile the network with inductor and compare it with the eager run."""
    torch = context.torch
    from .placement import DeviceMemory, require_placed
    from .workload import LAYERS, WIDEST, build, images

    context.full_precision()
    model = build(context)
    batch = images(2, _SIDE, seed=2)
    with torch.inference_mode():
        there, data = copy.deepcopy(model).to(context.device), batch.to(context.device)
        eager = there(data)
        with DeviceMemory(context, _first_activation_bytes(2, _SIDE)):
            compiled = torch.compile(there)(data)
    require_placed(context, "the output is", (compiled,))
    roundoff = unit_roundoff(torch, torch.float32)
    limit = network_limit(LAYERS, WIDEST, roundoff, roundoff)
    context.within("relative_error", relative_error(torch, compiled, eager), limit)
