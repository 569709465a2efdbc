"""What ``--mirror`` and ``--offline`` mean for git and for pip."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from xpubuild.engine.environment import base_environment
from xpubuild.install.request import Downloads
from xpubuild.supply.index.offline import offline_environment
from xpubuild.supply.mirror.entries import PAGE


def downloads_from(mirror: Path | None, *, offline: bool) -> Downloads:
    """Return what the options say; offline without a mirror, pip is left its configured wheel folders.

    Raises:
        FetchError: there is no mirror at this place.
        UsageError: the folder is something else.
    """
    if mirror is not None:
        from xpubuild.supply.mirror.store import Mirror  # noqa: PLC0415 - for few

        Mirror.open(mirror)
    return Downloads(
        mirror=mirror, offline=offline, pip=_pip(mirror, offline=offline, environ=base_environment())
    )


def _pip(mirror: Path | None, *, offline: bool, environ: Mapping[str, str]) -> dict[str, str]:
    if mirror is None:
        return {"PIP_NO_INDEX": "1"} if offline else {}
    page = mirror / PAGE
    if offline:
        return offline_environment(page)
    # pip splits this variable at blanks; a URL has none.
    known = environ.get("PIP_FIND_LINKS", "")
    return {"PIP_FIND_LINKS": f"{known} {page.as_uri()}".strip()}
