"""pip without a network: what its environment must hold so that it sees a mirror and nothing else.

The words are pip's own (cli/cmdoptions.py, configuration.py). ``PIP_NO_INDEX`` wins over every index, those
of ``--extra-index-url`` too. ``PIP_FIND_LINKS`` is split at blanks, so a path is given as a ``file:`` URL, in
which blanks and letters beyond ASCII are percent-encoded.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from html import escape
from pathlib import Path

# A setting of the caller that would bring in something else; pip takes an empty value as none.
_EMPTIED = (
    "PIP_INDEX_URL",
    "PIP_PYPI_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_TRUSTED_HOST",
    "PIP_PROXY",
    "PIP_CERT",
    "PIP_CLIENT_CERT",
    "PIP_NO_BINARY",
    "PIP_ONLY_BINARY",
    "PIP_PRE",
    "PIP_UPLOADED_PRIOR_TO",
)


def offline_environment(wheels: str | Path) -> dict[str, str]:
    """Return the variables to lay over a command's environment.

    ``wheels`` is a folder of wheels or a page of links (``links_page``), by path or by ``file:`` URL.
    """
    place = str(wheels)
    url = place if place.startswith("file:") else Path(place).absolute().as_uri()
    return {
        **dict.fromkeys(_EMPTIED, ""),
        "PIP_CONFIG_FILE": os.devnull,  # pip then reads no configuration file at all
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": url,
        # Wheels that were built here earlier are no part of the mirror.
        "PIP_NO_CACHE_DIR": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_KEYRING_PROVIDER": "disabled",
        "PIP_NO_INPUT": "1",
    }


def links_page(files: Iterable[tuple[str, str, str]]) -> str:
    """Return an HTML page of links, one for each (href, file name, sha256).

    pip checks the hash in a link also where no requirement file states one.
    """
    lines = [
        f'<a href="{escape(href)}#sha256={sha256}">{escape(name)}</a><br>'
        for href, name, sha256 in sorted(files, key=lambda item: (item[1], item[2]))
    ]
    head = '<!DOCTYPE html>\n<html><head><meta charset="utf-8"><title>Links</title></head><body>'
    return "\n".join((head, *lines, "</body></html>", ""))
