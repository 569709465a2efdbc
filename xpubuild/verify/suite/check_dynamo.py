"""Group ``dynamo``: PyTorch's own accuracy scripts for HuggingFace, TIMM and TorchBench models.

``benchmarks/dynamo/<suite>.py --accuracy --bfloat16 --inference|--training --inductor -d <device>
--only <model> --output <file>`` of the source tree appends a line per model to a CSV file, with a column
``accuracy``.
"""

from __future__ import annotations

import csv
import importlib
import os
import tempfile
from pathlib import Path

from .children import Ended, python, run_one
from .context import CheckFailedError, SuiteContext, require
from .registry import check
from .source_tree import names, need_packages, script, tree

_SUITE = ("dynamo",)
#: A few of each suite that need no download beyond their code and run in minutes.
_MODELS = {
    "huggingface": ("AlbertForMaskedLM", "DistilBertForMaskedLM", "T5Small"),
    "timm_models": ("mobilenetv2_100", "resnet50", "visformer_small"),
    "torchbench": ("resnet18", "BERT_pytorch", "mobilenet_v2"),
}
_PACKAGES = {"huggingface": ("transformers",), "timm_models": ("timm",), "torchbench": ("torchbenchmark",)}
#: What the scripts write for a model that gave the right results, or that cannot be judged.
_RIGHT = frozenset({"pass", "pass_due_to_skip"})
_PER_MODEL_S = 1800.0
_DEADLINE_S = 4 * 3600.0


def read_accuracies(path: Path) -> dict[str, str]:
    """Return the accuracy column by model of a result file; the last line of each counts.

    Raises CheckFailedError where it has no such column.
    """
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    if rows and not {"name", "accuracy"} <= set(rows[0]):
        raise CheckFailedError(
            f"{path.name} lacks the columns name and accuracy: {', '.join(map(str, rows[0]))}"
        )
    return {row["name"]: row["accuracy"] for row in rows if row["name"]}


def _command(context: SuiteContext, program: Path, model: str, mode: str, result: Path) -> list[str]:
    return python(
        program, "--accuracy", "--bfloat16", f"--{mode}", "--inductor", "-d", context.backend.name,
        "--only", model, "--output", result,
    )  # fmt: skip


def _run(context: SuiteContext, suite: str) -> None:
    importlib.invalidate_caches()
    root = tree(context)
    program = script(root, f"benchmarks/dynamo/{suite}.py")
    need_packages(
        f"benchmarks/dynamo/{suite}.py", _PACKAGES[suite] if not context.options.get("models") else ()
    )
    models = names(context, "models", _MODELS[suite])
    environment = {
        "PYTHONPATH": os.pathsep.join(
            filter(None, (str(root / "benchmarks" / "dynamo"), os.environ.get("PYTHONPATH")))
        )
    }
    wrong: list[str] = []
    results: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix=f"{suite}-") as name:
        folder = Path(name)
        for mode in ("inference", "training"):
            for model in models:
                result = folder / f"{suite}_{mode}.csv"
                command = _command(context, program, model, mode, result)
                ended = run_one(command, deadline_s=_PER_MODEL_S, folder=folder, cwd=folder, env=environment)
                verdict = _verdict(model, ended, read_accuracies(result))
                results[f"{model}/{mode}"] = verdict
                if verdict not in _RIGHT:
                    wrong.append(f"{model} ({mode}): {verdict}")
    context.metric("accuracy", results)
    require(not wrong, "; ".join(wrong[:4]) + (f" and {len(wrong) - 4} more" if len(wrong) > 4 else ""))
    context.note(f"{len(models)} models, inference and training")


def _verdict(model: str, ended: Ended, found: dict[str, str]) -> str:
    """Return the script's own result, or how it ended without one."""
    if model in found and not ended.timed_out and ended.status >= 0:
        return found[model]
    if not ended.ok:
        return ended.describe("the script")
    return "the script wrote no result"


def _declare(suite: str, title: str) -> None:
    def run(context: SuiteContext) -> None:
        _run(context, suite)

    run.__doc__ = f"Run benchmarks/dynamo/{suite}.py for a few models and check its results."
    check(f"dynamo.{suite}", title, suites=_SUITE, deadline_s=_DEADLINE_S)(run)


_declare("huggingface", "PyTorch's accuracy script for HuggingFace models passes")
_declare("timm_models", "PyTorch's accuracy script for TIMM models passes")
_declare("torchbench", "PyTorch's accuracy script for TorchBench models passes")
