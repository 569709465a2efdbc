"""Two networks that are moved where there is a GPU."""

import torch
from torch import nn

cuda = torch.cuda.is_available()
torch.manual_seed(4)
generator = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16))
discriminator = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
criterion = nn.BCEWithLogitsLoss()
noise, real, ones, zeros = torch.randn(32, 8), torch.randn(32, 16), torch.ones(32, 1), torch.zeros(32, 1)
if cuda:
    generator, discriminator, criterion = generator.cuda(), discriminator.cuda(), criterion.cuda()
    noise, real, ones, zeros = (item.cuda() for item in (noise, real, ones, zeros))
first = torch.optim.SGD(generator.parameters(), lr=0.1)
second = torch.optim.SGD(discriminator.parameters(), lr=0.1)
for _ in range(8):
    first.zero_grad()
    loss = criterion(discriminator(generator(noise)), ones)
    loss.backward()
    first.step()
    second.zero_grad()
    other = criterion(discriminator(real), ones) + criterion(discriminator(generator(noise).detach()), zeros)
    other.backward()
    second.step()
    print("loss", loss.item(), other.item())
