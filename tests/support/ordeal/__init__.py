"""Attempts on a small real install: something goes wrong, and the same command carries on."""
