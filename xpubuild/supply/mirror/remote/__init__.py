"""A mirror on a server, read over http or ssh, and its copy in the user's cache.

``location`` parses ``--mirror``, ``http`` and ``ssh`` download files, ``choose`` finds what a recipe needs,
and ``copying`` makes the local copy, which is an ordinary mirror.
"""
