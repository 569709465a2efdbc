"""Peak performance of devices, as stated by their vendors.

Figures of Intel's Max series follow from units and clock, for one stack (tile): 512 vector engines of a 1550
and 448 of a 1100 at 1.6 and 1.55 GHz; per engine and clock 32 float32 or float64 operations, and with its
matrix engine 256 in TF32, 512 in bfloat16 and float16, 1024 in int8. In FLAT mode each stack is a device, in
COMPOSITE both stacks of a 1550 are one: the number of vector engines that the device reports says which.
"""

from __future__ import annotations

from dataclasses import dataclass

_MAX_SERIES = (
    "https://www.intel.com/content/www/us/en/developer/articles/technical/"
    "intel-data-center-gpu-max-series-overview.html"
)
_H100 = "https://www.nvidia.com/en-us/data-center/h100/ (SXM, dense)"
_H200 = "https://www.nvidia.com/en-us/data-center/h200/ (SXM, dense)"

#: Below this share of a peak something is wrong with device, clocks or build. Large products reach 0.6 to
#: 0.85, streaming kernels 0.6 to 0.9 (docs.alcf.anl.gov/aurora/node-performance-overview, Max series).
FRACTION = 0.5
#: A product of int8 writes a result four times as wide as its operands: it stays further below.
FRACTIONS = {"int8_tflops": 0.4}

#: Below this share it is no matter of tuning.
FAR_BELOW = 0.1
CAUSES = (
    "likely causes are a low clock (power or temperature limit), one tile where two are counted, a selector "
    "that chose another device (ONEAPI_DEVICE_SELECTOR, ZE_AFFINITY_MASK, CUDA_VISIBLE_DEVICES), or a "
    "fall-back to slow kernels or the CPU"
)


@dataclass(frozen=True)
class Peak:
    """Peaks of one device, or of one of its tiles.

    Attributes:
        name: part of the name that the device reports.
        engines: vector engines of one tile; 0 where the device is never more than one.
        tflops: by type of the operands.
        gb_s: of its memory, in 10^9 bytes.
        source: where the figures are from.
    """

    name: str
    engines: int
    tflops: dict[str, float]
    gb_s: float
    source: str


def _by_type(float64: float, float32: float, tf32: float, half: float, int8: float) -> dict[str, float]:
    types = ("float64", "float32", "tf32", "bfloat16", "float16", "int8")
    return dict(zip(types, (float64, float32, tf32, half, half, int8)))


_HOPPER = _by_type(66.9, 66.9, 494.7, 989.4, 1978.9)

#: The more exact name first.
PEAKS = (
    Peak("Data Center GPU Max 1550", 512, _by_type(26.2, 26.2, 209.7, 419.4, 838.9), 1638.4, _MAX_SERIES),
    Peak("Data Center GPU Max 1100", 448, _by_type(22.2, 22.2, 177.8, 355.5, 711.1), 1228.8, _MAX_SERIES),
    Peak("NVIDIA H200", 0, _HOPPER, 4800.0, _H200),
    Peak("NVIDIA H100 80GB HBM3", 0, _HOPPER, 3350.0, _H100),
)


def find(name: str, engines: int) -> tuple[Peak, int] | None:
    """Return the peak of a device and the number of tiles that it is made of, None for an unknown one."""
    for peak in PEAKS:
        if peak.name in name:
            return peak, max(1, round(engines / peak.engines)) if peak.engines and engines else 1
    return None
