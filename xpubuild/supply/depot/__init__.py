"""The depot: one folder for all bytes that builds take from elsewhere, or take again.

``git/`` bare repositories, ``files/<sha256>/<name>`` packages and archives, ``sets/`` what each fetch needed,
``index.json`` with all of these, ``wheels/`` built wheels by their identity. ``--mirror`` and ``--store``
name such folders, or servers of them.
"""
