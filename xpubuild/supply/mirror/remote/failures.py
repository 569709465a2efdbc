"""The errors for users of a mirror on a server; they show the URL without its login."""

from __future__ import annotations

from xpubuild.errors import FetchError, SourceIntegrityError, XpuBuildError
from xpubuild.supply.mirror.remote.location import Location

_AGAIN = "run the same command again; what was fetched is kept"


def unreachable(location: Location, why: str) -> FetchError:
    """Return the error of a server that does not answer; ``is_unreachable`` knows it."""
    return FetchError(
        f"the mirror {location} cannot be reached",
        why=why,
        fix=f"check the name, the network and the proxy (HTTPS_PROXY, NO_PROXY), then {_AGAIN}",
        evidence={"reason": "unreachable", "mirror": location.url},
    )


def is_unreachable(error: XpuBuildError) -> bool:
    """Whether an error says that the server did not answer."""
    return error.evidence.get("reason") == "unreachable"


def no_mirror_there(location: Location, why: str) -> FetchError:
    """Return the error of a place without a mirror, or one that cannot be read from afar."""
    return FetchError(
        f"{location} is not a mirror",
        why=why,
        fix=(
            "check the URL; if it is right, run any fetch into the folder on the server, which writes its "
            "index.json"
        ),
        commands=("xpubuild fetch RECIPE --mirror DIR",),
        evidence={"reason": "no-mirror", "mirror": location.url},
    )


def refused(location: Location, why: str) -> FetchError:
    """Return the error of a server that does not let this user in."""
    return FetchError(
        f"access to the mirror {location} was denied",
        why=why,
        fix="put user and password in the URL or in ~/.netrc (NETRC), or fix the server's permissions",
        evidence={"reason": "refused", "mirror": location.url},
    )


def not_brought(location: Location, path: str, why: str) -> FetchError:
    """Return the error of a file of the mirror that did not come."""
    return FetchError(
        f"{path} could not be fetched from the mirror {location}",
        why=why,
        fix=f"check the server that serves the mirror, then {_AGAIN}",
        evidence={"reason": "not-brought", "mirror": location.url, "path": path},
    )


def damaged_there(location: Location, path: str, why: str) -> SourceIntegrityError:
    """Return the error of a file that is not what the mirror's index says."""
    return SourceIntegrityError(
        f"the mirror {location} is damaged: {path}",
        why=why,
        fix=(
            "repair it on the server: the first command below lists all damage, and a fetch with a "
            "network repairs it; this file was not used"
        ),
        commands=("xpubuild fetch --mirror DIR --check", "xpubuild fetch RECIPE --mirror DIR"),
        evidence={"mirror": location.url, "damaged": [{"path": path, "what": "is damaged", "why": why}]},
    )
