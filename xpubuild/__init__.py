"""xpubuild: from a bare Intel GPU driver to a proved PyTorch for XPU, built from source."""

__version__ = "0.1.0"
