"""One rank of the collectives that ``check_distributed`` starts: a script of its own, not a check.

``python ranks.py RANK WORLD DEVICE BACKEND STORE`` sums over all ranks with an all-reduce and puts what it
got into the store, a file or HOST:PORT. RANK is "-" where a launcher of a batch system says it. Rank r gives
(r + 1) times a vector of small whole numbers, so that the sum is exact in every type and the same on every
rank, and differs from what a missing or doubled rank would leave. Then it trains
a small network with the others (``ranks_training.py``).
"""

from __future__ import annotations

import datetime
import importlib
import json
import os
import socket
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

import torch
from torch import distributed

LENGTH = 1 << 16
_MODULUS = 13
#: Variables with the number of a rank, and with that on its node, of torchrun, PALS (Aurora), MPICH and Intel
#: MPI, Open MPI (https://docs.open-mpi.org/en/v5.0.x/tuning-apps/environment-var.html) and Slurm
#: (https://slurm.schedmd.com/srun.html), whose are last: in a batch job they are those of its script.
_NUMBERS = (
    ("RANK", "LOCAL_RANK"), ("PALS_RANKID", "PALS_LOCAL_RANKID"), ("PMI_RANK", "MPI_LOCALRANKID"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"), ("SLURM_PROCID", "SLURM_LOCALID"),
)  # fmt: skip


def vector(device: str, dtype: torch.dtype) -> torch.Tensor:
    """Return what rank 0 gives."""
    return (torch.arange(LENGTH, device=device) % _MODULUS + 1).to(dtype)


def numbers(environment: Mapping[str, str]) -> tuple[int, int]:
    """Return the rank, and that on its node, which a launcher has given this process."""
    for names in _NUMBERS:
        if all(name in environment for name in names):
            return int(environment[names[0]]), int(environment[names[1]])
    raise SystemExit("the launcher sets none of the variables that say which rank this is")


def main(words: list[str]) -> NoReturn:
    """Run one rank; status 0 where every sum is right."""
    world, kind, backend, place = int(words[1]), *words[2:5]
    rank, local = numbers(os.environ) if words[0] == "-" else (int(words[0]), int(words[0]))
    # As torchrun sets it: XCCL reads it where MPI starts no ranks (ProcessGroupXCCL.cpp); without it, all of
    # them would be those of one node.
    os.environ.setdefault("LOCAL_RANK", str(local))
    device = kind
    if kind != "cpu":
        # A launcher may have given each rank a device of its own, and no other.
        local %= getattr(torch, kind).device_count()
        device = f"{kind}:{local}"
        getattr(torch, kind).set_device(local)
    host, _, port = place.rpartition(":")
    store: Any = (
        distributed.TCPStore(host, int(port), is_master=False, wait_for_workers=False)
        if host else distributed.FileStore(place, world)
    )  # fmt: skip
    distributed.init_process_group(
        backend, store=store, rank=rank, world_size=world, timeout=datetime.timedelta(seconds=90)
    )
    wrong = []
    total = world * (world + 1) // 2
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        given = vector(device, dtype) * (rank + 1)
        distributed.all_reduce(given)
        expected = vector(device, dtype) * total
        if given.device.type != kind:
            wrong.append(f"{dtype}: the sum is on {given.device}")
        elif not torch.equal(given, expected):
            wrong.append(f"{dtype}: element 0 is {given[0].item()} instead of {expected[0].item()}")
    received = [torch.zeros(4, device=device) for _ in range(world)]
    distributed.all_gather(received, torch.full((4,), float(rank), device=device))
    if [part[0].item() for part in received] != [float(number) for number in range(world)]:
        wrong.append(f"all_gather: {[part[0].item() for part in received]}")
    root = torch.full((4,), float(rank + 7), device=device)
    distributed.broadcast(root, src=world - 1)
    if root[0].item() != world + 6:
        wrong.append(f"broadcast: {root[0].item()} instead of {world + 6}")
    training = {} if wrong else importlib.import_module("ranks_training").errors(rank, world, device)
    distributed.barrier()
    distributed.destroy_process_group()
    node = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    answer = {"rank": rank, "node": node, "device": device, "wrong": wrong, "training": training}
    store.set(f"rank {rank}", json.dumps(answer))
    # Threads of torch that outlive the group end a process that exits in order, once in some hundred times:
    # "terminate called without an active exception". All that this looks at is done.
    os._exit(1 if wrong else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
