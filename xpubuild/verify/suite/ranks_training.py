"""Training over several ranks: DDP and FSDP2, compared with the same training of one process in float64.

Each rank has its part of the batch. The gradients of the whole batch are the mean of those of its parts, so
that parameters after some steps are those that one process gets from all of it.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

LAYERS, WIDEST, STEPS = 4, 64, 3
_PER_RANK = 8
_RATE = 0.5
#: What torch says where a backend has no kernel that shards gradients.
_LACKS = ("does not support", "not implemented", "unsupported", "cannot import name")


def _network() -> nn.Module:
    generator = torch.Generator().manual_seed(2)
    made = nn.Sequential(
        nn.Linear(24, WIDEST), nn.LayerNorm(WIDEST), nn.GELU(), nn.Linear(WIDEST, 48), nn.Linear(48, 10)
    )
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() > 1:
                spread = parameter.shape[1] ** -0.5
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread)
            else:
                parameter.copy_(1 + torch.randn(parameter.shape, generator=generator) / 8)
    return made


def _batch(world: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    rows = world * _PER_RANK
    return torch.randn(rows, 24, generator=generator), torch.randn(rows, 10, generator=generator)


def _train(network: Any, data: torch.Tensor, wanted: torch.Tensor) -> None:
    optimizer = torch.optim.SGD(network.parameters(), lr=_RATE, momentum=0.9)
    for _ in range(STEPS):
        optimizer.zero_grad()
        nn.functional.mse_loss(network(data), wanted).backward()
        optimizer.step()


def _sharded(network: Any, kind: str, world: int) -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard  # from 2.6 on

    mesh = init_device_mesh(kind, (world,))
    for layer in network:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(network, mesh=mesh)
    for name, parameter in network.named_parameters():
        if parameter.to_local().numel() >= parameter.numel():
            raise RuntimeError(f"{name} is not sharded")
    return network


def errors(rank: int, world: int, device: str) -> dict[str, float | str]:
    """Return by how much the parameters are off after all steps, relative to their norm, for each way.

    A text says why a way cannot be gone with this torch and backend.
    """
    data, wanted = _batch(world)
    start = _network()
    whole = copy.deepcopy(start).double()
    _train(whole, data.double(), wanted.double())
    mine = slice(rank * _PER_RANK, (rank + 1) * _PER_RANK)
    here = data[mine].to(device), wanted[mine].to(device)
    found: dict[str, float | str] = {}
    for way in ("DDP", "FSDP2"):
        network: Any = copy.deepcopy(start).to(device)
        try:
            if way == "DDP":
                network = nn.parallel.DistributedDataParallel(network)
            else:
                network = _sharded(network, device.partition(":")[0], world)
            _train(network, *here)
        except (RuntimeError, ImportError, NotImplementedError) as error:
            stated = str(error).splitlines()[0]
            if way == "DDP" or not any(words in stated for words in _LACKS):
                raise
            found[way] = stated[:200]
            continue
        found[way] = _error(network, whole)
    return found


def _error(network: Any, whole: nn.Module) -> float:
    off = size = 0.0
    for one, exact in zip(network.parameters(), whole.parameters()):
        full = one.full_tensor() if hasattr(one, "full_tensor") else one
        error = full.detach().cpu().double() - exact.detach()
        off, size = off + float(error.square().sum()), size + float(exact.detach().square().sum())
    return float((off / size) ** 0.5)
