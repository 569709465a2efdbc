"""Group ``runtime``: kernels have native code, so that the driver compiles none when it is first used."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from .aot_child import MARK, compiled
from .children import Ended, python, run_beside
from .context import CheckFailedError, CheckSkippedError, SuiteContext, require
from .registry import check

_DEADLINE_S = 240.0


@check(
    "runtime.no_jit",
    "the driver compiles no kernel when it is first used",
    needs=("device.availability",),
    deadline_s=300,
)
def no_jit(context: SuiteContext) -> None:
    """Give the driver an empty compiler cache, run kernels of each library in a process of their own, and
    look into the cache after each: it stays empty if all had native code. Not yet run on a Max."""
    if context.backend.name != "xpu":
        raise CheckSkippedError(
            f"{context.backend.name} does not keep what it compiles in a folder of its own"
        )
    flags = getattr(context.torch._C, "_xpu_getArchFlags", None)
    if flags is not None and not flags():
        raise CheckSkippedError("this torch was built without AOT targets: the driver compiles its kernels")
    with tempfile.TemporaryDirectory(prefix="no-jit-") as name:
        folder = Path(name)
        cache = folder / "cache"
        cache.mkdir()
        # The variables: programmers-guide/COMPILER_CACHE.md of intel/compute-runtime.
        env = {"NEO_CACHE_PERSISTENT": "1", "NEO_CACHE_DIR": str(cache), "SYCL_CACHE_PERSISTENT": "0"}
        command = python(Path(__file__).with_name("aot_child.py"), str(context.device))
        (ended,) = run_beside([command], deadline_s=_DEADLINE_S, folder=folder, env=env)
        judge(context, said(ended), compiled(cache))


def said(ended: Ended) -> dict[str, int]:
    """Return the number of programs that the driver compiled, by kernel."""
    _, mark, text = ended.output.rpartition(MARK)
    require(ended.ok and mark, ended.describe("the process that runs the kernels"))
    found: dict[str, int] = json.loads(text.splitlines()[0])
    return found


def judge(context: SuiteContext, found: dict[str, int], left: set[str]) -> None:
    """Fail if a kernel was compiled; what appeared when the process ended counts too."""
    context.metrics.update({"kernels": len(found), "compiled": max(len(left), sum(found.values()))})
    late = [name for name, number in found.items() if number]
    if late or left:
        raise CheckFailedError(
            f"the driver compiled {len(left)} programs, for {', '.join(late) or 'no kernel that was run'}: "
            "these libraries have no native code for this GPU"
        )
    context.note(f"{len(found)} kernels ran with native code: {', '.join(found)}")
