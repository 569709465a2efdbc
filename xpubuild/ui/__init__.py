"""The only place that writes to a terminal."""
