"""torchvision and torchaudio beside the CPU torch of the tests.

Where only CUDA builds of them can be had, their extensions cannot load: ``cuda_vision`` is just that. For the
checks of their operators there is a torchvision with the same two functions in Python, and a torchaudio
without its extension, whose filters and spectra are torch operators anyway.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from integration.torch_env import TorchEnv, _must, _pip, shared_root
from support.shared import once

VISION = "0.28.0"
AUDIO = "2.11.0"

_VISION = """\
import torch
from . import ops, version
__version__ = "0.28.0+stub"
"""

_OPS = """\
import torch
_library = torch.library.Library("torchvision", "DEF")
_library.define("nms(Tensor boxes, Tensor scores, float most) -> Tensor")

def nms(boxes, scores, most):
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(dim=1)
    kept, order = [], scores.argsort(descending=True)
    while len(order):
        first, order = order[0], order[1:]
        kept.append(first)
        low = torch.maximum(boxes[first, :2], boxes[order, :2])
        high = torch.minimum(boxes[first, 2:], boxes[order, 2:])
        shared = (high - low).clamp(min=0).prod(dim=1)
        order = order[shared / (areas[first] + areas[order] - shared) <= most]
    return torch.stack(kept)

_library.impl("nms", nms, "CPU")

def roi_align(planes, rois, output_size, sampling_ratio, aligned):
    shift, steps = (0.5 if aligned else 0.0), output_size * sampling_ratio
    height, width = planes.shape[-2:]
    results = []
    for index, x0, y0, x1, y1 in rois.tolist():
        at = (torch.arange(steps) + 0.5) / steps
        y, x = y0 - shift + at * (y1 - y0), x0 - shift + at * (x1 - x0)
        grid = torch.stack(torch.meshgrid(y / (height - 1), x / (width - 1), indexing="ij")[::-1], dim=-1)
        plane = planes[int(index)].unsqueeze(0)
        samples = torch.nn.functional.grid_sample(plane, grid.unsqueeze(0) * 2 - 1, align_corners=True)
        results.append(torch.nn.functional.avg_pool2d(samples, sampling_ratio)[0])
    return torch.stack(results)
"""


def python_vision(folder: Path) -> Path:
    """Write a torchvision whose operators are Python; return the folder for PYTHONPATH."""
    package = folder / "torchvision"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(_VISION, "utf-8")
    (package / "ops.py").write_text(_OPS, "utf-8")
    (package / "version.py").write_text("cuda = None\n", "utf-8")
    return folder


def _install(env: TorchEnv, folder: Path, requirement: str) -> None:
    _must(*_pip(env.root), "install", "-q", "--no-deps", "--target", folder, requirement, env=env.environ)


@pytest.fixture(scope="session")
def cuda_vision(torch_env: TorchEnv, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the torchvision of the index, which is built for CUDA."""
    root = shared_root(tmp_path_factory)
    return once(
        root, f"vision-{VISION}", lambda folder: _install(torch_env, folder, f"torchvision=={VISION}")
    )


@pytest.fixture(scope="session")
def audio(torch_env: TorchEnv, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with torchaudio, without its extension."""

    def make(folder: Path) -> None:
        _install(torch_env, folder, f"torchaudio=={AUDIO}")
        shutil.rmtree(folder / "torchaudio" / "lib")

    return once(shared_root(tmp_path_factory), f"audio-{AUDIO}", make)
