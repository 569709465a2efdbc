"""Groups ``upstream`` and ``dynamo``: test files and accuracy scripts of PyTorch's source tree."""

from __future__ import annotations

import csv
import importlib
import importlib.util
import os
import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

from .children import Ended, python, run_one
from .context import CheckFailedError, CheckSkippedError, SuiteContext, require
from .registry import check

#: By device, the files that say most about it; by suite of benchmarks/dynamo, a few models that need no
#: download beyond their code and run in minutes.
_TESTS = {
    "xpu": ("test/test_xpu.py", "test/xpu/test_gemm.py", "test/xpu/test_conv.py",
            "test/inductor/test_triton_kernels.py"),
    "cuda": ("test/test_cuda.py",),
    "cpu": ("test/test_view_ops.py",),
}  # fmt: skip
_MODELS = {
    "huggingface": ("AlbertForMaskedLM", "DistilBertForMaskedLM", "T5Small"),
    "timm_models": ("mobilenetv2_100", "resnet50", "visformer_small"),
    "torchbench": ("resnet18", "BERT_pytorch", "mobilenet_v2"),
}
#: What PyTorch's test utilities import, and each suite of models.
_PACKAGES = ("expecttest", "hypothesis")
_PACKAGES_OF = {"huggingface": ("transformers",), "timm_models": ("timm",), "torchbench": ("torchbenchmark",)}
#: What the scripts write for a model that gave the right results, or that cannot be judged.
_RIGHT = frozenset({"pass", "pass_due_to_skip"})
_PER_FILE_S, _PER_MODEL_S, _DEADLINE_S = 3600.0, 1800.0, 4 * 3600.0


def tree(context: SuiteContext) -> Path:
    """Return the tree; without the option the check is skipped, a missing folder is a failure."""
    named = context.options.get("source")
    if not named:
        raise CheckSkippedError("needs a PyTorch source tree (--source)")
    root = Path(named)
    if not root.is_dir():
        raise CheckFailedError(f"the --source folder {root} does not exist")
    return root


def script(root: Path, name: str) -> Path:
    """Return a script of the tree. Fails if the tree has no such script."""
    path = root / name
    if not path.is_file():
        raise CheckFailedError(
            f"{root} contains no {name}: it is not a PyTorch source tree, or one of another release"
        )
    return path


def need_packages(what: str, names: Iterable[str]) -> None:
    """Fail with the names of the packages that a script imports and this environment lacks."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise CheckFailedError(f"{what} needs {', '.join(missing)}, which are not installed")


def names(context: SuiteContext, option: str, default: Iterable[str]) -> list[str]:
    """Return the names in an option, or the default."""
    given = context.options.get(option, "")
    return [name for name in given.split(",") if name] or list(default)


def _beside(folder: Path) -> dict[str, str]:
    """Return the environment in which scripts import what lies in a folder of the tree."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))}


def _require_none(bad: list[str]) -> None:
    require(not bad, "; ".join(bad[:4]) + (f" and {len(bad) - 4} more" if len(bad) > 4 else ""))


@dataclass
class Counts:
    """How the cases of one file ended; ``bad`` holds names and first lines of those that failed."""

    run: int = 0
    skipped: int = 0
    bad: list[str] = field(default_factory=list)


def read_junit(path: Path) -> Counts:
    """Return the results in a JUnit file of pytest. Raises CheckFailedError if it is not one."""
    try:
        root = ET.parse(path).getroot()  # noqa: S314 - written by pytest a moment ago
    except (OSError, ET.ParseError) as error:
        raise CheckFailedError(f"{path.name} is not a JUnit report: {error}") from error
    counts = Counts()
    for case in root.iter("testcase"):
        counts.run += 1
        problem = case.find("failure")
        problem = case.find("error") if problem is None else problem
        if problem is not None:
            counts.bad.append(f"{case.get('name')}: {(problem.get('message') or '').splitlines()[:1]}")
        elif case.find("skipped") is not None:
            counts.skipped += 1
    return counts


def read_unittest(output: str) -> Counts:
    """Return the results in unittest's last lines."""
    ran = re.search(r"^Ran (\d+) tests? in", output, re.MULTILINE)
    if ran is None:
        raise CheckFailedError("the tests ended without a summary")
    skipped = re.search(r"skipped=(\d+)", output)
    bad = re.findall(r"^(?:FAIL|ERROR): (\S+)", output, re.MULTILINE)
    return Counts(int(ran[1]), int(skipped[1]) if skipped else 0, bad)


