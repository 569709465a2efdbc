"""What several checks look at: oneAPI, Python environments, shared libraries, pip, the network."""
