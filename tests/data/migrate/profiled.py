"""Training under the profiler."""

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

torch.manual_seed(3)
device = "cuda" if torch.cuda.is_available() else "cpu"
activities = [ProfilerActivity.CPU]
if device == "cuda":
    activities.append(ProfilerActivity.CUDA)
model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)).to(device)
inputs = torch.randn(128, 64).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
with profile(activities=activities) as profiler:
    for _ in range(8):
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        loss.backward()
        optimizer.step()
        print("loss", loss.item())
print("profiled", len(profiler.key_averages()) > 0)
