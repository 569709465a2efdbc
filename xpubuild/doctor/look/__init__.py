"""Facts that several checks use: oneAPI, Python environments, shared libraries, pip, the network.

They are read from files and variables; ``doctor.probes`` runs other programs, and ``host`` has facts that
plans need too.
"""
