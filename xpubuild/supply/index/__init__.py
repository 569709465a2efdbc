"""Python packages for other interpreters with pip, and files by their URL with requests, by
pip's settings.

``pip_download`` fetches wheels, ``choice`` says which ones an interpreter can install, ``download`` fetches
archives, conda packages and files of mirrors, ``offline`` is the environment in which pip sees a mirror and
nothing else.
"""
