"""Installs hashed requirement files with uv, which links files from its cache where pip copies them."""
