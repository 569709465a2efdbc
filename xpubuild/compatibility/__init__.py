"""The constraint solver for releases, drivers, oneAPI, Python and GCC."""
