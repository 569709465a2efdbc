"""Environments of conda packages: solved or locked, checked by hash, kept free of what harms an XPU build."""
