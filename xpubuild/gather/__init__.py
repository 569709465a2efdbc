"""Gathers the inputs of a plan: recipe, host, lock and options, each read once."""
