"""Hashes what is installed, built and kept in a workspace, and makes damaged parts anew."""
