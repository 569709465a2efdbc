"""One rank of the collectives that ``check_distributed`` starts: a script of its own, not a check.

``python ranks.py RANK WORLD DEVICE BACKEND STORE`` sums over all ranks with an all-reduce and prints
what it got: rank r gives (r + 1) times a vector of small whole numbers, so that the sum is exact in every
type and the same on every rank, and differs from what a missing or doubled rank would leave. Then it trains
a small network with the others (``ranks_training.py``).
"""

from __future__ import annotations

import datetime
import importlib
import json
import os
import sys
from typing import NoReturn

import torch
from torch import distributed

LENGTH = 1 << 16
_MODULUS = 13


def vector(device: str, dtype: torch.dtype) -> torch.Tensor:
    """Return what rank 0 gives."""
    return (torch.arange(LENGTH, device=device) % _MODULUS + 1).to(dtype)


def main(words: list[str]) -> NoReturn:
    """Run one rank; status 0 where every sum is right."""
    rank, world, kind, backend, store = int(words[0]), int(words[1]), *words[2:5]
    device = kind if kind == "cpu" else f"{kind}:{rank}"
    if kind != "cpu":
        getattr(torch, kind).set_device(rank)
    distributed.init_process_group(
        backend, init_method=f"file://{store}", rank=rank, world_size=world,
        timeout=datetime.timedelta(seconds=90),
    )  # fmt: skip
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
    answer = {"rank": rank, "device": device, "wrong": wrong, "training": training}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    # Threads of torch that outlive the group end a process that exits in order, once in some hundred times:
    # "terminate called without an active exception". All that this looks at is done.
    os._exit(1 if wrong else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
