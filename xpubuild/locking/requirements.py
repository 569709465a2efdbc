"""Every pin of a hashed requirement file, whatever interpreter it is for. Pure."""

from __future__ import annotations

import hashlib
import re

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from xpubuild.errors import RecipeError
from xpubuild.locking import model

_HASH = re.compile(r"--hash[= ]\s*(\S+)")


def requirement_file(name: str, text: str) -> model.RequirementFile:
    """Return the sha256 of a requirement file and its pins, for all interpreters.

    Raises:
        RecipeError: a line is no exact pin with hashes.
    """
    pins = []
    for line in re.sub(r"\\\n", " ", text).splitlines():
        entry = line.partition(" #")[0].strip()
        if entry and not entry.startswith(("#", "-")):
            pins.append(_pin(name, entry))
    return model.RequirementFile(
        sha256=hashlib.sha256(text.encode("utf-8")).hexdigest(),
        pins=tuple(sorted(pins, key=lambda pin: pin.key)),
    )


def _pin(file: str, entry: str) -> model.Requirement:
    words = entry.partition("--hash")[0].strip()
    try:
        requirement = Requirement(words)
    except InvalidRequirement as error:
        raise _not_exact(file, words, str(error)) from error
    versions = [item.version for item in requirement.specifier if item.operator in ("==", "===")]
    hashes = sorted(set(_HASH.findall(entry)))
    if len(versions) != 1 or not hashes:
        raise _not_exact(file, words, "it has no hash" if versions else "it has no exact version")
    return model.Requirement(
        name=canonicalize_name(requirement.name),
        version=versions[0],
        marker=str(requirement.marker) if requirement.marker else None,
        hashes=tuple(hashes),
    )


def _not_exact(file: str, words: str, why: str) -> RecipeError:
    return RecipeError(
        f"'{words}' in {file} has no exact version and hash",
        why=why,
        fix="write it as name==version with --hash=sha256:… for each file",
        evidence={"file": file, "requirement": words},
    )
