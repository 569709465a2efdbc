"""What is told of a pin for which indexes and wheel folders have no file."""

from __future__ import annotations

import re
from collections.abc import Sequence

from packaging.version import Version

from xpubuild.errors import FetchError, SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.index.choice import Offer, matches
from xpubuild.supply.index.pages import Sources
from xpubuild.supply.requirements import HashedPin

_AGAIN = "then run the same command again"
_CPYTHON = re.compile(r"cp3(\d+)")


@frozen
class Need:
    """One pin for one interpreter."""

    pin: HashedPin
    python: str
    machine: str
    indexes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The pin and its interpreter in words."""
        return f"{self.pin.name} {self.pin.version} for Python {self.python}"


def nothing(what: str, need: Need, asked: Sequence[Sources]) -> FetchError:
    """Return the error of a pin that no place has for this interpreter; for others it may."""
    looked = [line for sources in asked for line in sources.looked()]
    failed = any(sources.failures for sources in asked)
    others = ", ".join(_other_pythons(need, asked))
    ways = ["let pip use an index or a wheel folder that has it"]
    if others:
        ways.insert(
            0, f"use Python {' or '.join(others.rsplit(', ', 1))} (--python, or --for-python of fetch)"
        )
    if failed:
        ways.insert(0, "check the network, the proxy (HTTPS_PROXY, NO_PROXY) and the certificates (PIP_CERT)")
    return FetchError(
        f"{what} was not found",
        why=f"looked in {'; '.join(looked) or 'no place: pip has no index'}"
        + (f"; there it is for Python {others}" if others else ""),
        fix=f"{', or '.join(ways)}, {_AGAIN}",
        commands=("pip config list", _download(need)),
        evidence=_evidence(need, asked),
    )


def other_hashes(need: Need, others: Sequence[Offer], asked: Sequence[Sources]) -> SourceIntegrityError:
    """Return the error of a pin whose files all have hashes that the requirement file does not have."""
    names = sorted({f"{item.filename} (sha256 {item.sha256})" for item in others})
    return SourceIntegrityError(
        f"{need.text} is only available with hashes that the requirement file does not have",
        why="; ".join(names),
        fix=(
            "it was replaced, damaged or rebuilt on the server: fix the index or wheel folder that 'pip "
            f"config list' shows, {_AGAIN}"
        ),
        commands=("pip config list",),
        evidence=_evidence(need, asked),
    )


def _download(need: Need) -> str:
    """Return what asks any pip for the file of this interpreter."""
    python = ".".join(need.python.removesuffix("t").split(".")[:2])
    return (
        f"pip download --no-deps --only-binary :all: --python-version {python}"
        f" '{need.pin.name}=={need.pin.version}'"
    )


def _evidence(need: Need, asked: Sequence[Sources]) -> dict[str, object]:
    return {
        "distribution": need.pin.name,
        "version": need.pin.version,
        "python": need.python,
        "looked": [line for sources in asked for line in sources.looked()],
        "other_pythons": _other_pythons(need, asked),
    }


def _other_pythons(need: Need, asked: Sequence[Sources]) -> list[str]:
    """Return the minor versions of Python that have a wheel of this release at these places."""
    versions = {
        f"3.{match[1]}"
        for sources in asked
        for item in sources.offers(need.pin.name)
        if matches(item.version, need.pin.specifier) and _usable(item, need)
        for tag in item.tags or ()
        if (match := _CPYTHON.fullmatch(tag.interpreter)) and tag.abi == tag.interpreter
    }
    return sorted(versions, key=Version)


def _usable(item: Offer, need: Need) -> bool:
    """Whether this machine could use the file, with another Python."""
    good = item.sha256 is None or not need.pin.hashes or item.sha256 in need.pin.hashes
    return good and any(tag.platform.endswith(need.machine) for tag in item.tags or ())
