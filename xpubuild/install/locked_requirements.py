"""Every pin of a hashed requirement file, whatever interpreter it is for. Pure."""

from __future__ import annotations

import hashlib

from packaging.utils import canonicalize_name

from xpubuild.errors import RecipeError
from xpubuild.install import lock_model as model
from xpubuild.supply.requirements import HashedPin, hashed_pins


def requirement_file(name: str, text: str) -> model.RequirementFile:
    """Return the sha256 of a requirement file and its pins, for all interpreters.

    Raises:
        RecipeError: a line is no exact pin with hashes.
    """
    try:
        pins = [_pin(name, pin) for pin in hashed_pins(text)]
    except RecipeError as error:
        error.evidence = {**error.evidence, "file": name}
        error.what = error.what.replace("a requirements file", name)
        raise
    return model.RequirementFile(
        sha256=hashlib.sha256(text.encode("utf-8")).hexdigest(),
        pins=tuple(sorted(pins, key=lambda pin: pin.key)),
    )


def _pin(file: str, pin: HashedPin) -> model.Requirement:
    if not pin.written:
        raise RecipeError(
            f"{pin.name}=={pin.version} in {file} has no hash",
            why="a file is only used if its hash is known beforehand",
            fix="write it as name==version with --hash=sha256:… for each file",
        )
    return model.Requirement(
        name=canonicalize_name(pin.name),
        version=pin.version,
        marker=str(pin.marker) if pin.marker else None,
        hashes=tuple(sorted(pin.written)),
    )
