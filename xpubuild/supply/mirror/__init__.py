"""A mirror: a folder with everything that builds fetch, each file listed with its hash."""
