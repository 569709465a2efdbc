"""The checks of ``xpubuild verify``.

The *target* interpreter runs them through ``run.py``: standard library and torch only, nothing of xpubuild,
Python 3.9 and newer. Only ``run.py`` and what the checks call import torch, inside functions, so that the
harness can read the catalogue in an interpreter that has none.
"""
