"""Installs hashed requirement files with uv, which links files from its cache where pip copies them.

``program`` finds uv, ``settings`` translates pip's settings, ``install`` is one installation, ``cache`` tells
which wheel an installed distribution is of.
"""
