"""Group ``ops``: the test extension can be imported and computes correctly."""

from __future__ import annotations

from typing import Any

from .context import CheckSkippedError, SuiteContext, require
from .hardware import float_types, has_float64
from .registry import SMOKE, check
from .tolerance import near, product_limit, smallest, unit_roundoff

_KERNEL = ("device.availability", "ops.import")


def _ops() -> Any:
    import xpubuild_ops

    return xpubuild_ops


@check("ops.import", "xpubuild_ops can be imported", needs=("import.torch",), suites=SMOKE)
def import_ops(context: SuiteContext) -> None:
    """Import the extension; a failing import is a failure, a missing extension is not."""
    context.imported("xpubuild_ops", "ops")


@check("ops.build_info", "xpubuild_ops was built for this torch", needs=("ops.import",), suites=SMOKE)
def build_info(context: SuiteContext) -> None:
    """Compare the C++ ABI and the torch version that it was compiled with."""
    info = _ops().build_info()
    context.metrics.update(info)
    flag = int(context.torch._C._GLIBCXX_USE_CXX11_ABI)
    require(info["cxx11_abi"] == flag, f"xpubuild_ops has C++ ABI {info['cxx11_abi']}, torch has {flag}")
    version = str(context.torch.__version__)
    problem = f"xpubuild_ops was built for torch {info['torch']}, but this is torch {version}"
    require(info["torch"] == version, problem)
    context.note(f"{info['compiler']}, C++ ABI {info['cxx11_abi']}, XPU {'on' if info['xpu'] else 'off'}")


def _require_kernel(context: SuiteContext) -> None:
    if not context.backend.fused_kernel:
        raise CheckSkippedError(f"xpubuild_ops has no kernel for {context.backend.name}")
    if context.backend.name == "xpu" and not _ops().build_info()["xpu"]:
        context.absent("ops", "this xpubuild_ops was built without XPU")


def _inputs(context: SuiteContext, dtype: Any) -> list[tuple[str, Any, Any, Any]]:
    """Return (name, gate, up, gradient) on the CPU for all memory layouts."""
    torch = context.torch
    generator = torch.Generator().manual_seed(21)
    base = torch.randn(66, 514, generator=generator).to(dtype)
    grad = torch.randn(66, 257, generator=generator).to(dtype)
    left, right = base.chunk(2, dim=1)
    return [
        ("halves of one tensor", left, right, grad),
        ("dense", left.contiguous(), right.contiguous(), grad),
        ("transposed", left.t(), right.t(), grad.t()),
        ("scalar", base[0, 0], base[1, 0], grad[0, 0]),
        ("empty", left[:0], right[:0], grad[:0]),
    ]


# silu and its derivative are computed in float32 (float64 for float64) with a handful of operations on
# numbers of size 1 and below; the result is rounded once more to its own type.
_OPERATIONS = 16


def _limit(context: SuiteContext, reference: Any, scale: Any, dtype: Any) -> Any:
    torch = context.torch
    stored = unit_roundoff(torch, dtype) * reference.abs()
    computed = dtype if dtype == torch.float64 else torch.float32
    return stored + _OPERATIONS * unit_roundoff(torch, computed) * scale.abs() + smallest(torch, dtype)


def _compare(context: SuiteContext, *, gradients: bool) -> None:
    """Compare the kernel's values, or its gradients, with float64 for every dtype and stride."""
    _require_kernel(context)
    torch = context.torch
    for dtype in float_types(context):
        for name, gate, up, grad in _inputs(context, dtype):
            leaves = [source.to(context.device).detach().requires_grad_() for source in (gate, up)]
            result = _ops().swiglu(*leaves)
            require(result.dtype == dtype, f"the result of {dtype} is {result.dtype}")
            exact = [source.double().requires_grad_() for source in (gate, up)]
            reference = torch.nn.functional.silu(exact[0]) * exact[1]
            size = grad.double().abs() * (1 + gate.double().abs())
            found, wanted = {"value": result.detach()}, [reference.detach()]
            scales = [gate.double() * up.double()]
            if gradients:
                by = torch.autograd.grad(result, leaves, grad.to(context.device))
                found = dict(zip(("gradient by gate", "gradient by up"), by))
                wanted = torch.autograd.grad(reference, exact, grad.double())
                scales = [size * up.double(), size]
            for (what, value), one, scale in zip(found.items(), wanted, scales):
                near(context, f"{what}, {name} {dtype},", value, one, _limit(context, one, scale, dtype))


