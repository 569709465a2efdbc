"""Pinned git sources: mirrors, checkouts, submodules."""
