"""Whether torch can be imported, tested in a subprocess, because the import may crash or hang."""

from __future__ import annotations

import shlex

from xpubuild.doctor.kit import RUN, Fix, Look, Outcome, check, finding, ok, skip, warn
from xpubuild.doctor.probes.children import Ending
from xpubuild.doctor.probes.torch_count import TorchCount, torch_count


@check(
    "torch.import",
    profiles=RUN,
    live=True,
    families=("A-conda-or-mixed-libstdcxx", "B-two-sycl-runtimes-or-stale-jit-cache"),
    deadline_s=40,
)
def torch_import(look: Look) -> Outcome:
    """The installed torch can be imported.

    Imports torch in a subprocess of the selected Python, in the caller's environment, and reports how
    that ended: the last line of an exception (`undefined symbol`, a library that is not found), the
    signal of a crash, or a timeout. The usual reason is that libraries of another oneAPI release, of
    conda or of the system are found before torch's own; the checks `shadow.*` search for them.
    """
    torch = torch_count(look)
    if torch.ending is None:
        return skip("no Python is selected or active")
    if torch.ending.how == "missing":
        return Outcome("error", f"{look.python} could not be started: {torch.ending.words}")
    evidence = {"ended": torch.ending.how, "stage": torch.ending.stage, "said": torch.ending.words}
    trace = Fix(
        "check which libraries it loads, and deactivate conda and other oneAPI environments",
        (
            f"{shlex.quote(str(look.python))} -X faulthandler -c 'import torch'",
            "xpubuild doctor --only shadow --only oneapi",
        ),
    )
    if torch.hollow:
        return warn("the folder of torch has no __init__.py: the installation is incomplete", trace)
    if torch.version is not None:
        return ok(f"torch {torch.version}", **evidence)
    if torch.import_failed:
        return finding(ended(torch.ending, "torch"), trace, **evidence)
    return skip(_unasked(torch.ending), **evidence)


def _unasked(ending: Ending) -> str:
    """Return why torch was not imported: it is not installed, or the interpreter failed earlier."""
    return "torch is not installed" if ending.how == "ok" else ended(ending, "the interpreter")


def ended(ending: Ending, what: str) -> str:
    """Return how a subprocess ended, with the last line of its standard error."""
    last = next((line.strip() for line in reversed(ending.words.splitlines()) if line.strip()), "")
    return ending.told(what) + (f": {last}" if last else "")


def not_imported(torch: TorchCount) -> bool:
    """Whether torch is installed but could not be imported."""
    return torch.hollow or torch.import_failed
