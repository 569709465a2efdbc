"""The suite operators on a real torch, some of it broken: wrong, crashing, and known to fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.mutations import mutate, python_path
from integration.torch_env import TorchEnv, shared_root
from integration.warm_python import warm_python
from support.imports import ROOT
from support.shared import once

from xpubuild.errors import ToolchainError
from xpubuild.verify import baseline
from xpubuild.verify.harness import run_suite
from xpubuild.verify.model import VerifyReport

PACKAGES = ("numpy", "expecttest", "packaging")
#: sign is wrong for the dispatcher, trunc ends the process. Slightly wrong are two whose limits are
#: wide: Fourier transforms in one element, polygamma, which has poles. Indices of
#: topk are those of its neighbours. Only the process under test has it.
BROKEN = """\
import os, signal
library = torch.library.Library("aten", "IMPL")
def replace(name, change):
    kernel = torch.library.get_kernel(f"aten::{name}", "CPU")
    changed = lambda keys, *args, **kwargs: change(kernel.call_boxed(keys, *args, **kwargs))
    library.impl(name, changed, "CPU", with_keyset=True, allow_override=True)
def last(result):
    result[..., -1:] += 1e-3 * result.abs().square().mean().sqrt()
    return result
replace("sign", lambda result: result.zero_())
replace("_fft_r2c", last)
replace("polygamma", lambda result: result * 1.001)
replace("topk", lambda result: (result[0], result[1].roll(1, -1)))
torch.trunc = lambda *a, **k: os.kill(os.getpid(), signal.SIGSEGV)
"""
KNOWN = [
    {"operators": [name], "types": [kind], "device": "cpu", "releases": ["2.4", "2.99"], "issue": "",
     "expires": "9999-12-31", "source": "https://example.org/list", "reason": "of this test"}
    for name, kind in (("sign", "bool"), ("neg", "int32"))
]  # fmt: skip


@pytest.fixture(scope="module")
def packages(torch_env: TorchEnv, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the database imports: the shared environment is one without numpy."""

    def make(folder: Path) -> None:
        done = torch_env.run(torch_env.python, "-m", "pip", "install", "-q", "--target", folder, *PACKAGES)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)

    return once(shared_root(tmp_path_factory), "database-packages", make)


@pytest.fixture
def warm(torch_env: TorchEnv, packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The interpreter, forked with torch imported: here torch finds numpy when it is imported."""
    environ = {**torch_env.environ, "PYTHONPATH": str(packages)}
    with warm_python(torch_env.python, environ, tmp_path_factory.mktemp("warm")) as python:
        yield python


def ops(python: Path, env: TorchEnv, work: Path, *path: Path, **options: object) -> VerifyReport:
    environ = {**env.environ, "PYTHONPATH": python_path(*path)}
    given = {name: str(value) for name, value in options.items()}
    return run_suite(python, device="cpu", env=environ, work=work, suite="operators", options=given)


def states(report: VerifyReport) -> dict[str, str]:
    assert report.operators is not None
    return {f"{cell['operator']} {cell['type']}": cell["state"] for cell in report.operators["cells"]}


def test_what_is_broken_is_found_and_a_second_run_goes_on(
    torch_env: TorchEnv, packages: Path, warm: Path, tmp_path: Path
) -> None:
    known, results = tmp_path / "known.json", tmp_path / "results"
    known.write_text(json.dumps({"failures": KNOWN}), "utf-8")
    options = {"results": results, "known": known, "shards": 1, "types": "int32,bool"}
    names = "trunc,sign,neg,topk,fft.rfft,polygamma.polygamma_n_0"
    broken = mutate(tmp_path / "mutation", BROKEN)
    report = ops(warm, torch_env, tmp_path / "first", broken, packages, operators=names, **options)
    check = next(check for check in report.checks if check.id == "database.operators")
    assert states(report) == {
        "trunc int32": "crashed", "sign int32": "failed", "sign bool": "known failure",
        "neg int32": "passed", "topk int32": "failed", "fft.rfft int32": "failed", "fft.rfft bool": "failed",
        "polygamma.polygamma_n_0 int32": "failed", "polygamma.polygamma_n_0 bool": "failed",
    }, check.detail  # fmt: skip
    assert check.status == "fail"
    assert "SIGSEGV" in check.detail
    assert check.metrics["restarts"] == 1
    assert check.metrics["total"] == 9
    assert any("known failures that pass: neg int32" in warning for warning in check.warnings)

    # The second run knows the first one's states, though nothing is broken any more, and runs what is new.
    accepted = tmp_path / "baseline.json"
    baseline.update(report, accepted)
    before = (results / "results.jsonl").read_text("utf-8")
    more = {"operators": f"{names},logical_not", "accepted": accepted}
    again = ops(warm, torch_env, tmp_path / "second", packages, **more, **options)
    assert (results / "results.jsonl").read_text("utf-8").startswith(before)
    assert states(again) == {**states(report), "logical_not int32": "passed", "logical_not bool": "passed"}
    check = next(check for check in again.checks if check.id == "database.operators")
    assert (check.status, again.status) == ("pass", "pass"), check.detail
    assert again.operators is not None
    bad = {name for name, state in states(report).items() if state in ("failed", "crashed")}
    assert set(again.operators["accepted"]) == bad


def test_what_the_database_imports_is_asked_for_before_anything_runs(
    torch_env: TorchEnv, tmp_path: Path
) -> None:
    with pytest.raises(ToolchainError, match="lacks numpy, expecttest") as caught:
        ops(torch_env.python, torch_env, tmp_path / "work")
    (command,) = caught.value.commands
    assert command.startswith(f"{torch_env.python} -m pip install numpy expecttest")


# ---- What the suite operators says of made tensors: results that are not unique, longer types, refusals


PROGRAM = Path(__file__).with_name("database_cases.py")


def test_what_is_not_unique_may_differ_and_what_is_wrong_is_caught(torch_env: TorchEnv) -> None:
    ran = torch_env.run(torch_env.python, PROGRAM, PYTHONPATH=str(ROOT))
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    once, first = said.pop("eig: one twice"), "result 0: 2 of 3 elements are wrong"
    assert once.startswith(first)
    assert said == {
        "sort: same": "right",
        "sort: other of two equal": "right",
        "sort: another value": "result 1: 2 of 4 elements are wrong",
        "sort: one of two equal twice": "result 1: 1 of 4 elements are wrong",
        "sort: outside": "result 1: 1 of 4 elements are wrong",
        "sort: not stable": "result 1: 4 of 4 elements are wrong",
        "distinct": [2.0, None, 1.0, 3.0, 0.0],
        "distinct: too few numbers": [256.0, 256.0, 256.0],
        "derivative: equal": False,
        "derivative: different": True,
        "eig: other order": "right",
        "saved: longer": "right",
        "saved: shorter": "result 1: the type is bfloat16 instead of float16",
        "result: longer": "result 0: the type is float32 instead of float16",
        "refused": "skipped",
        "refused: option": "skipped",
        "refused: layout": "skipped",
        "no kernel": "failed",
        "no type": "failed",
        "devices": ["cpu", "cpu", "cpu"],
    }
