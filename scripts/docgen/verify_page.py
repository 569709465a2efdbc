"""docs/reference/verify.md, with the checks and the peaks of the suite."""

from __future__ import annotations

from docgen import markdown as md
from docgen import verify_checks
from xpubuild.verify.suite.database_compare import SLACK
from xpubuild.verify.suite.database_samples import MOST
from xpubuild.verify.suite.database_table import known_failures
from xpubuild.verify.suite.operators import ELEMENT
from xpubuild.verify.suite.peaks import FRACTION, FRACTIONS, PEAKS

_ABOUT = """
`xpubuild verify` runs a suite of checks in the Python interpreter whose PyTorch is to be tested. Each check
reports whether this PyTorch works on this device, the error if it does not, and for some checks the
performance. The suite needs the standard library and torch; torchvision, torchaudio and triton are used if
they are installed. It works with any wheel and any torch from 2.4. `--device` is xpu, cuda or cpu: the
checks are the same, and one table (`xpubuild/verify/suite/backends.py`) lists the differences between the
backends.

- `--suite smoke` (the default) takes less than a minute; `full` runs all groups except those listed below.
- `--suite speed` runs only the group speed.
- `--suite dynamo` and `--suite upstream` run scripts and tests from a PyTorch source tree.
- `--suite operators` runs [PyTorch's operator database](#pytorchs-operator-database).
- `--no-gpu` runs the checks that need no device: for building images.
- `--only` selects ids, groups or patterns (`model.*`); the checks that they need run too.
"""

_RESULTS = """
| status | meaning |
| --- | --- |
| pass | the check passed |
| fail | a result is wrong, or a Python error was raised; the detail describes it |
| skip | the check does not apply; the detail is the reason |
| crash | the process died: the detail shows the signal, the output contains the native stack |
| timeout | the check timed out; the output shows where it was |

Each group runs in its own process, with a timeout for each check, which does not run while the process waits
for a processor that others use. A crash fails only one check; the rest of
its group continues in a new process. If a check needs another one that did not pass, it is skipped with that
reason. The exit code is 70 if a check failed, crashed or timed out. Warnings (a speed below its bound, a
cache of other runs) do not change the exit code. `--require ops` turns the absence of an optional part into
a failure: `ops`, `vision`, `audio`, `triton`; the checks of that part
run too. `--skip` leaves checks out, also where others need them.

Every workflow also checks that the work ran on the device: the profiler has to record kernels there, the
allocator has to provide the required memory, and torch must not warn that an operator ran on the CPU.
resnet50 is torchvision's if that is installed and works, otherwise the suite's own; the detail shows which.
Weights and data are generated from fixed seeds and are the same everywhere.

The group `operators` has tables: each case is an operator in one use, with its inputs. It runs in float32,
plain, with strided and permuted inputs and arriving gradients of other numbers, with more than 2^16 elements,
with a NaN that has to reach the result (where one need not, with nothing but NaN), and in the device's short
types; gradients are compared too. References are computed in float64 on the CPU; where the CPU is the
device, by another process. Like the tested interpreter it is started without `PYTHONPATH`, and it has
none of the user's packages. The limits are those of a backward stable algorithm: how much a result
changes with its inputs is measured on the reference. Three are compared: the largest error of an element,
the norm of all errors, and a factor that all elements share, so that 1 % is seen in bfloat16 too where a
result is rounded only a few times. A torch that is wrong in every process, that of the references too, is
its own reference on a CPU: what is seen then is only what two of its kernels compute differently. A case
whose operator this torch does not have, or a type without a kernel, is counted in the metrics. A
reference that is NaN or warns fails the check and says that the check is at fault.

The group `workloads` has tables of the same kind, with the same limits: a case is a small network or program.
Its reference is a definition in float64, where one is shorter than the network itself. A case also runs in
ways that change how it runs and not what it computes: under autocast to bfloat16 and float16 (with their
roundings), compiled, with gradient checkpointing (the network has to run twice), through `torch.export`, and
twice with deterministic algorithms, whose bits have to be equal unless torch warns that an operator has none.
On the CPU the compiler is AOTAutograd without inductor, which the group `compile` covers, and FlexAttention
runs without being compiled. Greedy generation has to give the words of the reference; its text is one where
the two best words are always further apart than any type's error, which the reference checks. Cases without
a kernel on this device, such as a backend of attention, are named in the detail.

`scripts/operator-mutants.py` measures what the tables notice: it replaces an operator's kernels by
slightly wrong ones and runs the cases that call it. `scripts/verify-good-runs.py` runs verify again and again
on a good torch: what fails there is a false alarm. Results:
[mutants](../evidence/operator-mutants/README.md), [runs](../evidence/verify-runs/README.md).

On a GPU with eight cores or more, groups that only compute run beside each other, in three lanes
(`operators`; `workloads` and what is short; `compile` and `model`), after those that look at streams and
memory and before `speed`, which have the device for themselves.

Training is compared with the same training in float64 on the CPU ([tolerances](tolerances.md)). The first
loss may differ by the error of a forward pass, the first gradient by that of one backward pass. The decrease
of the loss in later steps is, to first order, gradient times change, summed over parameters and steps; both
factors carry the gradient's relative error.
"""

