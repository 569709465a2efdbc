"""A mirror on a static web server; uses proxies, certificates and logins as pip does for its indexes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import requests
import urllib3

from xpubuild.engine.process import Cancel
from xpubuild.engine.redact import Redactor
from xpubuild.errors import FetchError, SourceIntegrityError
from xpubuild.supply.index.download import download
from xpubuild.supply.index.files import RemoteFile
from xpubuild.supply.index.session import Session, explain
from xpubuild.supply.index.threads import in_threads
from xpubuild.supply.mirror.entries import FileRecord
from xpubuild.supply.mirror.index import MOST_BYTES
from xpubuild.supply.mirror.remote.failures import damaged_there, not_brought, refused, unreachable
from xpubuild.supply.mirror.remote.location import Location
from xpubuild.supply.mirror.remote.transport import Count

_ABSENT = frozenset({404, 410})
_CLOSED = frozenset({401, 403, 407})
_SERVER_FAILS = 500
#: A server that is out of reach must show soon: there may be a copy that is good enough.
_FIRST_RETRIES = 1


class HttpRemote:
    """The mirror at ``location``, reached by pip's settings."""

    def __init__(self, location: Location, cancel: Cancel | None = None) -> None:
        self.location = location
        self._session = Session(_FIRST_RETRIES)
        self._patient = Session()
        self._cancel = cancel

    def read(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Return the content of small files by path; what is not there is left out."""
        found = in_threads(self._content, paths, self._cancel)
        return {path: data for path, data in zip(paths, found, strict=True) if data is not None}

    def bring(self, records: Sequence[FileRecord], into: Path, count: Count) -> None:
        """Bring each file as ``into/<sha256>``, every byte of it verified; several at a time."""
        in_threads(lambda record: self._bring(record, into, count), records, self._cancel)

    def _bring(self, record: FileRecord, into: Path, count: Count) -> None:
        seen = 0

        def on_bytes(here: int) -> None:
            nonlocal seen
            count(here - seen, record.path)
            seen = here

        shown, link = self._links(record.path)
        file = RemoteFile("", "", record.sha256, record.sha256, record.size, shown, origin=link)
        try:
            download(file, into, on_bytes=on_bytes, cancel=self._cancel, session=self._patient)
        except FetchError as error:
            raise not_brought(self.location, record.path, error.why) from None
        except SourceIntegrityError as error:
            raise damaged_there(self.location, record.path, error.why) from None

    def _links(self, path: str) -> tuple[str, str]:
        below = quote(os.fsencode(path))
        return f"{self.location.url}/{below}", f"{self.location.link}/{below}"

    def _content(self, path: str) -> bytes | None:
        """Return a small file; None where there is none. One cut is made good."""
        for is_last in (False, True):
            try:
                return self._ask(path)
            except urllib3.exceptions.HTTPError as error:
                if is_last:
                    why = f"the connection was interrupted: {error}"
                    raise not_brought(self.location, path, why) from None
        return None

    def _ask(self, path: str) -> bytes | None:
        shown, link = self._links(path)
        try:
            # What is compressed on the way would be another content.
            response = self._session.ask(link, headers={"Accept-Encoding": "identity"})
        except requests.RequestException as error:
            raise unreachable(self.location, Redactor()(f"{shown}: {explain(error)}")) from None
        with response:
            said = f"{shown}: answered {response.status_code} {response.reason}"
            if response.status_code in _ABSENT:
                return None
            if response.status_code in _CLOSED:
                raise refused(self.location, said)
            if response.status_code >= _SERVER_FAILS:
                raise unreachable(self.location, said)
            if not response.ok:
                raise not_brought(self.location, path, said)
            data: bytes = response.raw.read(MOST_BYTES, decode_content=False)
            return data
