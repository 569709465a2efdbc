"""Moves the bytes of one file: over HTTP with ranges, or from a folder; knows hash and progress."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import requests
import urllib3

from xpubuild.engine.redact import recordable
from xpubuild.engine.watch import Cancel
from xpubuild.errors import FetchError, SourceIntegrityError
from xpubuild.supply.index.config import local_path
from xpubuild.supply.index.files import RemoteFile
from xpubuild.supply.index.pages import explain
from xpubuild.supply.index.session import IndexSession
from xpubuild.supply.index.threads import stopped

_CHUNK = 1 << 16
_PARTIAL = 206
_RANGE_REFUSED = 416
_RANGE = re.compile(r"bytes (\d+)-")
_BACKOFF_S = 0.25
_LONGEST_BACKOFF_S = 4.0
_AGAIN = "then run the same command again; what was fetched is kept"


class _CutError(Exception):
    """The connection ended before the file did."""


class Transfer:
    """One download into an open file that may hold the beginning already."""

    def __init__(
        self,
        file: RemoteFile,
        stream: BinaryIO,
        session: IndexSession,
        tell: Callable[[int], None],
        cancel: Cancel | None,
    ) -> None:
        self._file = file
        self._stream = stream
        self._session = session
        self._config = session.config
        self._tell = tell
        self._cancel = cancel
        self._have = 0
        self._digest = hashlib.sha256()

    def run(self) -> None:
        """Write the whole file and check it.

        Raises:
            FetchError: it could not be fetched.
            SourceIntegrityError: it has another hash.
            InterruptedByUserError: it was cancelled.
        """
        self._take_over()
        carried_on = self._have > 0
        self._bring()
        if carried_on and not self._right():
            # What an earlier try left may be what is wrong.
            self._restart()
            self._bring()
        if not self._right():
            raise self._wrong()

    def _bring(self) -> None:
        path = local_path(self._file.link)
        if path is None:
            self._fetch()
        else:
            self._copy(path)

    def _take_over(self) -> None:
        """Read what an earlier try left; more than the file has can be no part of it."""
        self._stream.seek(0)
        while chunk := self._stream.read(_CHUNK):
            self._count(chunk)
        if self._file.size is not None and self._have > self._file.size:
            self._restart()

    def _restart(self) -> None:
        self._stream.seek(0)
        self._stream.truncate()
        self._have = 0
        self._digest = hashlib.sha256()
        self._tell(0)

    def _count(self, chunk: bytes) -> None:
        if self._cancel:
            raise stopped()
        self._digest.update(chunk)
        self._have += len(chunk)
        self._tell(self._have)

    def _right(self) -> bool:
        return not self._file.expected or self._digest.hexdigest() in self._file.expected

    def _copy(self, path: Path) -> None:
        self._restart()
        try:
            source = path.open("rb")
        except OSError as error:
            raise self._failed(f"{path}: {error.strerror}") from error
        with source:
            while chunk := source.read(_CHUNK):
                self._stream.write(chunk)
                self._count(chunk)

    def _fetch(self) -> None:
        """Ask until the file is whole; tries that bring nothing further are counted."""
        furthest, vain = self._have, 0
        while not self._whole():
            try:
                self._ask()
            except (_CutError, urllib3.exceptions.HTTPError, OSError) as error:
                if isinstance(error, OSError) and not isinstance(error, (ConnectionError, TimeoutError)):
                    raise
                vain = vain + 1 if self._have <= furthest else 0
                furthest = max(furthest, self._have)
                if vain > self._config.retries:
                    raise self._failed(
                        f"the connection was cut {vain} times at {self._have} bytes: {error}"
                    ) from None
                time.sleep(min(_LONGEST_BACKOFF_S, _BACKOFF_S * (2**vain - 1)))
            else:
                return

    def _whole(self) -> bool:
        return self._have > 0 and self._have == self._file.size

    def _ask(self) -> None:
        # Some servers compress a .tar.gz once more if they are let.
        headers = {"Accept-Encoding": "identity"}
        if self._have:
            headers["Range"] = f"bytes={self._have}-"
        try:
            response = self._session.ask(self._file.link, headers=headers, stream=True)
        except requests.RequestException as error:
            raise self._failed(explain(error)) from None
        with response:
            if response.status_code == _RANGE_REFUSED and self._have:
                self._restart()
                raise _CutError("the server did not resume the download")
            if not response.ok:
                raise self._failed(f"answered {response.status_code} {response.reason}")
            if self._have and not self._continues(response):
                self._restart()
            self._stream.seek(self._have)
            self._receive(response)

    def _continues(self, response: requests.Response) -> bool:
        begins = _RANGE.match(response.headers.get("Content-Range", ""))
        return response.status_code == _PARTIAL and begins is not None and int(begins[1]) == self._have

    def _receive(self, response: requests.Response) -> None:
        length = response.headers.get("Content-Length", "")
        whole = self._have + int(length) if length.isdigit() else self._file.size
        for chunk in response.raw.stream(_CHUNK, decode_content=False):
            self._stream.write(chunk)
            self._count(chunk)
            if self._file.size is not None and self._have > self._file.size:
                return  # the hash will say that it is another file
        if whole is not None and self._have < whole:
            raise _CutError(f"{self._have} of {whole} bytes were received")

    def _failed(self, why: str) -> FetchError:
        url = recordable(self._file.link, tokens_in_path=True)
        return FetchError(
            f"{self._file.filename} could not be fetched",
            why=self._config.shown(f"{url}: {why}"),
            fix="check the network, the proxy (HTTPS_PROXY, NO_PROXY), the certificates (PIP_CERT) and the"
            f" index that 'pip config list' shows, {_AGAIN}",
            commands=("pip config list",),
            evidence={"file": self._file.filename, "url": url},
        )

    def _wrong(self) -> SourceIntegrityError:
        got = self._digest.hexdigest()
        expected = sorted(self._file.expected)
        url = recordable(self._file.link, tokens_in_path=True)
        return SourceIntegrityError(
            f"{self._file.filename} is not the file that is pinned",
            why=f"{url} gave {self._have} bytes with sha256 {got}; expected {', '.join(expected)}",
            fix=(
                "it was replaced or damaged on the server, or by a proxy: fix the index or wheel folder "
                "that 'pip config list' shows, then run the same command again"
            ),
            commands=("pip config list",),
            evidence={"file": self._file.filename, "url": url, "expected": expected, "got": got},
        )