_SPEED = """
Each figure is the median of several samples after a warm-up, measured with the device's events if it has
them. Inputs are random, because zeros give higher clocks. The end of a metric's name is its unit:
`_tflops`, `_gb_s` (10^9 bytes, read and written), `_per_s`, `_us`. Peaks are in 10^12 operations and 10^9
bytes per second. For Intel's Max series they are those of one tile: in FLAT mode a tile is a device, in
COMPOSITE mode both tiles of a 1550 are one device; the number of vector engines that the device reports
shows which.
"""

_AFTER_SPEED = """
A product or a copy below {fraction:.0%} of its peak (int8: {int8:.0%}) is a warning with the figures; below
a tenth, on an idle device, the warning names likely causes. Devices that are not in the table are only
compared with a baseline:

```console
$ xpubuild verify --suite speed --baseline speeds.json --update-baseline
$ xpubuild verify --suite speed --baseline speeds.json
```

The second command warns about each figure below 90% of the stored one. A baseline of another device is not
compared.
"""

_IMAGE = """
`--no-gpu` imports torch, resolves the dependencies of its libraries (and of those of triton, torchvision
and torchaudio) from the files without loading them, requires exactly one libsycl in an XPU build, runs a
network on the meta device, and compiles without running the result. Libraries of the driver may be missing;
the detail lists them. A torch that is not an XPU build passes; the reason of the skipped check
`image.one_libsycl` shows what it was built for.
"""

_UPSTREAM = """
```console
$ xpubuild verify --suite dynamo --source pytorch --models AlbertForMaskedLM
$ xpubuild verify --suite upstream --source pytorch --tests test/test_xpu.py
```

`--source` is a PyTorch source tree of the installed release; a workspace uses its own. dynamo runs
`benchmarks/dynamo/<suite>.py --accuracy` for each model, for inference and training, and reads the result
file; upstream runs test files with pytest, or with unittest if pytest is not installed. The details
distinguish: a tree without the script, missing packages that the script imports, a model that crashes, a
missing result, and a wrong result.
"""


