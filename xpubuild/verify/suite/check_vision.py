"""Group ``vision``: torchvision can be imported, and its operators run on the device."""

from __future__ import annotations

import copy
from typing import Any

from .context import SuiteContext, require
from .placement import on_device
from .registry import SMOKE, check
from .tolerance import near, network_limit, relative_error, unit_roundoff

_NEEDS = ("device.availability", "vision.import")
_PICTURES = 64


@check(
    "vision.import", "torchvision and its operators can be imported", needs=("import.torch",), suites=SMOKE
)
def import_vision(context: SuiteContext) -> None:
    """Import torchvision; one that was built for another torch or backend has no operators."""
    torchvision = context.imported("torchvision", "vision")
    require(hasattr(context.torch.ops.torchvision, "nms"), "torchvision's C++ operators are not registered")
    ours, theirs = context.torch.version.cuda, _release(getattr(torchvision.version, "cuda", None))
    problem = (
        f"torchvision {torchvision.__version__} was built with CUDA {theirs}, torch with {ours or 'none'}"
    )
    require(theirs in (None, ours), problem)


def _release(version: Any) -> str | None:
    """Return a CUDA version as torch writes it: torchvision has it as a number (13000) or as text."""
    if isinstance(version, int):
        return f"{version // 1000}.{version % 1000 // 10}" if version > 0 else None
    return version or None


def _boxes(context: SuiteContext) -> tuple[Any, Any]:
    torch = context.torch
    generator = torch.Generator().manual_seed(51)
    corner = torch.rand(200, 2, generator=generator) * 80
    size = torch.rand(200, 2, generator=generator) * 40 + 5
    return torch.cat((corner, corner + size), dim=1), torch.rand(200, generator=generator)


def _kept(boxes: Any, scores: Any, most: float) -> list[int]:
    """Suppress by the definition: the highest score first, then all that overlap what is kept too much."""
    corner, size = boxes[:, :2], boxes[:, 2:] - boxes[:, :2]
    shared = (
        (boxes[:, None, 2:].minimum(boxes[:, 2:]) - corner[:, None].maximum(corner)).clamp(min=0).prod(-1)
    )
    areas = size.prod(-1)
    overlap = shared / (areas[:, None] + areas - shared)
    kept: list[int] = []
    for index in scores.argsort(descending=True).tolist():
        if not bool((overlap[index, kept] > most).any()):
            kept.append(index)
    return kept


@check("vision.nms", "nms keeps the right boxes", needs=_NEEDS, suites=SMOKE)
def nms(context: SuiteContext) -> None:
    """Compare with the definition, in float64 on the CPU."""
    from torchvision.ops import nms as suppress

    from .placement import require_placed

    boxes, scores = _boxes(context)
    found = suppress(boxes.to(context.device), scores.to(context.device), 0.35)
    require_placed(context, "the indices are", (found,))
    wanted = _kept(boxes.double(), scores, 0.35)
    require(found.tolist() == wanted, f"nms kept {found.tolist()[:6]}..., expected {wanted[:6]}...")
    context.metric("kept", len(wanted))


def _aligned(torch: Any, plane: Any, box: list[float], bins: int, samples: int) -> Any:
    """Return the means of bilinear samples over a grid of bins: the definition of roi_align, aligned."""
    steps = (torch.arange(bins * samples, dtype=torch.float64) + 0.5) / (bins * samples)
    rows, columns = (box[n] - 0.5 + steps * (box[n + 2] - box[n]) for n in (1, 0))
    # In units of half the plane, from the centre of the first pixel to that of the last.
    places = torch.stack(torch.meshgrid(columns, rows, indexing="xy"), -1) * 2 / (plane.shape[-1] - 1) - 1
    sampled = torch.nn.functional.grid_sample(plane.double(), places[None], align_corners=True)
    return torch.nn.functional.avg_pool2d(sampled, samples)[0]


@check("vision.roi_align", "roi_align and its gradient are correct", needs=_NEEDS, suites=SMOKE)
def roi_align(context: SuiteContext) -> None:
    """Compare with bilinear sampling in float64; the gradient of the sum is that of averaging."""
    from torchvision.ops import roi_align as align

    torch = context.torch
    plane = torch.randn(1, 1, 24, 24, generator=torch.Generator().manual_seed(52))
    rois = [[2.0, 3.0, 14.0, 19.0], [5.5, 1.25, 9.0, 20.0]]
    indexed = torch.tensor([[0.0, *roi] for roi in rois])
    there = plane.to(context.device).requires_grad_()
    found = align(there, indexed.to(context.device), output_size=4, sampling_ratio=2, aligned=True)
    wanted = torch.stack([_aligned(torch, plane, roi, 4, 2) for roi in rois])
    # Coordinates and weights carry a few roundings of numbers up to 24, values are of size 4 and below.
    limit = torch.full_like(wanted, 8 * 24 * float(torch.finfo(torch.float32).eps))
    near(context, "roi_align", found, wanted, limit)
    (gradient,) = torch.autograd.grad(found.sum(), there)
    total = float(gradient.sum())
    problem = f"the weights of all samples sum to {total} instead of {found.numel()}"
    require(abs(total - found.numel()) < 1e-2, problem)


@check("vision.training", "a network learns small images from a DataLoader", needs=_NEEDS)
def training(context: SuiteContext) -> None:
    """Train on pictures of CIFAR's shape, loaded by two processes; compare the losses with float64."""
    from torchvision import datasets, transforms

    torch = context.torch
    context.full_precision()
    pictures = datasets.FakeData(_PICTURES, (3, 32, 32), 10, transforms.ToTensor())
    torch.manual_seed(54)
    nn = torch.nn
    network = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1), nn.GELU(), nn.Conv2d(16, 32, 3, 2, 1), nn.GELU(), nn.AvgPool2d(8),
        nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip

    def losses(model: Any, device: Any, dtype: Any, workers: int) -> Any:
        model = copy.deepcopy(model).to(device=device, dtype=dtype)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        found = []
        for data, target in torch.utils.data.DataLoader(pictures, _PICTURES // 4, num_workers=workers):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(data.to(device, dtype)), target.to(device))
            loss.backward()
            optimizer.step()
            found.append(loss.detach().cpu().double())
        return torch.stack(found)

    with on_device(context, _PICTURES // 4 * 3 * 32 * 32 * 4):
        found = losses(network, context.device, torch.float32, workers=2)
    wanted = losses(network, "cpu", torch.float64, workers=0)
    u = unit_roundoff(torch, torch.float32)
    # Forward and backward through three layers in each of four steps, as if all followed each other.
    context.within("relative_error", relative_error(torch, found, wanted), network_limit(24, 16 * 9, u, u))
