"""A recurrent network with pinned batches, a checkpoint, a stream and the statistics of memory."""

import io

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(5)
has_gpu = torch.cuda.is_available()
device = torch.device("cuda:0" if has_gpu else "cpu")
rows = TensorDataset(torch.randn(64, 10, 4), torch.randn(64, 1))
model, head = nn.LSTM(4, 16, batch_first=True).to(device), nn.Linear(16, 1).to(device)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
for inputs, targets in DataLoader(rows, batch_size=16, pin_memory=has_gpu):
    inputs, targets = inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(head(model(inputs)[0][:, -1]), targets)
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
saved = io.BytesIO()
torch.save(model.state_dict(), saved)
saved.seek(0)
model.load_state_dict(torch.load(saved, map_location="cuda:0" if has_gpu else "cpu"))
if has_gpu:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.ones(4, device="cuda").sum()
    torch.cuda.current_stream().wait_stream(stream)
print("memory", torch.cuda.max_memory_allocated() > 0)
torch.cuda.empty_cache()
