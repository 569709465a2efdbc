"""Group ``model``: inference of a complete network, compared with double precision on the CPU."""

from __future__ import annotations

from typing import Any

from .context import SuiteContext, require
from .registry import SMOKE, check
from .tolerance import network_limit, relative_error, unit_roundoff
from .ways import graphs

_SIDE = 224
#: Most CPUs convert short types to float32 and back for each operation: ten times as slow as float32.
_SIDE_SHORT_ON_CPU = 96


def _first_activation_bytes(batch: int, side: int) -> int:
    """Return the size of the first convolution's output (64 channels, half the side), in a 2-byte type."""
    return batch * 64 * (side // 2) ** 2 * 2


def _infer(context: SuiteContext, dtype: Any) -> None:
    """Run inference under autocast to ``dtype`` (None: without) and compare it with float64 on the CPU."""
    torch = context.torch
    from .placement import on_device, require_placed
    from .workload import LAYERS, WIDEST, build, images, inference_reference

    context.full_precision()
    side = _SIDE_SHORT_ON_CPU if context.backend.name == "cpu" and dtype else _SIDE
    model, batch = build(), images(2, side, seed=2)
    reference = inference_reference(2, side, seed=2)
    with torch.inference_mode():
        there, data = model.to(context.device), batch.to(context.device)
        with (
            on_device(context, _first_activation_bytes(2, side)),
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


@check("model.resnet50_inference", "resnet50 inference, float32", suites=SMOKE, deadline_s=180)
def resnet50_inference(context: SuiteContext) -> None:
    """The output must be finite, reproducible, independent of the batch, and agree with float64 on the
    CPU."""
    _infer(context, None)


@check(
    "model.resnet50_inference_bf16", "resnet50 inference, autocast to bfloat16", suites=SMOKE, deadline_s=180
)
def resnet50_inference_bf16(context: SuiteContext) -> None:
    """Check the same as float32 inference, with the tolerance of bfloat16."""
    _infer(context, context.torch.bfloat16)


@check("model.resnet50_inference_fp16", "resnet50 inference, autocast to float16")
def resnet50_inference_fp16(context: SuiteContext) -> None:
    """Check the same as float32 inference, with the tolerance of float16."""
    _infer(context, context.torch.float16)


@check("model.resnet50_compile", "resnet50 inference, torch.compile", deadline_s=600)
def resnet50_compile(context: SuiteContext) -> None:
    """Compile the network with inductor and compare it with the eager run."""
    torch = context.torch
    from .placement import on_device, require_placed
    from .workload import LAYERS, WIDEST, build, images

    context.full_precision()
    model = build()
    batch = images(2, _SIDE, seed=2)
    before = graphs()
    with torch.inference_mode():
        there, data = model.to(context.device), batch.to(context.device)
        eager = there(data)
        with on_device(context, _first_activation_bytes(2, _SIDE)):
            compiled = torch.compile(there)(data)
    require(graphs() > before, "the network ran without being compiled")
    require_placed(context, "the output is", (compiled,))
    roundoff = unit_roundoff(torch, torch.float32)
    limit = network_limit(LAYERS, WIDEST, roundoff, roundoff)
    context.within("relative_error", relative_error(torch, compiled, eager), limit)
