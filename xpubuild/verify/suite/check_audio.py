"""Group ``audio``: torchaudio can be imported, and filters and spectrograms are correct."""

from __future__ import annotations

import math
from typing import Any

from .context import SuiteContext, require
from .registry import SMOKE, check
from .tolerance import gamma, near, unit_roundoff

_NEEDS = ("device.availability", "audio.import")


@check("audio.import", "torchaudio can be imported", needs=("import.torch",), suites=SMOKE)
def import_audio(context: SuiteContext) -> None:
    """Import torchaudio; its extension fails with a torch that it was not built for."""
    context.imported("torchaudio", "audio")


def _wave(context: SuiteContext, length: int) -> Any:
    torch = context.torch
    time = torch.arange(length) / 8000.0
    noise = torch.randn(length, generator=torch.Generator().manual_seed(61))
    return 0.5 * torch.sin(2 * math.pi * 440 * time) + 0.05 * noise


@check("audio.lfilter", "lfilter agrees with its difference equation", needs=_NEEDS, suites=SMOKE)
def lfilter(context: SuiteContext) -> None:
    """Compare a stable second-order filter with the recursion in plain Python."""
    from torchaudio.functional import lfilter as recursive

    torch = context.torch
    wave = _wave(context, 800)
    after, before = torch.tensor([1.0, -1.2, 0.5]), torch.tensor([0.3, 0.2, 0.1])
    found = recursive(
        wave.to(context.device), after.to(context.device), before.to(context.device), clamp=False
    )
    a, b, x = after.tolist(), before.tolist(), wave.tolist()
    y: list[float] = []
    for n in range(len(x)):
        value = sum(b[k] * x[n - k] for k in range(3) if n >= k)
        y.append(value - sum(a[k] * y[n - k] for k in (1, 2) if n >= k))
    wanted = torch.tensor(y, dtype=torch.float64)
    # Poles of radius sqrt(0.5): an error is damped by 0.7 a step, all of them add up to less than 10 of one.
    limit = torch.full_like(wanted, 10 * gamma(5, unit_roundoff(torch, torch.float32)) * 2)
    near(context, "lfilter", found, wanted, limit)


@check("audio.mel_spectrogram", "a mel spectrogram agrees with double precision", needs=_NEEDS, suites=SMOKE)
def mel_spectrogram(context: SuiteContext) -> None:
    """Compare with the definition: windowed Fourier transforms as products in float64, then the mel
    filters."""
    from torchaudio.transforms import MelSpectrogram

    torch = context.torch
    size, hop = 256, 128
    wave = _wave(context, 4096)
    transform = MelSpectrogram(sample_rate=8000, n_fft=size, hop_length=hop, n_mels=32, center=False)
    found = transform.to(context.device)(wave.to(context.device))
    frames = wave.double().unfold(0, size, hop) * torch.hann_window(size, dtype=torch.float64)
    angle = (
        2 * math.pi / size * torch.outer(torch.arange(size).double(), torch.arange(size // 2 + 1).double())
    )
    power = (frames @ torch.cos(angle)).square() + (frames @ torch.sin(angle)).square()
    filters = transform.mel_scale.fb.cpu().double()
    wanted = (power @ filters).t()
    # A transform's error is that of its largest line, not of each: relative to the frame's energy.
    energy = (size * frames.square().sum(dim=1)).unsqueeze(0)
    weight = filters.sum(dim=0).unsqueeze(1)
    limit = gamma(size, unit_roundoff(torch, torch.float32)) * energy * weight
    near(context, "the spectrogram", found, wanted, limit)
    peak = int(found.mean(dim=1).argmax())
    require(peak == int(wanted.mean(dim=1).argmax()), f"the tone is in mel filter {peak}")
