"""``wheels.html``: the page by which pip finds the files of a mirror (``--find-links``). Pure."""

from __future__ import annotations

import html
from collections.abc import Iterable
from urllib.parse import quote

from xpubuild.mirror.entries import Entry

_HEAD = (
    '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{title}</title></head>\n<body>\n'
)
_TITLE = "Python packages of this mirror"


def page(entries: Iterable[Entry]) -> bytes:
    """Return the page of all wheels and source distributions, with relative links and their hashes."""
    lines = [_HEAD.format(title=_TITLE)]
    python = [entry for entry in entries if entry.kind in ("wheel", "sdist")]
    for entry in sorted(python, key=lambda item: (item.name, item.sha256)):
        link = f"{quote(entry.files[0].path)}#sha256={entry.sha256}"
        lines.append(f'<a href="{html.escape(link)}">{html.escape(entry.name)}</a><br>\n')
    return "".join([*lines, "</body>\n</html>\n"]).encode()
