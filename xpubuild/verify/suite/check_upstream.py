"""Group ``upstream``: test files of the source tree, run by the target with pytest or unittest."""

from __future__ import annotations

import importlib.util
import os
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

from .children import Ended, python, run_one
from .context import CheckFailedError, SuiteContext, require
from .registry import check
from .source_tree import names, need_packages, script, tree

#: By device, the files that say most about it.
_TESTS = {
    "xpu": (
        "test/test_xpu.py",
        "test/xpu/test_gemm.py",
        "test/xpu/test_conv.py",
        "test/inductor/test_triton_kernels.py",
    ),
    "cuda": ("test/test_cuda.py",),
    "cpu": ("test/test_view_ops.py",),
}
#: PyTorch's test utilities import these.
_PACKAGES = ("expecttest", "hypothesis")
_PER_FILE_S = 3600.0


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
    environment = {
        "PYTORCH_TESTING_DEVICE_ONLY_FOR": context.backend.name,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(root / "test"), os.environ.get("PYTHONPATH")))),
    }
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


@check("upstream.tests", "PyTorch's own tests for the device", suites=("upstream",), deadline_s=4 * 3600.0)
def tests(context: SuiteContext) -> None:
    """Run a default list of files, or those of --tests, each in its own process."""
    root = tree(context)
    chosen = names(context, "tests", _TESTS[context.backend.name])
    for name in chosen:
        script(root, name)
    if any((root / "test" / "run_test.py").is_file() for _ in chosen[:1]):
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
    require(not bad, "; ".join(bad[:4]) + (f" and {len(bad) - 4} more" if len(bad) > 4 else ""))
    require(ran > skipped, f"all {ran} tests were skipped")
    context.note(f"{ran - skipped} tests of {len(chosen)} files")
