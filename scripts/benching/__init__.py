"""The parts of scripts/bench.py: rows, how they are measured, and the table."""