def _run_file(context: SuiteContext, root: Path, name: str, folder: Path) -> Counts:
    """Run one file from the tree's test folder, where it finds its imports."""
    path = script(root, name)
    report = folder / "junit.xml"
    report.unlink(missing_ok=True)
    environment = {"PYTORCH_TESTING_DEVICE_ONLY_FOR": context.backend.name, **_beside(root / "test")}
    if importlib.util.find_spec("pytest") is not None:
        words = ("-q", "-p", "no:cacheprovider", f"--junit-xml={report}", "--rootdir", root / "test")
        command = [*python(Path("-m"), "pytest", *words), str(path)]
    else:
        command = python(path, "-v")
    ended = run_one(command, deadline_s=_PER_FILE_S, folder=folder, cwd=path.parent, env=environment)
    return _counts(name, ended, report)


def _counts(name: str, ended: Ended, report: Path) -> Counts:
    # 0 and 1 are pytest's and unittest's own words; a signal or another status is the end of the interpreter.
    if ended.timed_out or ended.status not in (0, 1):
        raise CheckFailedError(ended.describe(name))
    counts = read_junit(report) if report.is_file() else read_unittest(ended.output)
    if ended.status == 1 and not counts.bad:
        raise CheckFailedError(ended.describe(name))
    return counts


@check("upstream.tests", "PyTorch's own tests for the device", suites=("upstream",), deadline_s=_DEADLINE_S)
def tests(context: SuiteContext) -> None:
    """Run a default list of files, or those of --tests, each in its own process."""
    root = tree(context)
    chosen = names(context, "tests", _TESTS[context.backend.name])
    for name in chosen:
        script(root, name)
    if chosen and (root / "test" / "run_test.py").is_file():
        need_packages("test/", _PACKAGES)
    bad: list[str] = []
    ran = skipped = 0
    with tempfile.TemporaryDirectory(prefix="upstream-") as folder:
        for name in chosen:
            try:
                counts = _run_file(context, root, name, Path(folder))
            except CheckFailedError as finding:
                bad.append(str(finding))
                continue
            ran, skipped = ran + counts.run, skipped + counts.skipped
            bad += [f"{name}: {case}" for case in counts.bad]
    context.metric("run", ran)
    context.metric("skipped", skipped)
    context.metric("failed", len(bad))
    _require_none(bad)
    require(ran > skipped, f"all {ran} tests were skipped")
    context.note(f"{ran - skipped} tests of {len(chosen)} files")


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


def _run(context: SuiteContext, suite: str) -> None:
    importlib.invalidate_caches()
    root = tree(context)
    program = script(root, f"benchmarks/dynamo/{suite}.py")
    need_packages(
        f"benchmarks/dynamo/{suite}.py", () if context.options.get("models") else _PACKAGES_OF[suite]
    )
    models = names(context, "models", _MODELS[suite])
    environment = _beside(root / "benchmarks" / "dynamo")
    wrong: list[str] = []
    results: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix=f"{suite}-") as name:
        folder = Path(name)
        for mode in ("inference", "training"):
            for model in models:
                result = folder / f"{suite}_{mode}.csv"
                command = python(
                    program, "--accuracy", "--bfloat16", f"--{mode}", "--inductor", "-d",
                    context.backend.name, "--only", model, "--output", result,
                )  # fmt: skip
                ended = run_one(command, deadline_s=_PER_MODEL_S, folder=folder, cwd=folder, env=environment)
                verdict = _verdict(model, ended, read_accuracies(result))
                results[f"{model}/{mode}"] = verdict
                if verdict not in _RIGHT:
                    wrong.append(f"{model} ({mode}): {verdict}")
    context.metric("accuracy", results)
    _require_none(wrong)
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
    check(f"dynamo.{suite}", title, suites=("dynamo",), deadline_s=_DEADLINE_S)(run)


for _suite, _name in (("huggingface", "HuggingFace"), ("timm_models", "TIMM"), ("torchbench", "TorchBench")):
    _declare(_suite, f"PyTorch's accuracy script for {_name} models passes")
