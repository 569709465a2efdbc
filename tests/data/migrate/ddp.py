"""One process for each device, with NCCL; gloo without a GPU."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29511")
rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
has_gpu = torch.cuda.is_available()
dist.init_process_group(backend="nccl" if has_gpu else "gloo", rank=rank, world_size=size)
torch.manual_seed(2)
device = f"cuda:{rank}" if has_gpu else "cpu"
if has_gpu:
    torch.cuda.set_device(rank)
model = DistributedDataParallel(nn.Linear(16, 4).to(device), device_ids=[rank] if has_gpu else None)
inputs, targets = torch.randn(32, 16, device=device), torch.randn(32, 4, device=device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(8):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
dist.destroy_process_group()
