"""Environments of conda packages: solved or locked, checked by hash, without packages that conflict with an
XPU build."""
