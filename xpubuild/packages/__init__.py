"""Python and conda packages: indexes, downloads, environments, requirement files."""
