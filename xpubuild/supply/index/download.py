"""Fetches one file: resumed where it was cut, checked against its hash, in place only when right.

The file into which it is written is kept for the next try, and never shared by two processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import requests
import urllib3

from xpubuild.engine.files import explained, fsync_dir
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.engine.process import Cancel
from xpubuild.engine.redact import Redactor, recordable
from xpubuild.engine.temporary import new_draft
from xpubuild.errors import FetchError, RecipeError, SourceIntegrityError
from xpubuild.supply.index.files import RemoteFile, is_filename
from xpubuild.supply.index.pipconf import local_path
from xpubuild.supply.index.session import Session, explain, in_threads, stopped

_CHUNK = 1 << 16
_PARTIAL = 206
_RANGE_REFUSED = 416
_RANGE = re.compile(r"bytes (\d+)-")
_BACKOFF_S = 0.25
_LONGEST_BACKOFF_S = 4.0
_AGAIN = "then run the same command again; what was fetched is kept"


class _CutError(Exception):
    """The connection ended before the file did."""


def download(
    file: RemoteFile,
    into: Path,
    *,
    on_bytes: Callable[[int], None] | None = None,
    cancel: Cancel | None = None,
    session: Session | None = None,
) -> Path:
    """Fetch ``file`` into the folder ``into`` and return its place; one that is there and right is kept.

    ``on_bytes`` gets the number of bytes of this file that are here so far, in another thread, one call at a
    time; the number falls where a damaged part is thrown away. What a cut connection or a kill leaves (a
    hidden ``.part`` file) is used by this call and by later ones. ``session`` is one whose connections are
    used again.

    Raises:
        RecipeError: the file's name is none.
        FetchError: it could not be fetched; names file and server.
        SourceIntegrityError: what came has another hash; nothing of it is kept.
        NoSpaceError, ToolchainError: ``into`` cannot be written.
        InterruptedByUserError: ``cancel`` was set.
    """
    if not is_filename(file.filename):
        raise RecipeError(
            f"'{file.filename}' is not the name of a package file",
            why="it would be outside the download folder, or hidden in it",
            fix="correct the lock or list that has it",
        )
    place = into / file.filename
    tell = on_bytes or (lambda _: None)
    with explained(into, f"fetching {shlex.quote(file.filename)}"):
        if file.sha256 and place.is_file() and file_sha256(place) == file.sha256:
            tell(place.stat().st_size)
            return place
        into.mkdir(parents=True, exist_ok=True)
        with _part_of(into, file) as (path, stream):
            transfer = _Transfer(file, stream, session or Session(), tell, cancel)
            in_threads(lambda _: transfer.run(), [None], cancel)
            stream.flush()
            os.fsync(stream.fileno())
            path.chmod(0o644)
            path.replace(place)
        fsync_dir(into)
    return place


@contextlib.contextmanager
def _part_of(into: Path, file: RemoteFile) -> Iterator[tuple[Path, BinaryIO]]:
    """Open what an earlier try left of ``file``, or a new part; one that turned out wrong is removed.

    Where another process writes the same part, or where no hash could tell a wrong part from a right one, it
    is a new file that goes when the download fails.
    """
    path = into / f".{file.filename}.{(file.sha256 or '')[:12]}.part"
    stream = _locked(path) if file.sha256 else None
    kept = stream is not None
    if stream is None:
        descriptor, path = new_draft(into)
        stream = os.fdopen(descriptor, "r+b")
    try:
        with stream:
            yield path, stream
    except BaseException as error:
        if not kept or isinstance(error, SourceIntegrityError):
            path.unlink(missing_ok=True)
        raise


def _locked(path: Path) -> BinaryIO | None:
    """Open a part that no other process writes; None where one does."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    stream = os.fdopen(descriptor, "r+b")
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Else another process finished it and moved it into place between open and lock.
        if path.exists() and path.stat().st_ino == os.fstat(descriptor).st_ino:
            return stream
    stream.close()
    return None


