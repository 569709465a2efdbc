"""A module of Lightning."""

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Regression(LightningModule):
    """A linear model."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def training_step(self, batch, _):
        """Return the loss."""
        inputs, targets = batch
        with torch.autocast("cuda" if inputs.is_cuda else "cpu", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(self.layer(inputs).float(), targets)
        print("loss", loss.item())
        return loss

    def on_train_end(self):
        """Free what is cached."""
        torch.cuda.empty_cache()

    def configure_optimizers(self):
        """Return the optimizer."""
        return torch.optim.SGD(self.parameters(), lr=0.05)


torch.manual_seed(6)
rows = DataLoader(TensorDataset(torch.randn(64, 8), torch.randn(64, 1)), batch_size=16)
options = {"enable_progress_bar": False, "enable_checkpointing": False, "logger": False}
Trainer(max_epochs=2, accelerator="auto", devices=1, **options).fit(Regression(), rows)
