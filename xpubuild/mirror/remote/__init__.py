"""A mirror that is served read-only, over http or ssh, and its copy in the user's cache.

``location`` says what ``--mirror`` names, ``http`` and ``ssh`` bring files of it, ``choose`` finds what a
recipe needs, and ``copying`` makes the local copy, which is a mirror like any other.
"""
