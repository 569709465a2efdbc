"""The suite against a good environment: the real torch, and the extension built from source."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from integration.torch_env import OpsSite, TorchEnv
from integration.verify_support import Target, bad, by_id

from xpubuild.verify.catalogue import list_checks
from xpubuild.verify.harness import LOG_NAME
from xpubuild.verify.model import VerifyReport


@dataclass(frozen=True)
class Full:
    """A run of the whole suite: its report, its scratch folder, the temporary folder it was told."""

    report: VerifyReport
    scratch: Path
    temporary: Path
    skipped: set[str]


def test_numpy_is_not_missed_and_other_warnings_are_kept(target: Target) -> None:
    report = target.verify("import.torch", mutation="import warnings; warnings.warn('a sign of trouble')")
    (check,) = report.checks
    assert check.status == "pass"
    assert any("a sign of trouble" in line for line in check.output)
    assert not any("NumPy" in line for line in check.output)


def test_vector_functions_are_set_up_by_one_thread_before_any_check(target: Target, warm: Path) -> None:
    """Else two threads may do it at once, and the first result is wrong: by chance, so it is no test."""
    seen = target.work / "seen"
    report = target.verify(
        "aten.elementwise",
        mutation=(
            "from torch.utils._python_dispatch import TorchDispatchMode\n"
            "class Seen(TorchDispatchMode):\n"
            "    def __torch_dispatch__(self, function, types, args=(), kwargs=None):\n"
            f"        with open({str(seen)!r}, 'a') as stream:\n"
            "            print(function, args[0].numel() if args and hasattr(args[0], 'numel') else '',\n"
            "                  file=stream)\n"
            "        return function(*args, **(kwargs or {}))\n"
            "Seen().__enter__()"
        ),
        python=warm,
    )
    assert bad(report) == {}
    lines = seen.read_text().splitlines()
    for name in ("exp", "log", "sqrt", "tanh", "erf", "sin"):
        first = next(line for line in lines if line.startswith(f"aten.{name}.default"))
        assert first == f"aten.{name}.default 16"


#: Starts ranks as srun does, on nodes that it makes up.
LAUNCHER = """\
import os, subprocess, sys
ranks, each = map(int, sys.argv[1:3])
def job(rank):
    own = {"SLURM_PROCID": rank, "SLURM_LOCALID": rank % each, "SLURMD_NODENAME": f"n{rank // each}"}
    return subprocess.Popen(sys.argv[3:], env={**os.environ, **{name: str(own[name]) for name in own}})
sys.exit(max(job.wait() for job in [job(rank) for rank in range(ranks)]))
"""


@pytest.mark.parametrize(
    ("each", "status", "detail"),
    [
        ("{ppn}", "pass", "ranks: 2 on n0, 2 on n1"),
        ("{ranks}", "fail", "instead of 2 ranks on each of 2 nodes: 4 on n0"),
    ],
)
def test_ranks_on_nodes_of_a_launcher(target: Target, each: str, status: str, detail: str) -> None:
    launcher = target.work / "launcher.py"
    launcher.write_text(LAUNCHER)
    options = {"nodes": "2", "launcher": f"{target.env.python} {launcher} {{ranks}} {each}"}
    target.env.environ["MASTER_ADDR"] = "127.0.0.1"
    check = by_id(target.verify("distributed.nodes", options=options))["distributed.nodes"]
    assert (check.status, detail in check.detail) == (status, True), check


#: More than half of the suite's time on a CPU, run on demand. Each has a smaller sibling that always runs:
#: resnet50 in other types, what else inductor compiles, other workloads and large tensors. The training steps
#: are of the suite smoke, which tests/e2e/test_quickstart.py runs whole.
DEAR = (
    "model.resnet50_compile", "model.resnet50_inference_fp16", "model.resnet50_train_amp", "speed.resnet50",
    "workloads.decoder", "aten.large", "model.resnet50_train_step",
)  # fmt: skip


@pytest.fixture(scope="module", params=["most", pytest.param("all", marks=pytest.mark.on_demand)])
def full(
    request: pytest.FixtureRequest, torch_env: TorchEnv, ops_site: OpsSite,
    tmp_path_factory: pytest.TempPathFactory,
) -> Full:  # fmt: skip
    """The suite, run once. Inductor's command lines do not survive a space in the scratch folder."""
    target = Target(torch_env, ops_site, tmp_path_factory.mktemp("full"))
    temporary = target.work / "tmp"
    temporary.mkdir()
    target.env.environ["TMPDIR"] = str(temporary)
    assert " " in str(target.scratch)
    skip = () if request.param == "all" else DEAR
    report = target.verify(suite="full", require=["ops"], skip=skip)
    return Full(report, target.scratch, temporary, set(skip))


