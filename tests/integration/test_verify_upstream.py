"""PyTorch's own scripts and tests: run from a small tree of the same form, with what a real one can do."""

from __future__ import annotations

from pathlib import Path

import pytest

from xpubuild.verify.suite import registry
from xpubuild.verify.suite.backends import BACKENDS
from xpubuild.verify.suite.context import CheckFailedError, CheckSkippedError, SuiteContext

registry.discover()

#: Takes the command line of benchmarks/dynamo/*.py and writes the CSV file of its common.py.
SCRIPT = """\
import argparse, csv, os, signal, sys
parser = argparse.ArgumentParser()
for flag in ("--accuracy", "--bfloat16", "--inference", "--training", "--inductor"):
    parser.add_argument(flag, action="store_true")
parser.add_argument("-d", "--devices", choices=["cpu", "cuda", "xpu"])
parser.add_argument("--only")
parser.add_argument("--output")
o = parser.parse_args()
assert o.accuracy and o.inductor and o.inference != o.training and o.devices == "cpu"
if o.only == "Dies":
    os.kill(os.getpid(), signal.SIGSEGV)
if o.only == "Raises":
    raise RuntimeError("no weights for Raises")
if o.only == "Silent":
    sys.exit(0)
new = not os.path.exists(o.output)
with open(o.output, "a", newline="") as file:
    rows = csv.writer(file)
    if new:
        rows.writerow(["dev", "name", "batch_size", "accuracy"])
    word = "fail_accuracy" if o.only == "Wrong" and o.training else "pass"
    rows.writerow([o.devices, o.only, 4, word])
"""

TESTS = """\
import unittest
class TestDevice(unittest.TestCase):
    def test_right(self):
        pass
    def test_wrong(self):
        self.assertEqual(1, {right})
    @unittest.skip("no second device")
    def test_peer(self):
        pass
if __name__ == "__main__":
    unittest.main()
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "pytorch tree"
    for suite in ("huggingface", "timm_models", "torchbench"):
        path = root / "benchmarks" / "dynamo" / f"{suite}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SCRIPT, "utf-8")
    (root / "test").mkdir()
    (root / "test" / "test_good.py").write_text(TESTS.format(right=1), "utf-8")
    (root / "test" / "test_bad.py").write_text(TESTS.format(right=2), "utf-8")
    (root / "test" / "test_dies.py").write_text("import os\nos.abort()\n", "utf-8")
    (root / "test" / "test_broken.py").write_text("import torch_of_another_release\n", "utf-8")
    return root


def run(identifier: str, source: Path | None, **options: str) -> SuiteContext:
    given = {**options, **({"source": str(source)} if source else {})}
    context = SuiteContext(BACKENDS["cpu"], frozenset(), given)
    registry.discover()[identifier].function(context)
    return context


def failing(identifier: str, source: Path | None, **options: str) -> str:
    with pytest.raises(CheckFailedError) as caught:
        run(identifier, source, **options)
    return str(caught.value)


def test_models_run_in_both_modes_and_their_words_are_read(tree: Path) -> None:
    context = run("dynamo.huggingface", tree, models="One,Two")
    assert context.metrics["accuracy"] == {
        "One/inference": "pass", "Two/inference": "pass", "One/training": "pass", "Two/training": "pass",
    }  # fmt: skip
    assert context.notes == ["2 models, inference and training"]


def test_wrong_results_crashes_errors_and_silence_are_told_apart(tree: Path) -> None:
    said = failing("dynamo.timm_models", tree, models="Wrong")
    assert said == "Wrong (training): fail_accuracy"
    assert "Dies (inference): the script was killed by SIGSEGV" in failing(
        "dynamo.timm_models", tree, models="Dies"
    )
    said = failing("dynamo.timm_models", tree, models="Raises,Good")
    assert "Raises (inference): the script exited with code 1: RuntimeError: no weights for Raises" in said
    assert "Good" not in said
    said = failing("dynamo.torchbench", tree, models="Silent")
    assert "Silent (inference): the script wrote no result" in said


@pytest.mark.parametrize("identifier", ["dynamo.huggingface", "upstream.tests"])
def test_without_a_tree_it_is_a_skip_and_a_wrong_tree_is_named(tmp_path: Path, identifier: str) -> None:
    with pytest.raises(CheckSkippedError, match="--source"):
        run(identifier, None)
    assert "does not exist" in failing(identifier, tmp_path / "gone")
    assert "it is not a PyTorch source tree" in failing(identifier, tmp_path)


def test_packages_that_a_script_imports_are_named_before_it_runs(tree: Path) -> None:
    said = failing("dynamo.torchbench", tree)
    assert said == "benchmarks/dynamo/torchbench.py needs torchbenchmark, which are not installed"


def test_test_files_are_run_and_counted(tree: Path) -> None:
    context = run("upstream.tests", tree, tests="test/test_good.py")
    assert context.metrics == {"run": 3, "skipped": 1, "failed": 0}
    assert context.notes == ["2 tests of 1 files"]


def test_failing_tests_are_named_and_the_rest_goes_on(tree: Path) -> None:
    said = failing("upstream.tests", tree, tests="test/test_bad.py,test/test_dies.py,test/test_good.py")
    assert "test/test_bad.py: test_wrong: ['AssertionError: 1 != 2']" in said
    assert "test/test_dies.py was killed by SIGABRT" in said
    assert "test_good" not in said


def test_a_file_that_cannot_be_collected_is_said(tree: Path) -> None:
    said = failing("upstream.tests", tree, tests="test/test_broken.py")
    assert "test/test_broken.py exited with code 2" in said
