"""ResNet-50 if torchvision is not installed: the architecture of He et al., "Deep Residual Learning for Image
Recognition" (2015), with the stride of a bottleneck in its 3x3 convolution as torchvision has it.

Names of parameters are those of torchvision, so that one state fits both.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

PARAMETERS = 25_557_032
_EXPANSION = 4
_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))


class Bottleneck(nn.Module):  # type: ignore[misc, unused-ignore]
    """1x1, 3x3 and 1x1 convolutions around a shortcut."""

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        channels_out = width * _EXPANSION
        self.conv1 = nn.Conv2d(channels_in, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, channels_out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels_out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or channels_in != channels_out:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), nn.BatchNorm2d(channels_out)
            )

    def forward(self, x: Any) -> Any:
        """Return relu(F(x) + shortcut(x))."""
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return self.relu(self.bn3(self.conv3(x)) + shortcut)


class ResNet50(nn.Module):  # type: ignore[misc, unused-ignore]
    """Four stages of bottlenecks between a stem and a classifier of 1000 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        channels = 64
        for number, (width, blocks, stride) in enumerate(_STAGES, start=1):
            stage = []
            for index in range(blocks):
                stage.append(Bottleneck(channels, width, stride if index == 0 else 1))
                channels = width * _EXPANSION
            setattr(self, f"layer{number}", nn.Sequential(*stage))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, 1000)

    def forward(self, x: Any) -> Any:
        """Return one logit per class."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))
