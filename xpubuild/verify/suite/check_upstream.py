"""Groups ``upstream`` and ``dynamo``: test files and accuracy scripts of PyTorch's source tree."""

from __future__ import annotations

import csv
import importlib.util
import os
import tempfile
from collections.abc import Iterable
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
#: What PyTorch's tests import, and each suite of models.
_PACKAGES = ("pytest", "expecttest", "hypothesis")
_PACKAGES_OF = {"huggingface": ("transformers",), "timm_models": ("timm",), "torchbench": ("torchbenchmark",)}
#: What the scripts write for a model that gave the right results, or that cannot be judged.
_RIGHT = frozenset({"pass", "pass_due_to_skip"})
_PER_FILE_S, _PER_MODEL_S, _DEADLINE_S = 3600.0, 1800.0, 4 * 3600.0


def _script(context: SuiteContext, *names: str) -> list[Path]:
    """Return scripts of the tree: skips without the option, fails where one of them is missing."""
    named = context.options.get("source")
    if not named:
        raise CheckSkippedError("needs a PyTorch source tree (--source)")
    require(Path(named).is_dir(), f"the --source folder {named} does not exist")
    missing = [name for name in names if not Path(named, name).is_file()]
    said = "it is not a PyTorch source tree, or one of another release"
    require(not missing, f"{named} contains no {', '.join(missing)}: {said}")
    return [Path(named, name) for name in names]


def need_packages(what: str, names: Iterable[str]) -> None:
    """Fail with the names of the packages that a script imports and this environment lacks."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    require(not missing, f"{what} needs {', '.join(missing)}, which are not installed")


def _chosen(context: SuiteContext, option: str, default: Iterable[str]) -> list[str]:
    """Return the names in an option, or the default."""
    return [name for name in context.options.get(option, "").split(",") if name] or list(default)


def _beside(folder: Path) -> dict[str, str]:
    """Return the environment in which scripts import what lies in a folder of the tree."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))}


def _require_none(bad: list[str]) -> None:
    require(not bad, "; ".join(bad[:4]) + (f" and {len(bad) - 4} more" if len(bad) > 4 else ""))


def _run_file(context: SuiteContext, name: str, path: Path, folder: Path) -> tuple[int, int, list[str]]:
    """Return how many cases of a file ran and were skipped, and what failed."""
    report, home = folder / "junit.xml", Path(context.options["source"], "test")
    report.unlink(missing_ok=True)
    words = ("-q", "-p", "no:cacheprovider", f"--junit-xml={report}", "--rootdir", home, path)
    env = {"PYTORCH_TESTING_DEVICE_ONLY_FOR": context.backend.name, **_beside(home)}
    command = python(Path("-m"), "pytest", *words)
    ended = run_one(command, deadline_s=_PER_FILE_S, folder=folder, cwd=path.parent, env=env)
    # 0 and 1 are pytest's own words; a signal or another status is the end of the interpreter.
    if ended.timed_out or ended.status not in (0, 1) or not report.is_file():
        raise CheckFailedError(ended.describe(name))
    ran, skipped, bad = 0, 0, []
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - written by pytest a moment ago
        ran += 1
        skipped += case.find("skipped") is not None
        problems = (*case.findall("failure"), *case.findall("error"))
        said = [(problem.get("message") or "").splitlines()[:1] for problem in problems]
        bad += [f"{name}: {case.get('name')}: {line}" for line in said]
    if ended.status == 1 and not bad:
        raise CheckFailedError(ended.describe(name))
    return ran, skipped, bad


@check("upstream.tests", "PyTorch's own tests for the device", suites=("upstream",), deadline_s=_DEADLINE_S)
def tests(context: SuiteContext) -> None:
    """Run a default list of files, or those of --tests, each in its own process."""
    chosen = _chosen(context, "tests", _TESTS[context.backend.name])
    paths = _script(context, *chosen)
    whole = Path(context.options["source"], "test", "run_test.py").is_file()
    need_packages("test/", _PACKAGES if whole else _PACKAGES[:1])
    bad: list[str] = []
    ran = skipped = 0
    with tempfile.TemporaryDirectory(prefix="upstream-") as folder:
        for name, path in zip(chosen, paths):
            try:
                found = _run_file(context, name, path, Path(folder))
            except CheckFailedError as finding:
                bad.append(str(finding))
                continue
            ran, skipped, bad = ran + found[0], skipped + found[1], bad + found[2]
    context.metrics.update(run=ran, skipped=skipped, failed=len(bad))
    _require_none(bad)
    require(ran > skipped, f"all {ran} tests were skipped")
    context.note(f"{ran - skipped} tests of {len(chosen)} files")


def _accuracy(context: SuiteContext, suite: str) -> None:
    (program,) = _script(context, f"benchmarks/dynamo/{suite}.py")
    need_packages(
        f"benchmarks/dynamo/{suite}.py", () if context.options.get("models") else _PACKAGES_OF[suite]
    )
    models = _chosen(context, "models", _MODELS[suite])
    results: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix=f"{suite}-") as name:
        folder = Path(name)
        for mode in ("inference", "training"):
            for model in models:
                result = folder / f"{suite}_{mode}.csv"
                words = ("--accuracy", "--bfloat16", f"--{mode}", "--inductor", "-d", context.backend.name,
                         "--only", model, "--output", result)  # fmt: skip
                ended = run_one(
                    python(program, *words), deadline_s=_PER_MODEL_S, folder=folder, cwd=folder,
                    env=_beside(program.parent),
                )  # fmt: skip
                results[f"{model}/{mode}"] = _verdict(model, ended, result)
    context.metric("accuracy", results)
    _require_none(
        [f"{name.replace('/', ' (')}): {said}" for name, said in results.items() if said not in _RIGHT]
    )
    context.note(f"{len(models)} models, inference and training")


def _verdict(model: str, ended: Ended, path: Path) -> str:
    """Return the script's own result, of which the last line counts, or how it ended without one."""
    rows = list(csv.DictReader(path.read_text("utf-8").splitlines())) if path.is_file() else []
    said = [row.get("accuracy", "the script wrote no accuracy") for row in rows if row.get("name") == model]
    if said and not ended.timed_out and ended.status >= 0:
        return said[-1]
    return "the script wrote no result" if ended.ok else ended.describe("the script")


def _declare(suite: str, title: str) -> None:
    def run(context: SuiteContext) -> None:
        _accuracy(context, suite)

    run.__doc__ = f"Run benchmarks/dynamo/{suite}.py for a few models and check its results."
    check(f"dynamo.{suite}", title, suites=("dynamo",), deadline_s=_DEADLINE_S)(run)


for _suite, _name in (("huggingface", "HuggingFace"), ("timm_models", "TIMM"), ("torchbench", "TorchBench")):
    _declare(_suite, f"PyTorch's accuracy script for {_name} models passes")
