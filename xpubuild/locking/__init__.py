"""Lock files, which list every input of a build: lock, verify-lock, and the plan options that a lock implies.

Mutual exclusion of processes is in ``engine.lock`` (a workspace) and ``source.locks`` (repositories).
"""
