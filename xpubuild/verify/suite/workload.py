"""The model that the workflow checks run: resnet50 with weights and data that are the same everywhere."""

from __future__ import annotations

import copy
import functools
import math
from typing import Any

import torch
from torch import nn

from .context import require
from .resnet import PARAMETERS, ResNet50

#: Layers that round what they store: 53 convolutions, as many normalisations, 16 sums and the classifier.
LAYERS = 53 + 53 + 16 + 1
#: Products in the longest accumulation: 3 x 3 x 512.
WIDEST = 4608
#: Places where the gradient depends on the sign of an activation: ReLUs and the one maximum pooling.
KINKS = 49 + 1


def build() -> nn.Module:
    """Return resnet50 on the CPU, in float32, with generated weights and calibrated normalisation."""
    model = generated()
    number = sum(parameter.numel() for parameter in model.parameters())
    require(number == PARAMETERS, f"resnet50 has {number} parameters instead of {PARAMETERS}")
    return copy.deepcopy(model)


@functools.cache
def generated() -> nn.Module:
    """Return the network that all checks of a process start from.

    Weights come from one seeded generator in the order of the parameters' names. Two things keep rounding
    errors from growing with depth, as in a trained network: running statistics are those of one batch, and
    the last normalisation of a block, which weighs the block against its shortcut, is small.
    """
    model = ResNet50()
    generator = torch.Generator().manual_seed(2015)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if parameter.dim() > 1:
                fan_in = parameter[0].numel()
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * math.sqrt(2.0 / fan_in))
            else:
                parameter.fill_(_norm_parameter(name))
        norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
        for norm in norms:
            norm.momentum = 1.0
        model.train()(images(4, 64, seed=1))
        for norm in norms:
            norm.momentum = 0.1
    return model.eval()


@functools.cache
def inference_reference(number: int, side: int, seed: int) -> Any:
    """Return what the network makes of ``images`` with the same arguments, in float64 on the CPU."""
    with torch.no_grad():
        return copy.deepcopy(generated()).double()(images(number, side, seed=seed).double())


def _norm_parameter(name: str) -> float:
    if name.endswith("bias"):
        return 0.0
    return 0.25 if name.endswith("bn3.weight") else 1.0


def images(number: int, side: int, *, seed: int) -> Any:
    """Return generated images on the CPU: smooth patterns and noise, mean 0, deviation about 1."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randn(number, 3, 8, 8, generator=generator)
    smooth = nn.functional.interpolate(coarse, size=(side, side), mode="bilinear", align_corners=False)
    return smooth + 0.5 * torch.randn(number, 3, side, side, generator=generator)


def labels(number: int) -> Any:
    """Return a class for each image."""
    return torch.arange(number) * 37 % 1000
