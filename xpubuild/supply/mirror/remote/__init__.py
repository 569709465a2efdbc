"""A mirror on a web server, and its copy in the user's cache.

``location`` parses ``--mirror``, ``http`` downloads files, ``choose`` finds what a recipe needs, and
``copying`` makes the local copy, which is an ordinary mirror.
"""
