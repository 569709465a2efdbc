"""``wheels.html``: the page by which pip finds the files of a mirror (``--find-links``)."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from xpubuild.mirror.entries import Entry
from xpubuild.packages.index.offline import links_page


def page(entries: Iterable[Entry]) -> bytes:
    """Return the page of all wheels and source distributions, with relative links and their hashes."""
    python = [entry for entry in entries if entry.kind in ("wheel", "sdist")]
    return links_page((quote(item.files[0].path), item.name, item.sha256) for item in python).encode()
