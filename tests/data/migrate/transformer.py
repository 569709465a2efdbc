"""A small transformer whose device is an option."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--no-cuda", action="store_true")
args = parser.parse_args()
use_cuda = torch.cuda.is_available() and not args.no_cuda
torch.manual_seed(1)
layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
model = nn.Sequential(nn.Embedding(50, 32), nn.TransformerEncoder(layer, 2), nn.Linear(32, 50))
tokens = torch.randint(50, (8, 20))
if use_cuda:
    torch.cuda.set_device(0)
    model.cuda()
    tokens = tokens.cuda(non_blocking=True)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(8):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
if next(model.parameters()).is_cuda:
    torch.cuda.synchronize()
