"""Group ``aten``: operators run on the device, not on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .context import CheckSkippedError, SuiteContext, require
from .placement import recorded, require_placed
from .registry import FULL, check


def _operators(context: SuiteContext) -> dict[str, Callable[[], Any]]:
    """Return common operators by name, without those whose result shape depends on the data."""
    torch, device = context.torch, context.device
    functional = torch.nn.functional
    x = torch.ones(8, 16, 32, 32, device=device)
    matrix = torch.ones(64, 64, device=device)
    weight = torch.full((16, 16, 3, 3), 0.01, device=device)
    leaf = weight.clone().requires_grad_()
    places = torch.arange(64, device=device) % 7
    heads = torch.ones(2, 4, 64, 32, device=device)
    ones = torch.ones(16, device=device)
    return {
        "add": lambda: matrix + matrix,
        "exp": matrix.exp,
        "gelu": lambda: functional.gelu(matrix),
        "where": lambda: torch.where(matrix > 0, matrix, matrix),
        "sum": lambda: matrix.sum(1),
        "argmax": lambda: matrix.argmax(1),
        "cumsum": lambda: matrix.cumsum(1),
        "softmax": lambda: matrix.softmax(1),
        "layer_norm": lambda: functional.layer_norm(matrix, (64,)),
        "batch_norm": lambda: functional.batch_norm(x, ones.clone(), ones.clone(), training=True),
        "group_norm": lambda: functional.group_norm(x, 4),
        "mm": lambda: matrix @ matrix,
        "bmm": lambda: torch.bmm(heads[0], heads[1].transpose(1, 2)),
        "addmm": lambda: torch.addmm(matrix, matrix, matrix),
        "conv2d": lambda: functional.conv2d(x, weight),
        "conv1d": lambda: functional.conv1d(x[:, :, 0], weight[:, :, 0]),
        "conv_transpose2d": lambda: functional.conv_transpose2d(x, weight),
        "backward of conv2d": lambda: torch.autograd.grad(functional.conv2d(x, leaf).sum(), (leaf,))[0],
        "max_pool2d": lambda: functional.max_pool2d(x, 2),
        "avg_pool2d": lambda: functional.avg_pool2d(x, 2),
        "adaptive_avg_pool2d": lambda: functional.adaptive_avg_pool2d(x, 3),
        "interpolate": lambda: functional.interpolate(x, size=(40, 40), mode="bilinear"),
        "embedding": lambda: functional.embedding(places, matrix),
        "index_select": lambda: matrix.index_select(0, places),
        "gather": lambda: matrix.gather(0, places.unsqueeze(0)),
        "scatter_add": lambda: matrix.scatter_add(0, places.unsqueeze(0), matrix[:1]),
        "sort": lambda: matrix.sort(1).values,
        "topk": lambda: matrix.topk(3).values,
        "cat": lambda: torch.cat((matrix, matrix)),
        "dropout": lambda: functional.dropout(matrix),
        "cross_entropy": lambda: functional.cross_entropy(matrix, places),
        "attention": lambda: functional.scaled_dot_product_attention(heads, heads, heads),
        "randn": lambda: torch.randn(64, device=device),
        "tril": matrix.tril,
        "to half": matrix.half,
    }


def _rarer(context: SuiteContext) -> dict[str, Callable[[], Any]]:
    """Return operators that XPU releases are known to run on the CPU: reported, but not a failure."""
    torch = context.torch
    matrix = torch.eye(16, device=context.device) * 2 + 0.1
    return {
        "fft": lambda: torch.fft.fft(matrix).real,
        "cholesky": lambda: torch.linalg.cholesky(matrix @ matrix.t()),
        "solve": lambda: torch.linalg.solve(matrix, matrix),
        "qr": lambda: torch.linalg.qr(matrix).Q,
        "svd": lambda: torch.linalg.svdvals(matrix),
        "eigh": lambda: torch.linalg.eigvalsh(matrix @ matrix.t()),
    }


@check("aten.no_fallback", "common operators run on the device, not on the CPU", suites=FULL, deadline_s=240)
def no_fallback(context: SuiteContext) -> None:
    """Run each operator separately: kernels on the device, no copy to the host, no fallback warning."""
    if not context.backend.streams:
        raise CheckSkippedError(f"operators of {context.backend.name} have no fallback")
    unseen = []
    for name, operator in _operators(context).items():
        operator()  # first calls load and compile kernels, and may read what they need from the device
        result, record = recorded(context, operator)
        require_placed(context, f"the result of {name} is", (result,))
        require(not record.fallbacks, f"{name}: {'; '.join(record.fallbacks[:2])}")
        if record.names is None:
            unseen.append(name)
            continue
        require(record.kernels, f"{name} ran no kernel on the device: it was computed on the CPU")
        require(not record.to_host, f"{name} copied from the device to the host: {record.to_host[:1]}")
    context.metric("evidence", "warnings" if unseen else "warnings, profiler")
    slow = []
    for name, operator in _rarer(context).items():
        _, record = recorded(context, operator)
        if record.fallbacks or (record.names is not None and not record.kernels):
            slow.append(name)
    context.metric("on_the_cpu", slow)
    if slow:
        context.warn(f"these operators run on the CPU: {', '.join(slow)}")
