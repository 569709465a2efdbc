"""Python files from package indexes and wheel folders, as pip is configured to find them.

``config`` is what pip is configured with, ``wanted`` finds the files that interpreters may pick, ``download``
brings one of them, ``offline`` is the environment in which pip sees a mirror and nothing else.
"""
