"""The number of XPU devices of the selected interpreter's torch, read in a subprocess: it may crash."""

from __future__ import annotations

from xpubuild.doctor.kit import Look, once
from xpubuild.doctor.probes.children import Ending, child
from xpubuild.frozen import frozen

#: Importing torch from a network file system is slow.
SECONDS = 20.0
#: The stage that is announced before the import.
IMPORTING = "import torch"
_ASK = """
import importlib.util, json, sys
sys.path[:] = [entry for entry in sys.path if entry]
spec = importlib.util.find_spec("torch")
if spec is None or spec.origin is None:
    sys.exit(print(json.dumps({"torch": None, "hollow": spec is not None})))
print(json.dumps({"stage": "import torch"}), flush=True)
import torch
print(json.dumps({"torch": torch.__version__, "stage": "torch.xpu.device_count"}), flush=True)
xpu = getattr(torch, "xpu", None)
built = bool(xpu) and bool(getattr(xpu, "_is_compiled", lambda: False)())
print(json.dumps({"built": built, "count": xpu.device_count() if built else 0}), flush=True)
"""


@frozen
class TorchCount:
    """``version`` is None without a torch that can be imported; ``built`` whether it is an XPU build.

    ``hollow`` is whether there is a folder torch without ``__init__.py``.
    """

    version: str | None = None
    built: bool = False
    count: int = 0
    ending: Ending | None = None
    hollow: bool = False

    @property
    def import_failed(self) -> bool:
        """Whether the import began and failed."""
        ending = self.ending
        return (
            self.version is None and ending is not None and ending.how != "ok" and ending.stage == IMPORTING
        )


@once
def torch_count(look: Look) -> TorchCount:
    """Query torch."""
    if look.python is None:
        return TorchCount()
    ending = child(look, [str(look.python), "-c", _ASK], seconds=SECONDS)
    version = ending.value("torch")
    return TorchCount(
        str(version) if version else None,
        bool(ending.value("built")),
        int(ending.value("count", 0)),
        ending,
        bool(ending.value("hollow")),
    )
