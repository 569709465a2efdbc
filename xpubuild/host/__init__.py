"""Facts about this machine."""
