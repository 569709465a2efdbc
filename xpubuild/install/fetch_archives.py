"""Archives that builds would download themselves: which cannot be known, and which are not here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xpubuild.engine.reporter import Teller
from xpubuild.errors import FetchError
from xpubuild.install.planner import Archive as Wanted
from xpubuild.install.planner import Inputs
from xpubuild.supply.archives import Archive, Supply, look, nowhere


def note_of(item: Wanted) -> str:
    """Return what is said of an archive without a URL."""
    return f"it is not known from where the build of {item.component} downloads its {item.name}"


def open_archives(inputs: Inputs, teller: Teller) -> Iterator[str]:
    """Yield, and tell the user, what cannot be fetched because nobody knows from where it comes."""
    for item in inputs.archives:
        if item.url is None:
            teller.notice(f"{note_of(item)}; it cannot be fetched", "warning")
            yield note_of(item)


def require_archives(archives: Iterable[Wanted], supply: Supply) -> None:
    """Look up, without a network, every archive that a build would download.

    Raises:
        FetchError: one is not here.
        SourceIntegrityError: the mirror's copy is damaged.
    """
    for item in archives:
        if item.url is None:
            raise FetchError(
                f"the {item.name} of {item.component} is not in the mirror",
                why=note_of(item),
                fix=(
                    f"write a recipe that extends this one and sets components.{item.component}.build"
                    f".archives.{item.name}.url, then fetch again"
                ),
                evidence={"reason": "offline", "archive": item.key},
            )
        archive = Archive(item.name, item.url, item.sha256)
        if look(archive, supply) is None:
            raise nowhere(archive)
