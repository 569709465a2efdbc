"""Group ``vision``: from files of images to the classes of resnet50, as programs that infer do it."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from .context import CheckSkippedError, SuiteContext, require
from .registry import check
from .tolerance import network_limit, relative_error, unit_roundoff

_SIDE = 96
#: Height and width of the images that are written, by class and name of the file.
_WRITTEN = {
    "first/a.jpg": (131, 97),
    "first/b.png": (97, 160),
    "second/c.jpeg": (120, 240),
    "second/d.png": (128, 99),
}
_SUFFIXES = (".jpg", ".jpeg", ".png")
#: Of another folder: as many as float64 on the CPU computes in some seconds.
_MOST = 16
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
#: Mean difference by which JPEG of quality 95 may change a smooth image, in levels of 256.
_LOSS = 2.0


@check(
    "vision.files",
    "resnet50 classifies a folder of JPEG and PNG files",
    needs=("device.availability", "vision.import"),
    deadline_s=300,
)
def files(context: SuiteContext) -> None:
    """Write images (or take those of --data), read and transform them with torchvision, and compare pixels,
    the transformed images and the network's output with float64."""
    torch = context.torch
    from .placement import on_device, require_placed
    from .workload import LAYERS, WIDEST, build

    context.full_precision()
    with tempfile.TemporaryDirectory(prefix="images-") as scratch:
        images, paths = _folder(context, Path(scratch))
    made = torch.stack([_transforms(torch.float32)(image.to(context.device)) for image in images])
    wanted = torch.stack([_transforms(torch.float64)(image) for image in images])
    u = unit_roundoff(torch, torch.float32)
    # Weights of a row and a column, and their sums over some pixels each.
    context.within("transform_error", relative_error(torch, made, wanted), 16 * u)
    model = build()
    with torch.inference_mode():
        there = model.to(context.device)
        with on_device(context, 2**16):
            found = torch.cat([there(part) for part in made.split(2)])
        exact = model.cpu().double()(wanted)
    require_placed(context, "the output is", (found,))
    limit = network_limit(LAYERS, WIDEST, u, u)
    context.within("relative_error", relative_error(torch, found, exact), limit)
    context.metric("images", len(paths))
    context.note(f"{len(paths)} images")


def _folder(context: SuiteContext, scratch: Path) -> tuple[list[Any], list[Path]]:
    """Return the images of the folder, as bytes of three colours, and their paths."""
    from torchvision.io import ImageReadMode, read_image

    given = context.options.get("data")
    root = Path(given) if given else scratch
    written = {} if given else _write(context, root)
    paths = sorted(path for path in root.rglob("*") if path.suffix.lower() in _SUFFIXES)[:_MOST]
    require(paths, f"{root} contains no JPEG and no PNG file: pass another folder with --data")
    images = [read_image(str(path), mode=ImageReadMode.RGB) for path in paths]
    for path, image in zip(paths, images):
        name = str(path.relative_to(root))
        if name in written:
            _compare(name, image, written[name])
    return images, paths


def _write(context: SuiteContext, root: Path) -> dict[str, Any]:
    """Write smooth images of several sizes, one of them grey, and return them by name."""
    from torchvision.io import write_jpeg, write_png

    torch, written = context.torch, {}
    for number, (name, (height, width)) in enumerate(_WRITTEN.items()):
        down, across = torch.arange(height).view(-1, 1), torch.arange(width).view(1, -1)
        colour = torch.arange(1 if name.endswith("d.png") else 3).view(-1, 1, 1)
        waves = torch.sin(down / (11.0 + 3 * colour) + number) * torch.cos(across / (17.0 - 2 * colour))
        image = (127 + 120 * waves).round().to(torch.uint8)
        path = root / name
        path.parent.mkdir(exist_ok=True)
        try:
            write = write_png if path.suffix == ".png" else partial(write_jpeg, quality=95)
            write(image, str(path))
        except (RuntimeError, AttributeError) as error:
            reason = str(error).splitlines()[0]
            raise CheckSkippedError(f"torchvision cannot write images: {reason}") from error
        written[name] = image.expand(3, -1, -1)
    return written


def _compare(name: str, image: Any, written: Any) -> None:
    problem = f"{name} has shape {tuple(image.shape)} instead of {tuple(written.shape)}"
    require(image.shape == written.shape, problem)
    off, allowed = (
        float((image.double() - written.double()).abs().mean()),
        0.0 if name.endswith(".png") else _LOSS,
    )
    require(off <= allowed, f"{name}: pixels differ by {off:.3g} of 255 on average, {allowed} are allowed")


def _transforms(dtype: Any) -> Any:
    from torchvision import transforms

    return transforms.Compose([
        transforms.ConvertImageDtype(dtype), transforms.Resize(_SIDE, antialias=True),
        transforms.CenterCrop(_SIDE), transforms.Normalize(_MEAN, _DEVIATION),
    ])  # fmt: skip
