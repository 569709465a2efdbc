"""A workspace: its layout, status, activation and removal."""
