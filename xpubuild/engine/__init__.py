"""Steps, plans, journal, runner, processes; knows nothing about PyTorch."""
