"""verify --nodes in a job of a real Slurm with two nodes: ranks run on both, and not on one instead."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from integration.torch_env import TorchEnv
from support.slurm import Slurm, slurm

pytestmark = [
    pytest.mark.xdist_group("slurm"),
    pytest.mark.needs("root", "slurmctld", "munged"),
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with slurm(tmp_path_factory.mktemp("slurm") / "s", nodes=2) as found:
        yield found


def verified(two: Slurm, torch: TorchEnv, folder: Path, *more: str) -> dict[str, Any]:
    """Run the check in a job of two nodes, and return its result."""
    words = (
        sys.executable, "-m", "xpubuild", "verify", "--python", torch.python, "--device", "cpu",
        "--suite", "distributed", "--nodes", "2", "--only", "distributed.nodes", *more,
        "--output", folder / "result.json",
    )  # fmt: skip
    script, command = folder / "job.sh", shlex.join(map(str, words))
    script.write_text(f"#!/bin/bash\n{command} >{shlex.quote(str(folder / 'log'))} 2>&1 || :\n")
    two.call("sbatch", "--wait", "--nodes=2", "--ntasks-per-node=1", "--output=/dev/null", str(script))
    assert (folder / "result.json").exists(), (folder / "log").read_text()
    checks = json.loads((folder / "result.json").read_text())["checks"]
    (found,) = (check for check in checks if check["id"] == "distributed.nodes")
    assert isinstance(found, dict)
    return found


def test_two_ranks_on_each_of_two_nodes(two: Slurm, torch_env: TorchEnv, tmp_path: Path) -> None:
    found = verified(two, torch_env, tmp_path)
    assert found["status"] == "pass", found
    assert "4 ranks, gloo" in found["detail"]
    assert "ranks: 2 on node0, 2 on node1" in found["detail"]
    assert found["metrics"]["ddp_relative_error"] <= found["metrics"]["ddp_relative_error_limit"]


def test_a_launcher_that_stays_on_one_node_is_noticed(
    two: Slurm, torch_env: TorchEnv, tmp_path: Path
) -> None:
    found = verified(two, torch_env, tmp_path, "--launcher", "srun --nodes=1 --ntasks={ranks} --overcommit")
    assert found["status"] == "fail"
    assert "instead of 2 ranks on each of 2 nodes: 4 on node0" in found["detail"]