class _Transfer:
    """One download into an open file that may hold the beginning already."""

    def __init__(
        self,
        file: RemoteFile,
        stream: BinaryIO,
        session: Session,
        tell: Callable[[int], None],
        cancel: Cancel | None,
    ) -> None:
        self._file, self._stream, self._session = file, stream, session
        self._tell, self._cancel = tell, cancel
        self._shown = recordable(file.link, tokens_in_path=True)
        self._have = 0
        self._digest = hashlib.sha256()

    def run(self) -> None:
        """Write the whole file and check it."""
        self._stream.seek(0)
        while chunk := self._stream.read(_CHUNK):
            self._count(chunk)
        if self._file.size is not None and self._have > self._file.size:
            self._restart()
        resumed = self._have > 0
        self._receive_all()
        if resumed and not self._is_right():
            # What an earlier try left may be what is wrong.
            self._restart()
            self._receive_all()
        if not self._is_right():
            raise self._wrong()

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

    def _is_right(self) -> bool:
        return self._file.sha256 in (None, self._digest.hexdigest())

    def _receive_all(self) -> None:
        """Ask until the file is whole; tries that fetch nothing further are counted."""
        if (path := local_path(self._file.link)) is not None:
            self._copy(path)
            return None
        furthest, vain = self._have, 0
        while self._have == 0 or self._have != self._file.size:
            try:
                return self._ask()
            except (_CutError, urllib3.exceptions.HTTPError, ConnectionError, TimeoutError) as error:
                vain = vain + 1 if self._have <= furthest else 0
                furthest = max(furthest, self._have)
                if vain > self._session.retries:
                    why = f"the connection was cut {vain} times at {self._have} bytes: {error}"
                    raise self._failed(why) from None
                time.sleep(min(_LONGEST_BACKOFF_S, _BACKOFF_S * (2**vain - 1)))
        return None

    def _copy(self, path: Path) -> None:
        self._restart()
        try:
            with path.open("rb") as source:
                while chunk := source.read(_CHUNK):
                    self._stream.write(chunk)
                    self._count(chunk)
        except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
            raise self._failed(f"{path}: {error.strerror}") from error

    def _ask(self) -> None:
        # Some servers compress a .tar.gz once more if they are let.
        headers = {"Accept-Encoding": "identity"}
        if self._have:
            headers["Range"] = f"bytes={self._have}-"
        try:
            response = self._session.ask(self._file.link, headers=headers)
        except requests.RequestException as error:
            raise self._failed(explain(error)) from None
        with response:
            if response.status_code == _RANGE_REFUSED and self._have:
                self._restart()
                raise _CutError("the server did not resume the download")
            if not response.ok:
                raise self._failed(f"answered {response.status_code} {response.reason}")
            begins = _RANGE.match(response.headers.get("Content-Range", ""))
            if self._have and not (
                response.status_code == _PARTIAL and begins is not None and int(begins[1]) == self._have
            ):
                self._restart()
            self._stream.seek(self._have)
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
        return FetchError(
            f"{self._file.filename} could not be fetched",
            why=Redactor()(f"{self._shown}: {why}"),
            fix="check the network, the proxy (HTTPS_PROXY, NO_PROXY) and the certificates (PIP_CERT), "
            + _AGAIN,
            commands=("pip config list",),
            evidence={"file": self._file.filename, "url": self._shown},
        )

    def _wrong(self) -> SourceIntegrityError:
        got, expected = self._digest.hexdigest(), self._file.sha256
        return SourceIntegrityError(
            f"{self._file.filename} is not the file that is pinned",
            why=f"{self._shown} gave {self._have} bytes with sha256 {got}; expected {expected}",
            fix="it was replaced or damaged on the server, or by a proxy: correct it there, then run the same"
            " command again",
            evidence={"file": self._file.filename, "url": self._shown, "expected": expected, "got": got},
        )