@pytest.mark.slow
def test_full_suite_passes(full: Full) -> None:
    assert bad(full.report) == {}
    expected = {check.id for check in list_checks() if "full" in check.suites} - full.skipped
    assert {check.id for check in full.report.checks} == expected
    compiled = {"compile.inductor", "model.resnet50_compile"} - full.skipped
    assert {by_id(full.report)[name].status for name in compiled} == {"pass"}


def test_every_operator_of_the_tables_is_in_this_torch_and_was_run(full: Full) -> None:
    tables = [
        check for check in full.report.checks if check.group == "operators" and "cases" in check.metrics
    ]
    assert tables
    for check in tables:
        assert check.metrics["absent_in_this_torch"] == 0, check.id
        assert check.metrics["runs"] > 3 * check.metrics["cases"]


def test_every_workload_was_run(full: Full) -> None:
    """What a CPU lacks is named; all else runs."""
    lacking = {"EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "OVERRIDEABLE", "FlexAttention"}
    ran = [check for check in full.report.checks if check.group == "workloads"]
    for check in ran:
        assert check.metrics["absent_in_this_torch"] == 0, check.id
        assert {name.partition(" ")[0] for name in check.metrics["cases_without_kernel"]} <= lacking
    assert sum(check.metrics["runs"] for check in ran) > 100


def test_the_log_is_in_the_scratch_folder_and_nothing_in_the_temporary_one(full: Full) -> None:
    assert (full.scratch / LOG_NAME).stat().st_size > 0
    assert not list(full.temporary.iterdir())


@pytest.mark.parametrize(
    ("isa", "lacks"),
    [("AVX2", "bfloat16"), pytest.param("AVX512_CORE", "float16", marks=pytest.mark.on_demand)],
)
def test_cpu_without_short_types_in_onednn_passes_and_says_so(target: Target, isa: str, lacks: str) -> None:
    """oneDNN plays the CPU: AVX2 has neither type, plain AVX-512 has no float16, on whatever machine."""
    target.env.environ["ONEDNN_MAX_CPU_ISA"] = isa
    fused = ("onednn.fused_linear", "onednn.fused_conv")
    report = target.verify(*fused, "operators.convolve", suite="full")
    assert bad(report) == {}
    assert not [check.id for check in report.checks if check.status == "skip"]
    for check in fused:
        result = by_id(report)[check]
        assert f"{lacks} on this CPU" in result.detail
        assert result.metrics["error_of_allowed"] > 0.1
    forms = by_id(report)["onednn.fused_linear"].metrics["forms"]
    assert "mkldnn linear" in forms  # in float32, which every CPU has


def test_suite_runs_from_a_folder_that_cannot_be_written(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves no bytecode beside its sources, whoever owns them."""
    from xpubuild.resources import suite_dir
    from xpubuild.verify import child

    copy = target.work / "suite copy"
    shutil.copytree(suite_dir(), copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(child, "suite_dir", lambda: copy)
    assert target.verify("import").status == "pass"
    assert not list(copy.rglob("__pycache__"))
