"""A mirror: a folder with everything that builds fetch, each byte of it accounted for."""