@check("ops.swiglu_forward", "the fused kernel agrees with double precision", needs=_KERNEL, suites=SMOKE)
def swiglu_forward(context: SuiteContext) -> None:
    """Compare values for every dtype and stride."""
    _compare(context, gradients=False)


@check(
    "ops.swiglu_backward", "gradients of the kernel agree with double precision", needs=_KERNEL, suites=SMOKE
)
def swiglu_backward(context: SuiteContext) -> None:
    """Compare both gradients for every dtype and stride."""
    _compare(context, gradients=True)


@check(
    "ops.swiglu_gradcheck",
    "first and second derivatives agree with finite differences",
    needs=_KERNEL,
    suites=SMOKE,
)
def swiglu_gradcheck(context: SuiteContext) -> None:
    """Run torch's own gradcheck and gradgradcheck in float64."""
    _require_kernel(context)
    if not has_float64(context):
        raise CheckSkippedError("the device has no float64")
    torch = context.torch
    generator = torch.Generator().manual_seed(22)
    base = torch.randn(3, 8, dtype=torch.float64, generator=generator).to(context.device)
    leaves = [half.detach().requires_grad_() for half in base.chunk(2, dim=1)]
    require(torch.autograd.gradcheck(_ops().swiglu, leaves), "gradcheck failed")
    require(torch.autograd.gradgradcheck(_ops().swiglu, leaves), "gradgradcheck failed")


@check(
    "ops.mkl_sgemm",
    "matrix products with the static MKL agree with double precision",
    needs=("ops.import",),
    suites=SMOKE,
)
def mkl_sgemm(context: SuiteContext) -> None:
    """Compare plain, transposed, strided and empty operands with double precision, and the gradient once."""
    torch = context.torch
    generator = torch.Generator().manual_seed(23)
    a, b = torch.randn(120, 301, generator=generator), torch.randn(301, 77, generator=generator)
    for name, left, right in (
        ("plain", a, b),
        ("transposed", a.t().contiguous().t(), b.t().contiguous().t()),
        ("strided", a[::2, ::3], b[::3]),
        ("row", a[:1], b),
        ("empty", a[:, :0], b[:0]),
    ):
        limit = product_limit(torch, left.double(), right.double(), torch.float32, torch.float32)
        found, exact = _ops().mkl_sgemm(left, right), left.double() @ right.double()
        near(context, f"{name}:", found, exact, limit, placed=False)
    leaf = a.clone().requires_grad_()
    _ops().mkl_sgemm(leaf, b).sum().backward()
    limit = product_limit(torch, torch.ones(120, 77).double(), b.t().double(), torch.float32, torch.float32)
    near(context, "gradient:", leaf.grad, b.double().sum(1).expand(120, -1), limit, placed=False)


@check("ops.mkl_version", "the static MKL reports its version", needs=("ops.import",), suites=SMOKE)
def mkl_version(context: SuiteContext) -> None:
    """Query the MKL that is linked into the extension, and show torch's own version."""
    version = _ops().mkl_version()
    require("Math Kernel Library" in version, f"mkl_version() is {version!r}")
    context.metric("mkl", version)
    own = [line.strip(" -") for line in context.torch.__config__.show().splitlines() if "Math Kernel" in line]
    context.metric("torch_mkl", own[0] if own else "none")
    context.note(version)


@check("ops.compile", "the fused kernel works inside torch.compile", needs=_KERNEL, deadline_s=300)
def compile_ops(context: SuiteContext) -> None:
    """Compile a function around the kernel without graph breaks; compare values and gradients with eager."""
    _require_kernel(context)
    torch = context.torch

    def block(gate: Any, up: Any) -> Any:
        return _ops().swiglu(gate * 2, up + 1).sin()

    _, gate, up, grad = _inputs(context, torch.float32)[0]
    answers = []
    for function in (block, torch.compile(block, fullgraph=True)):
        leaves = [source.to(context.device).detach().requires_grad_() for source in (gate, up)]
        result = function(*leaves)
        answers.append((result, *torch.autograd.grad(result, leaves, grad.to(context.device))))
    eager, compiled = answers
    for index, name in enumerate(("value", "gradient by gate", "gradient by up")):
        torch.testing.assert_close(compiled[index], eager[index], msg=f"{name} differs from eager")
