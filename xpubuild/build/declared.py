"""What an installed distribution declares that it needs."""

from __future__ import annotations

from collections.abc import Mapping
from email.parser import HeaderParser

from packaging.requirements import InvalidRequirement, Requirement

from xpubuild.build.sitepackages import InstalledDist


def declared(dist: InstalledDist, environment: Mapping[str, str] | None = None) -> list[Requirement]:
    """Return what a distribution asks for, extras left out.

    ``environment`` are marker variables of its interpreter; without them those of this one stand in.
    """
    try:
        text = (dist.info / "METADATA").read_text("utf-8", "replace")
    except OSError:
        return []
    found = []
    for line in HeaderParser().parsestr(text).get_all("Requires-Dist", []):
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate({**(environment or {}), "extra": ""}):
            found.append(requirement)
    return found
