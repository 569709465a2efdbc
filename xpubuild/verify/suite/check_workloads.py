"""Group ``workloads``: networks and other programs of today, small, against references in float64."""

from __future__ import annotations

import os

from .context import SuiteContext, require
from .operators import run_table
from .registry import FULL, check

_DEADLINE_S = 900
#: Name of the table -> title of its check, in the order they run.
_TABLES = {
    "decoder": "a decoder transformer trains, infers and generates correctly",
    "attention": "each backend of attention, and FlexAttention, is correct",
    "blocks": "a U-Net block, an encoder with padding, LSTM and GRU are correct",
}
#: What xpu runs on the CPU in some releases: torch's own encoder layer.
_MAY_FALL_BACK = ("blocks",)
#: Fewer bytes than any of them takes on the device.
_LEAST_BYTES = 2**16


def _declare(name: str, title: str) -> None:
    def table(context: SuiteContext) -> None:
        from .placement import on_device, recording

        # cuBLAS repeats its results only with this, and reads it before its first product.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        if name not in _MAY_FALL_BACK or not context.backend.streams:
            with on_device(context, _LEAST_BYTES):
                return run_table(context, name)
        with recording(context) as recorder:
            run_table(context, name)
        require(recorder.names is None or recorder.kernels, "the profiler recorded no kernel on the device")
        for fallback in sorted(set(recorder.fallbacks)):
            context.warn(fallback)
        return None

    check(f"workloads.{name}", title, suites=FULL, deadline_s=_DEADLINE_S)(table)


for _name, _title in _TABLES.items():
    _declare(_name, _title)
