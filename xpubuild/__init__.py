"""xpubuild builds and verifies PyTorch for Intel XPU from source."""

__version__ = "0.2.0"
