"""Asks, before anything is downloaded, whether the prebuilt wheels of a build can be had for its Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xpubuild.engine.watch import Cancel
from xpubuild.errors import FetchError, SourceIntegrityError, XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.supply.index.config import IndexConfig

# Somebody waits for the answer, and nothing depends on it.
_TIMEOUT_S = 5.0


@frozen
class Prebuilt:
    """A wheel that a build takes prebuilt.

    ``text`` is the hashed requirement file that pins it, "" where nobody has written its hashes down; then
    ``indexes`` alone are asked, else after those that pip is configured with.
    """

    dist: str
    version: str
    indexes: tuple[str, ...] = ()
    text: str = ""


def first_lacking(
    wheels: Sequence[Prebuilt],
    python: str,
    config: IndexConfig,
    *,
    hasty: bool = False,
    cancel: Cancel | None = None,
) -> XpuBuildError | None:
    """Return why the first wheel that is lacking cannot be installed; None if none is.

    A place that does not answer lacks everything; ``hasty`` gives it little time to.

    Raises:
        RecipeError: a requirement file is no list of pins with sha256.
        InterruptedByUserError: ``cancel`` was set.
    """
    from xpubuild.supply.index.wanted import wanted_files, wanted_open  # noqa: PLC0415 (an HTTP client)

    if hasty:
        config = replace(config, retries=0, timeout_s=min(config.timeout_s, _TIMEOUT_S))
    for wheel in wheels:
        try:
            if wheel.text:
                asked = [(wheel.text, wheel.indexes)]
                wanted_files(asked, [python], config, only=wheel.dist, sdists=False, cancel=cancel)
            else:
                wanted_open(wheel.dist, wheel.version, [python], wheel.indexes, config, cancel=cancel)
        except (FetchError, SourceIntegrityError) as error:
            return error
    return None
