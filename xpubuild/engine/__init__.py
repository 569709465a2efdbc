"""Steps, plans, journal, runner and processes. Nothing here is specific to PyTorch."""
