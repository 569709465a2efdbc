"""Which native code an AOT target stands for.

Source of the versions: ``ocloc ids NAME`` of compute-runtime 26.27, and
third_party/aot_config_headers/platforms.h of intel/compute-runtime. Of the cores: note 2 of what that ocloc
compiled for each, and the header of what 22.43 did.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from xpubuild.artifacts.device_code import Device

_XE_HPG, _XE_HPC, _XE2, _XE3 = 0x0C07, 0x0C08, 0x0C09, 0x1E00
#: Target -> the releases that it means, each of which an image must have, and their core.
_TARGETS: dict[str, tuple[tuple[str, ...], int]] = {
    "pvc": (("12.60",), _XE_HPC),
    "pvc-vg": (("12.61",), _XE_HPC),
    "xe-hpc": (("12.60",), _XE_HPC),
    "dg2": (("12.55",), _XE_HPG),
    "dg2-g10": (("12.55",), _XE_HPG),
    "dg2-g11": (("12.56",), _XE_HPG),
    "dg2-g12": (("12.57",), _XE_HPG),
    "ats-m150": (("12.55",), _XE_HPG),
    "ats-m75": (("12.56",), _XE_HPG),
    "mtl": (("12.70",), _XE_HPG),
    "mtl-u": (("12.70",), _XE_HPG),
    "mtl-h": (("12.71",), _XE_HPG),
    "arl-u": (("12.70",), _XE_HPG),
    "arl-s": (("12.70",), _XE_HPG),
    "arl-h": (("12.74",), _XE_HPG),
    "xe-lpg": (("12.70", "12.71"), _XE_HPG),
    "bmg": (("20.1",), _XE2),
    "bmg-g21": (("20.1",), _XE2),
    "bmg-g31": (("20.2",), _XE2),
    "xe2-hpg": (("20.1",), _XE2),
    "lnl": (("20.4",), _XE2),
    "lnl-m": (("20.4",), _XE2),
    "xe2-lpg": (("20.4",), _XE2),
    "ptl": (("30.0",), _XE3),
    "ptl-h": (("30.0",), _XE3),
    "ptl-u": (("30.1",), _XE3),
    "cri": (("35.11",), 0),
}
_CORES = {_XE_HPG: "Xe-HPG", _XE_HPC: "Xe-HPC", _XE2: "Xe2", _XE3: "Xe3"}
_VERSION = re.compile(r"(\d+\.\d+)\.\d+")
_NO_TARGET = "none"


def named(targets: Iterable[str]) -> tuple[str, ...]:
    """Return the targets without ``none``, which asks for no native code."""
    return tuple(name for name in dict.fromkeys(targets) if name and name != _NO_TARGET)


def known(target: str) -> bool:
    """Whether it can be told from an image if it is for this target: names and versions, not device ids."""
    return target in _TARGETS or _VERSION.fullmatch(target) is not None


def has_code_for(devices: Iterable[Device], target: str) -> bool:
    """Whether the GPUs of an image are, or include, those of a target."""
    version = _VERSION.fullmatch(target)
    releases, core = ((version[1],), 0) if version else _TARGETS[target]
    have = tuple(devices)
    return all(
        any(device.release == release if device.config else device.core == core for device in have)
        for release in releases
    )


def describe(device: Device) -> str:
    """Return the shortest target for a GPU and its version, such as ``pvc (12.60.7)``; else its core."""
    if not device.config:
        return _CORES.get(device.core, f"core {device.core:#06x}")
    names = [name for name, (releases, _) in _TARGETS.items() if device.release in releases]
    return f"{min(names, key=len)} ({device.config})" if names else device.config
