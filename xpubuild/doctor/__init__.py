"""Why this host cannot build or run PyTorch on an Intel GPU, and what to type."""
