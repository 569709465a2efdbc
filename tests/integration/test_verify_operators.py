"""The operator tables on a good torch, and on one whose operators are broken through the dispatcher."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from integration.torch_env import TorchEnv
from integration.verify_support import Target, bad, by_id
from support.imports import ROOT

from xpubuild.verify.catalogue import list_checks
from xpubuild.verify.suite.backends import BACKENDS
from xpubuild.verify.suite.context import CheckFaultError, SuiteContext

#: Operator, what is wrong, and the case that has to notice.
BROKEN = (
    "native_layer_norm/percent/norms/wide layer_norm",
    "cumsum/large/order/cumsum of (2, 131101) over 1",
    "_fft_c2c/element/linear/fft",
    "max_pool2d_with_indices/nan/convolve/max_pool2d",
    "linalg_inv_ex/batch/algebra/inv",
    "linalg_inv_ex/nan/algebra/inv",
    "nll_loss_forward/stale/losses/nll_loss none",
    "nll_loss_forward/nan/losses/nll_loss sum",
    "upsample_bicubic2d/half/layers/interpolate bicubic 2d aligned=None",
)
#: A mutation that no result can have, and what is said of it.
IMPOSSIBLE = "linalg_inv_ex/half/algebra/inv", "Low precision dtypes not supported"


_DISPATCHER = """\
library = torch.library.Library('aten', 'IMPL')
kernel = torch.library.get_kernel('aten::{name}', 'CPU')
def broken(keys, x, *more):
    {body}
library.impl('{name}', broken, 'CPU', with_keyset=True, allow_override=True)
"""
#: The CPU is its own reference: what breaks this process must not break that one.
_TWICE = _DISPATCHER.format(
    name="bitwise_not", body="return kernel.call_boxed(keys, kernel.call_boxed(keys, x))"
)
_TWO_PERCENT = _DISPATCHER.format(
    name="native_layer_norm",
    body="first, *rest = kernel.call_boxed(keys, x, *more)\n"
    "    return (first * 1.02 if x.dtype == torch.bfloat16 else first, *rest)",
)


@pytest.mark.parametrize(
    ("code", "check", "words"),
    [
        (_TWICE, "truth", "bitwise_not"),
        (_TWO_PERCENT, "norms", "layer_norm (bfloat16"),
        ("torch.randn_like = lambda x: torch.rand_like(x)", "random", "randn of"),
        ("torch.rand_like = lambda x, r=torch.rand_like: r(x) * 1.03", "random", "rand of"),
        ("torch.randperm = lambda n, **k: torch.arange(n)", "random", "same order"),
        ("torch.poisson = lambda x: x.clone()", "random", "poisson"),
        ("torch.Tensor.index_add = lambda s, d, i, x: s + torch.rand_like(s)", "moves", "index_add"),
        ("torch.amp.GradScaler.step = lambda s, o: o.step()", "grad_scaler", "inf checks"),
    ],
)
def test_what_is_wrong_random_or_skipped_is_seen(
    target: Target, warm: Path, code: str, check: str, words: str
) -> None:
    report = target.verify(f"operators.{check}", suite="full", mutation=code, python=warm)
    assert bad(report) == {f"operators.{check}": "fail"}
    assert words in by_id(report)[f"operators.{check}"].detail


def test_a_few_broken_operators_are_caught(torch_env: TorchEnv, tmp_path: Path) -> None:
    """A few seconds of scripts/operator-mutants.py run each time; the script runs all of them."""
    out = tmp_path / "mutants.jsonl"
    script = ROOT / "scripts" / "operator-mutants.py"
    words = [word for pick in (*BROKEN, IMPOSSIBLE[0]) for word in ("--pick", pick)]

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(torch_env.python), str(script), "--out", str(out), *words, *more],
            env={**torch_env.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip

    # The time of --seconds is that of the set-up too; what was done by then is kept.
    done = run("--seconds", "0.001")
    assert (done.returncode, out.exists()) == (0, False), done.stderr
    assert "the same command goes on" in done.stderr
    done = run()
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    results = {f"{one['op']}/{one['mutation']}": one for one in found if "result" in one}
    impossible = results.pop("linalg_inv_ex/half")
    assert (impossible["result"], IMPOSSIBLE[1] in impossible["why"]) == ("does not apply", True), impossible
    assert {name: one["result"] for name, one in results.items()} == {
        "/".join(pick.split("/")[:2]): "caught" for pick in BROKEN
    }


def test_every_table_is_a_check() -> None:
    from xpubuild.verify.suite.references import TABLES

    groups = ("operators", "workloads")
    checks = {check.id.partition(".")[2] for check in list_checks() if check.group in groups}
    assert set(TABLES) == checks - {"random", "grad_scaler"}
    assert SuiteContext(BACKENDS["cpu"], frozenset()).planned == ()
    assert issubclass(CheckFaultError, Exception)
