"""Group ``onednn``: convolutions and matrix products for all dtypes.

Named after the library for the CPU and Intel GPUs; the checks are the same for other backends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .context import CheckSkippedError, SuiteContext, require
from .hardware import has_float64
from .registry import FULL, check
from .tolerance import (
    TF32_ROUNDOFF,
    accumulator,
    bilinear_limit,
    excess,
    near,
    relative_error,
    rounded_inputs_limit,
    unit_roundoff,
)

#: (batch, channels in, channels out, height, width, kernel), and further arguments of the convolution.
_CONVOLUTIONS: tuple[tuple[str, tuple[int, ...], dict[str, Any]], ...] = (
    ("1x1", (2, 64, 32, 14, 14, 1), {}),
    ("3x3", (2, 32, 48, 17, 19, 3), {"padding": 1}),
    ("7x7, stride 2", (1, 3, 64, 56, 56, 7), {"stride": 2, "padding": 3}),
    ("3x3, dilated", (1, 16, 16, 20, 20, 3), {"dilation": 2}),
    ("depthwise", (2, 24, 24, 15, 15, 3), {"groups": 24, "padding": 1}),
    ("in groups", (1, 32, 64, 9, 9, 3), {"groups": 4}),
    ("of one pixel", (1, 5, 7, 1, 1, 1), {}),
)
_PRODUCTS = ((64, 256, 96), (33, 1001, 65), (1, 64, 1), (7, 3, 5), (256, 1, 256))


def _numbers(context: SuiteContext, *shape: int, seed: int, dtype: Any) -> Any:
    generator = context.torch.Generator().manual_seed(seed)
    return context.torch.randn(*shape, generator=generator).to(dtype)


def _kept(context: SuiteContext, dtype: Any) -> dict[str, Any]:
    """Return what a result of ``dtype`` is kept and accumulated in."""
    return {"result_dtype": dtype, "accumulate": accumulator(context.torch, dtype)}


def _convolve(context: SuiteContext, dtype: Any, extra: Callable[..., Any] | None = None) -> None:
    """Convolve, in both layouts, with a bias; ``extra`` adds to the limit."""
    torch = context.torch
    for name, (batch, inner, outer, height, width, kernel), arguments in _CONVOLUTIONS:
        groups = arguments.get("groups", 1)
        x = _numbers(context, batch, inner, height, width, seed=101, dtype=dtype)
        weight = _numbers(context, outer, inner // groups, kernel, kernel, seed=102, dtype=dtype)
        bias = _numbers(context, outer, seed=103, dtype=dtype)

        def apply(a: Any, b: Any, arguments: dict[str, Any] = arguments) -> Any:
            return torch.nn.functional.conv2d(a, b, **arguments)

        exact = apply(x.double(), weight.double()) + bias.double().reshape(-1, 1, 1)
        terms = inner // groups * kernel * kernel + 1
        limit = bilinear_limit(torch, apply, x.double(), weight.double(), terms, **_kept(context, dtype))
        limit = limit + unit_roundoff(torch, dtype) * exact.abs()
        if extra is not None:
            limit = limit + extra(apply, x.double(), weight.double())
        there = x.to(context.device)
        for layout in (torch.contiguous_format, torch.channels_last):
            result = torch.nn.functional.conv2d(
                there.contiguous(memory_format=layout),
                weight.to(context.device),
                bias.to(context.device),
                **arguments,
            )
            require(result.dtype == dtype, f"a convolution of {dtype} is {result.dtype}")
            near(context, f"convolution {name}, {dtype}, {_name(layout)}", result, exact, limit)


def _name(layout: Any) -> str:
    return str(layout).partition(".")[2].replace("_", " ")


def _multiply(context: SuiteContext, dtype: Any, extra: Callable[..., Any] | None = None) -> None:
    """Multiply matrices, batches and with a bias, plain and transposed; ``extra`` adds to the limit."""
    torch = context.torch
    for rows, inner, columns in _PRODUCTS:
        left = _numbers(context, rows, inner, seed=111, dtype=dtype)
        right = _numbers(context, inner, columns, seed=112, dtype=dtype)
        bias = _numbers(context, columns, seed=113, dtype=dtype)
        exact = left.double() @ right.double()

        def apply(a: Any, b: Any) -> Any:
            return a @ b

        limit = bilinear_limit(torch, apply, left.double(), right.double(), inner, **_kept(context, dtype))
        if extra is not None:
            limit = limit + extra(apply, left.double(), right.double())
        a, b, c = (part.to(context.device) for part in (left, right, bias))
        biased = exact + bias.double()
        wider = limit + unit_roundoff(torch, dtype) * (biased.abs() + bias.double().abs())
        size = f"{rows}x{inner} @ {inner}x{columns}, {dtype}"
        near(context, f"mm {size}", a @ b, exact, limit)
        near(context, f"mm of a transposed matrix {size}", a @ b.t().contiguous().t(), exact, limit)
        near(context, f"addmm {size}", torch.addmm(c, a, b), biased, wider)
        near(context, f"linear {size}", torch.nn.functional.linear(a, b.t(), c), biased, wider)
        both = torch.bmm(a.expand(3, -1, -1), b.expand(3, -1, -1))
        near(context, f"bmm {size}", both[2], exact, limit)
        scaled = torch.addmm(c, a, b, alpha=0.5, beta=2.0)
        near(context, f"scaled addmm {size}", scaled, 0.5 * exact + 2 * bias.double(), 2 * wider)


def _declare(name: str, what: str, compute: Callable[[SuiteContext, Any], None], deadline_s: float) -> None:
    for short, kind in (("fp32", "float32"), ("bf16", "bfloat16"), ("fp16", "float16"), ("fp64", "float64")):

        def run(context: SuiteContext, kind: str = kind) -> None:
            if kind == "float64" and not has_float64(context):
                raise CheckSkippedError("the device has no float64")
            with _tf32(context, on=False):
                compute(context, getattr(context.torch, kind))

        run.__doc__ = f"Compare {what} of many sizes, layouts and forms; short types accumulate in float32."
        title = f"{what} in {kind} agree with {'the CPU' if kind == 'float64' else 'double precision'}"
        check(f"onednn.{name}_{short}", title, suites=FULL, deadline_s=deadline_s)(run)


_declare("conv", "convolutions", _convolve, 180)
_declare("gemm", "matrix products", _multiply, 120)


class _tf32:  # noqa: N801 - a context manager, used like a function
    """Switch TF32 for products and convolutions on or off, and back; skips where this torch cannot."""

    def __init__(self, context: SuiteContext, *, on: bool) -> None:
        self._context, self._on = context, on
        self._old: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> bool:
        """Return whether there is a switch."""
        backend = self._context.backend
        for names in (backend.tf32_gemm_switches, backend.tf32_switches):
            for holder, switch in self._found(names):
                self._old.append((holder, switch, getattr(holder, switch)))
                words = ("ieee", "tf32") if switch == "fp32_precision" else (False, True)
                setattr(holder, switch, words[self._on])
        return bool(self._old)

    def _found(self, paths: tuple[str, ...]) -> list[tuple[Any, str]]:
        for path in paths:
            holder: Any = self._context.torch.backends
            *names, switch = path.split(".")
            for name in names:
                holder = getattr(holder, name, None)
            if hasattr(holder, switch):
                return [(holder, switch)]
        return []

    def __exit__(self, *_: object) -> None:
        for holder, switch, value in reversed(self._old):
            setattr(holder, switch, value)


@check("onednn.tf32", "TF32 has the expected precision and can be disabled")
def tf32(context: SuiteContext) -> None:
    """Multiply and convolve float32 with TF32 allowed, then without, within the error bound of each."""
    torch = context.torch

    def extra(apply: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        return rounded_inputs_limit(apply, left, right, TF32_ROUNDOFF)

    left = _numbers(context, 256, 512, seed=121, dtype=torch.float32)
    right = _numbers(context, 512, 128, seed=122, dtype=torch.float32)
    exact = left.double() @ right.double()
    strict = bilinear_limit(
        torch, lambda a, b: a @ b, left.double(), right.double(), 512, **_kept(context, torch.float32)
    )
    with _tf32(context, on=True) as there_is_one:
        if not there_is_one:
            raise CheckSkippedError(f"torch {torch.__version__} cannot enable TF32 on {context.backend.name}")
        _multiply(context, torch.float32, extra)
        _convolve(context, torch.float32, extra)
        product = left.to(context.device) @ right.to(context.device)
        # Over thousands of elements the norm is near its mean: this tells TF32 from bfloat16.
        context.within("tf32_error", relative_error(torch, product, exact), 2**0.5 * TF32_ROUNDOFF)
        loose = excess(torch, product, exact, strict)
    with _tf32(context, on=False):
        tight = excess(torch, left.to(context.device) @ right.to(context.device), exact, strict)
    problem = f"with TF32 disabled a product is off by {tight:.3g} times the error allowed for float32"
    require(tight <= 1, problem)
    context.metric("in_effect", loose > 1)
    context.note("TF32 was used" if loose > 1 else "TF32 was allowed, but not used for this product")
