"""Wheels, shared objects and installed distributions, read from their files."""
