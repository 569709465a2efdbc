"""docs/reference/verify.md, with the checks and the peaks that the suite holds."""

from __future__ import annotations

from docgen import markdown as md
from docgen import verify_checks
from xpubuild.verify.suite.peaks import FRACTION, FRACTIONS, PEAKS

_ABOUT = """
`xpubuild verify` runs a suite of checks inside the interpreter that has the PyTorch to prove, and says check
by check whether this PyTorch works on this device, how exactly it fails, and how fast it is. The suite needs
the standard library and torch; torchvision, torchaudio and triton are used where they are. It works with any
wheel and any torch from 2.4 on. `--device` is xpu, cuda or cpu: the checks are the same, and what differs
between the backends is in one table (`xpubuild/verify/suite/backends.py`).

- `--suite smoke` (the default) answers within a minute; `full` runs all groups but those below it.
- `--suite speed` runs the group speed alone.
- `--suite dynamo` and `--suite upstream` run scripts and tests of a source tree of PyTorch.
- `--no-gpu` runs what needs no device: for builders of images.
- `--only` takes ids, groups or patterns (`model.*`); what they need runs too.
"""

_RESULTS = """
| status | meaning |
| --- | --- |
| pass | it works |
| fail | a result is wrong, or a Python error was raised; the detail is the finding |
| skip | it does not apply here; the detail is the reason |
| crash | the process died: the signal is named, the output holds the native stack |
| timeout | it ran past its deadline; the output shows where it was |

Each group runs in a process of its own with a deadline per check. A crash costs one check; the rest of its
group goes on in a fresh process. A check whose needs were not met is a skip that names the need. Exit code 70
where any check failed, crashed or timed out. Warnings (a speed below its bound, a cache of other runs) change
no exit code. `--require ops` makes the absence of a part a failure: `ops`, `vision`, `audio`, `triton`.

That the work ran on the device is part of every workflow: the profiler has to see kernels there, the
allocator has to have given out the memory that it takes, and torch must not have said that an operator ran on
the CPU. resnet50 is torchvision's where that is installed and works, else the suite's own; the detail says
which. Weights and data are generated from fixed seeds and the same everywhere.

Training is compared with the same training in float64 on the CPU ([tolerances](tolerances.md)). The first
loss may be off by the error of a forward pass, the first gradient by that of one backward pass. What later
steps took from the loss is, to first order, gradient times change, summed over parameters and steps; each
side of that product carries the gradient's relative error.
"""

_SPEED = """
Each figure is the median of several samples after a warm-up, by the device's own events where it has them.
Inputs are random: with zeros, clocks stay higher. The end of a metric's name is its unit: `_tflops`, `_gb_s`
(10^9 bytes, read and written), `_per_s`, `_us`. Peaks are in 10^12 operations and 10^9 bytes per second. Of
Intel's Max series they are those of one tile: in FLAT mode a tile is a device, in COMPOSITE both tiles of a
1550 are one; the number of vector engines that the device reports says which.
"""

_AFTER_SPEED = """
A product or a copy below {fraction:.0%} of its peak (int8: {int8:.0%}) is a warning with the figures.
Devices that the table does not hold are compared with a baseline only:

```console
$ xpubuild verify --suite speed --baseline speeds.json --update-baseline
$ xpubuild verify --suite speed --baseline speeds.json
```

The second warns of each figure below 90% of the stored one. A baseline of another device is not compared.
"""

_IMAGE = """
`--no-gpu` imports torch, follows what its libraries (and those of triton, torchvision and torchaudio beside
it) need from the files without loading them, wants exactly one libsycl in an XPU build, runs a network on the
meta device, and compiles without running. Libraries of the driver may lack; the detail names them. A torch
that is no XPU build passes, and the skip of `image.one_libsycl` says what it is.
"""

_UPSTREAM = """
```console
$ xpubuild verify --suite dynamo --source pytorch --models AlbertForMaskedLM
$ xpubuild verify --suite upstream --source pytorch --tests test/test_xpu.py
```

`--source` is a tree of PyTorch of the release that is installed; a workspace brings its own. dynamo runs
`benchmarks/dynamo/<suite>.py --accuracy` per model, for inference and training, and reads the result file;
upstream runs test files with pytest, or unittest where there is none. A tree without the script, packages
that it imports and that are not installed, a model that crashes, one without a result and one with a wrong
result are each said so.
"""


def _peaks() -> str:
    kinds = ("float64", "float32", "tf32", "bfloat16", "float16", "int8")
    rows = [(peak.name, *(f"{peak.tflops[kind]:g}" for kind in kinds), f"{peak.gb_s:g}") for peak in PEAKS]
    return md.table(("device", *kinds, "memory"), rows)


def page() -> str:
    """Return the page."""
    after = _AFTER_SPEED.format(fraction=FRACTION, int8=FRACTIONS["int8_tflops"])
    parts = [
        md.head("verify", "the checks and peaks of xpubuild/verify/suite"), _ABOUT, "## Results", _RESULTS,
        "## Checks", verify_checks.section(), "## Speed", _SPEED, _peaks(), after,
        "## Without a GPU", _IMAGE, "## PyTorch's own scripts", _UPSTREAM, "## Evidence",
        "[The whole suite on two NVIDIA H200](../evidence/verify-cuda/README.md).",
    ]  # fmt: skip
    return "\n".join(f"{part.strip()}\n" for part in parts)
