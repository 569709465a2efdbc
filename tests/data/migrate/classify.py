"""Classification with mixed precision."""

import torch
from torch import nn
from torch.cuda.amp import GradScaler, autocast

torch.manual_seed(0)
if torch.cuda.is_available():
    torch.cuda.manual_seed_all(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = GradScaler(enabled=device.type == "cuda")
images, labels = torch.randn(64, 3, 16, 16).to(device), torch.randint(10, (64,)).to(device)
for _ in range(8):
    optimizer.zero_grad()
    with autocast(enabled=device.type == "cuda"):
        loss = nn.functional.cross_entropy(model(images), labels)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print("loss", loss.item())
