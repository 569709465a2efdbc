"""Whether torch can be imported, tested in a subprocess, because the import may crash or hang."""

from __future__ import annotations

import shlex

from xpubuild.doctor.context import CheckContext
from xpubuild.doctor.model import Check, Fix, Outcome
from xpubuild.doctor.probes.children import Ending
from xpubuild.doctor.probes.machine import RUN
from xpubuild.doctor.probes.torch_count import SECONDS, TorchCount, torch_count


class TorchImport(Check):
    """The installed torch can be imported."""

    id = "torch.import"
    title = "The installed torch can be imported"
    profiles = RUN
    live = True
    families = ("A-conda-or-mixed-libstdcxx", "B-two-sycl-runtimes-or-stale-jit-cache")
    deadline_s = 2 * SECONDS
    explanation = """
    Imports torch in a subprocess of the selected Python, in the caller's environment, and reports how
    that ended: the last line of an exception (`undefined symbol`, a library that is not found), the
    signal of a crash, or a timeout. The usual reason is that libraries of another oneAPI release, of
    conda or of the system are found before torch's own; the checks `shadow.*` search for them.
    """

    def run(self, context: CheckContext) -> Outcome:
        """Evaluate how the import ended."""
        torch = context.probe(torch_count)
        if torch.ending is None:
            return self.skip("no Python is selected or active")
        if torch.ending.how == "missing":
            return Outcome("error", f"{context.python} could not be started: {torch.ending.words}")
        evidence = {"ended": torch.ending.how, "stage": torch.ending.stage, "said": torch.ending.words}
        look = Fix(
            "check which libraries it loads, and deactivate conda and other oneAPI environments",
            (
                f"{shlex.quote(str(context.python))} -X faulthandler -c 'import torch'",
                "xpubuild doctor --only shadow --only oneapi",
            ),
        )
        if torch.hollow:
            return self.warn("the folder of torch has no __init__.py: the installation is incomplete", look)
        if torch.version is not None:
            return self.ok(f"torch {torch.version}", **evidence)
        if torch.import_failed:
            return self.found(ended(torch.ending, "torch"), look, **evidence)
        return self.skip(_unasked(torch.ending), **evidence)


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