_DATABASE = """
```console
$ xpubuild verify --suite operators --minutes 10
$ xpubuild verify --suite operators --baseline max1550.json --update-baseline
$ xpubuild verify --suite operators --baseline max1550.json --operators sort,nn.functional.conv2d
```

Every torch wheel contains the database of operators that PyTorch's own tests use: about 700 operators with
the types that a device should have, sample inputs and tolerances. `--suite operators` runs each operator in
each of its types: forward, with inputs that are not contiguous, with empty inputs, in place and with `out=`
where it has these, gradients, and forward-mode derivatives in the long types. Elementwise operators,
reductions and others that scale get one input above 2^16 elements too, reductions also one with that many
results. The first sample is repeated with other numbers, and one has a NaN, which has to arrive where it
does on the CPU. Up to {most} of upstream's samples are used per type. The database imports numpy,
expecttest and, in older releases, packaging; if one is missing, nothing runs (exit code 40), and the
command that adds it is shown.
References come from another process on the CPU: the function of NumPy in the database if there is one, else
the same operator in double precision. That process is started without `PYTHONPATH`. A result may be off by
upstream's tolerance for the operator (at most {slack:g} times `torch.testing`'s, since intermediate results
are rounded too) and by what {element:g} roundings of the inputs change. Elements of Fourier transforms are
sums of all inputs, so that their roundings are compared with the root mean square of the result.

Some results are not unique. Where values tie, `sort`, `argsort`, `topk`, `kthvalue`, `mode`, `median` and
`nanmedian` may return other indices than the reference if they point to the same values and each to another
element; inputs in floating-point types are made distinct where the type has enough numbers. The
eigenvalues of `linalg.eig` may come in another order. What a kernel refuses for one sample ("only supports
...", "not supported on ...") is left out, and the detail says so; a missing type or kernel is a failure.

The result is a table of operators and types. Its states add up to the total, which is always shown:

| state | meaning |
| --- | --- |
| passed | all parts that were run are right |
| failed | a part is wrong or raised an error; the detail says which |
| known failure | it is bad, and a list says so for this device and release |
| skipped | the results are random, upstream's own test skips it, it runs on the CPU, or \
the device refuses all samples |
| crashed | its process died |
| timed out | it took longer than three minutes |
| not run | the time of `--minutes` was over, or the operator crashed in another type |

`operators.json` ([xpubuild.verify-operators/1](documents.md#xpubuildverify-operators1)) is in the folder of
`--results` (a workspace: `build/verify-operators`); `--output` contains the table too, and the page of the
workspace draws it. `results.jsonl` in the same folder has one line for each finished pair: after an
interruption the same command goes on where it stopped. The folder is for one torch, device and driver;
remove it to start again. With `--python` and no `--results`, nothing is kept.

Operators are spread over processes, and over all devices. A crash or a hang ends one process and costs one
operator. With `--minutes N` no operator starts after N minutes. The most used ones run first: the order is
how often training steps of resnet50, Llama, Bert, T5 and ViT call them
(`xpubuild/verify/suite/database_order.json`).

Known failures are in `xpubuild/verify/suite/database_known*.json`, with operators, types, parts, device,
releases, issue, source and the day on which an entry expires. `scripts/update-known-failures.py` takes those
of xpu from the skip lists of torch-xpu-ops ({xpu} entries, releases 2.8 to 2.13); those of the CPU ({cpu}
entries) and of CUDA ({cuda}, seen on an H200 and an H100) are from
[runs of the whole database](../evidence/verify-ops/README.md). A known failure that passes is a warning.
These lists age; what counts is the last accepted run on the same device and driver: with
`--update-baseline` the baseline keeps which pairs passed and which were bad. A later run names regressions,
and what was bad before and still is does not fail it.
"""


def _database() -> str:
    devices = [entry["device"] for entry in known_failures()]
    known = {kind: devices.count(kind) for kind in ("xpu", "cpu", "cuda")}
    return _DATABASE.format(most=MOST, slack=SLACK, element=ELEMENT, **known)


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
        "## Without a GPU", _IMAGE, "## PyTorch's own scripts", _UPSTREAM,
        "## PyTorch's operator database", _database(), "## Evidence",
        "[The complete suite on two NVIDIA H200](../evidence/verify-cuda/README.md).",
        "[The operator database on a CPU and on an NVIDIA H200](../evidence/verify-ops/README.md).",
    ]  # fmt: skip
    return "\n".join(f"{part.strip()}\n" for part in parts)
