"""The installed triton and the one that torch requires."""

from __future__ import annotations

import re
from importlib import metadata

#: Distributions that own the package ``triton``: upstream's, and Intel's before and after torch 2.10.
NAMES = ("triton", "triton-xpu", "pytorch-triton", "pytorch-triton-xpu")
_PIN = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*\(?==\s*([^\s;,)]+)")


def distributions() -> dict[str, str]:
    """Return name and version of every installed distribution that contains ``triton``."""
    found = {}
    for name in NAMES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def pinned() -> dict[str, str]:
    """Return the triton that torch's metadata requires; a torch built from source requires none."""
    try:
        required = metadata.requires("torch") or []
    except metadata.PackageNotFoundError:
        return {}
    matches = (_PIN.match(entry) for entry in required if "extra" not in entry)
    found = {match[1].replace("_", "-").lower(): match[2] for match in matches if match}
    return {name: version for name, version in found.items() if name in NAMES}


def imported() -> tuple[str, frozenset[str]]:
    """Return the version that the imported module states, and its backends."""
    import triton

    try:
        from triton.backends import backends
    except ImportError:
        backends = {}
    return str(triton.__version__), frozenset(backends)
