"""The click command tree: one module per command, no logic in it."""
