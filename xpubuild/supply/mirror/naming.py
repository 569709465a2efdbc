"""Parses names of package files. Pure."""

from __future__ import annotations

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)

from xpubuild.supply.mirror.entries import Kind


def described(name: str) -> tuple[Kind, str, str]:
    """Return kind, distribution and version of a package's file, as far as its name tells them."""
    for end in (".conda", ".tar.bz2"):
        if name.endswith(end):
            words = name.removesuffix(end).rsplit("-", 2)
            return "conda", words[0], words[1] if len(words) > 1 else ""
    try:
        if name.endswith(".whl"):
            dist, version, _, _ = parse_wheel_filename(name)
            return "wheel", dist, str(version)
        dist, version = parse_sdist_filename(name)
    except (InvalidWheelFilename, InvalidSdistFilename):
        return "wheel" if name.endswith(".whl") else "sdist", "", ""
    return "sdist", dist, str(version)
