"""oneAPI: roots, components, environment capture."""
