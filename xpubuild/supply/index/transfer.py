"""HTTP for archives, conda packages and served mirrors, by the settings that pip has on this machine.

requests itself knows proxies with exceptions, and the logins of a URL and of netrc, which it gives to no
other host. Whoever asked can be stopped all the time.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from xpubuild.engine.environment import base_environment
from xpubuild.engine.files import explained, fsync_dir
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.engine.process import Cancel
from xpubuild.engine.redact import Redactor, recordable
from xpubuild.engine.temporary import new_draft
from xpubuild.errors import (
    FetchError,
    InterruptedByUserError,
    RecipeError,
    SourceIntegrityError,
    ToolchainError,
)
from xpubuild.supply.index.files import RemoteFile, is_filename
from xpubuild.supply.index.pipconf import authorities, local_path, pip_settings, switched_on

if TYPE_CHECKING:
    from requests.models import PreparedRequest, Response

# pip's own defaults, and as pip: errors of a server that are likely to pass.
_TIMEOUT_S, _RETRIES, _BACKOFF_S = 15.0, 5, 0.25
_PASSING = (500, 502, 503, 504, 520, 527)
_PARTIAL, _RANGE_REFUSED = 206, 416
_CHUNK = 1 << 16
# How urllib3 names a connection before it says what is wrong with it.
_CONNECTION = re.compile(r"^(?:<[^>]*>|\w+\([^)]*\)): ")
_AGAIN = "run the same command again"
_WORKERS = 6
_LOOK_EVERY_S = 0.1
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class _TrustingAdapter(HTTPAdapter):
    """For ``trusted-host``: no certificate is checked."""

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        return super().send(request, *args, **{**options, "verify": False})


class Session(requests.Session):
    """A session with pip's settings of this machine; ``retries`` lowers how often it asks again.

    Raises:
        ToolchainError: a configuration file of pip cannot be read, or has a value that is none.
    """

    def __init__(self, retries: int | None = None) -> None:
        super().__init__()
        env = base_environment()
        settings = pip_settings(env)
        self.headers["User-Agent"] = "xpubuild"
        self.cert = settings.get("client-cert")
        self._trusted = authorities(settings, env) or True
        self._proxies: dict[str, str] = {}
        if proxy := settings.get("proxy"):
            # It is for everything and knows no exceptions.
            url = proxy if "://" in proxy else f"http://{proxy}"
            self._proxies = dict.fromkeys(("http", "https"), url)
        elif switched_on(settings.get("no-proxy-env")):
            self._proxies = {"no_proxy": "*"}
        self.timeout_s = _number(settings, ("timeout", "default-timeout"), _TIMEOUT_S)
        wanted = int(_number(settings, ("retries",), _RETRIES))
        self.retries = wanted if retries is None else min(wanted, retries)
        # A server could ask for an hour (Retry-After).
        retry = Retry(
            total=self.retries, backoff_factor=_BACKOFF_S, status_forcelist=_PASSING, raise_on_status=False,
            respect_retry_after_header=False,
        )  # fmt: skip
        for prefix in ("https://", "http://"):
            self.mount(prefix, HTTPAdapter(max_retries=retry))
        hosts = settings.get("trusted-host", "").lower().split()
        for host in hosts:
            for end in ("/",) if ":" in host else ("/", ":"):
                self.mount(f"https://{host}{end}", _TrustingAdapter(max_retries=retry))
        if hosts:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)

    def ask(self, url: str, headers: Mapping[str, str] | None = None) -> Response:
        """Send one request, redirects followed; the body is left to be read, as the server has it.

        Raises:
            requests.RequestException: no answer; ``explain`` says why.
        """
        # Some servers compress a .tar.gz once more if they are let.
        return self.get(
            url, headers={"Accept-Encoding": "identity", **(headers or {})}, stream=True,
            timeout=self.timeout_s, verify=self._trusted, proxies=dict(self._proxies),
        )  # fmt: skip

    def rebuild_proxies(self, prepared_request: PreparedRequest, proxies: Any) -> dict[str, str]:  # noqa: ARG002
        """Decide the proxy of a redirect by itself: the new host may be one of the exceptions."""
        prepared_request.headers.pop("Proxy-Authorization", None)
        url = str(prepared_request.url)
        merged = self.merge_environment_settings(url, dict(self._proxies), False, None, None)
        return dict(merged["proxies"])


def explain(error: requests.RequestException) -> str:
    """Say in a few words why a server did not answer."""
    kinds = (
        (requests.exceptions.SSLError, "its certificate is not trusted"),
        (requests.exceptions.ProxyError, "the proxy rejected the connection"),
        (requests.exceptions.Timeout, "no answer in time"),
        (requests.exceptions.ConnectionError, "could not be reached"),
    )
    cause = next((words for kind, words in kinds if isinstance(error, kind)), type(error).__name__)
    reason = getattr(error.args[0] if error.args else None, "reason", None) or error
    return f"{cause}: {_CONNECTION.sub('', str(reason))}"


def _number(settings: Mapping[str, str], names: tuple[str, ...], default: float) -> float:
    text = next((settings[name] for name in names if name in settings), str(default))
    try:
        return float(text)
    except ValueError:
        raise ToolchainError(
            f"pip's setting {names[0]} is '{text}', which is not a number",
            fix=f"correct it in pip's configuration or in PIP_{names[0].upper()}",
            commands=("pip config debug",),
        ) from None


def in_threads(
    work: Callable[[_Item], _Result], items: Iterable[_Item], cancel: Cancel | None = None
) -> list[_Result]:
    """Return ``work`` of each item, in order, several at a time; the first exception is raised.

    A thread that still waits for a server when ``cancel`` is set is left alone and ends with the process: a
    pool's threads would be waited for.

    Raises:
        InterruptedByUserError: ``cancel`` was set.
    """
    tasks: list[tuple[Future[_Result], _Item]] = [(Future(), item) for item in items]
    left, stop = iter(tasks), threading.Event()

    def serve() -> None:
        for future, item in itertools.takewhile(lambda _: not stop.is_set(), left):
            try:
                future.set_result(work(item))
            except BaseException as error:  # noqa: BLE001 - raised again in the thread of the caller
                future.set_exception(error)

    for _ in range(min(_WORKERS, len(tasks))):
        threading.Thread(target=serve, daemon=True).start()
    try:
        while True:
            if cancel:
                raise _stopped()
            done, waiting = wait([future for future, _ in tasks], _LOOK_EVERY_S, FIRST_EXCEPTION)
            for future in done:
                future.result()
            if not waiting:
                return [future.result() for future, _ in tasks]
    finally:
        stop.set()


def _stopped() -> InterruptedByUserError:
    return InterruptedByUserError(
        "a download was stopped", fix="run the same command again; what is whole is kept"
    )


def download(
    file: RemoteFile,
    into: Path,
    *,
    on_bytes: Callable[[int], None] | None = None,
    cancel: Cancel | None = None,
    session: Session | None = None,
) -> Path:
    """Fetch ``file`` into the folder ``into`` and return its place; one that is there and right is kept.

    ``on_bytes`` gets how many bytes more are here, a negative number where some are discarded, in another
    thread, one call at a time. A connection that is cut is carried on with. ``session`` is one whose
    connections are used again.

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
    place, seen = into / file.filename, 0

    def tell(now: int) -> None:
        nonlocal seen
        if on_bytes is not None:
            on_bytes(now - seen)
        seen = now

    with explained(into, f"fetching {shlex.quote(file.filename)}"):
        if file.sha256 and place.is_file() and file_sha256(place) == file.sha256:
            tell(place.stat().st_size)
            return place
        into.mkdir(parents=True, exist_ok=True)
        descriptor, draft = new_draft(into)
        try:
            with os.fdopen(descriptor, "r+b") as stream:
                _receive(file, stream, session or Session(), tell, cancel)
                stream.flush()
                os.fsync(descriptor)
            found, size = file_sha256(draft), draft.stat().st_size
            if file.sha256 not in (None, found):
                raise _wrong(file, found, size)
            draft.chmod(0o644)
            draft.replace(place)
        finally:
            draft.unlink(missing_ok=True)
        fsync_dir(into)
    return place


_Take = Callable[[Iterable[bytes]], None]


def _receive(
    file: RemoteFile, stream: BinaryIO, session: Session, tell: Callable[[int], None], cancel: Cancel | None
) -> None:
    """Write the whole file: of this machine, or of a server."""

    def take(chunks: Iterable[bytes]) -> None:
        for chunk in chunks:
            if cancel:
                raise _stopped()
            stream.write(chunk)
            tell(stream.tell())
            if file.size is not None and stream.tell() > file.size:
                return  # the hash will say that it is another file

    if (path := local_path(file.link)) is not None:
        try:
            with path.open("rb") as source:
                take(iter(lambda: source.read(_CHUNK), b""))
        except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
            raise _failed(file, f"{path}: {error.strerror}") from error
    else:
        _receive_all(file, stream, session, take, cancel)


def _receive_all(
    file: RemoteFile, stream: BinaryIO, session: Session, take: _Take, cancel: Cancel | None
) -> None:
    """Ask a server until the file is whole; tries without progress are counted."""
    furthest, vain = 0, 0
    while True:
        try:
            return in_threads(lambda _: _ask(file, stream, session, take), [None], cancel)[0]
        except requests.RequestException as error:
            raise _failed(file, explain(error)) from None
        except (urllib3.exceptions.HTTPError, ConnectionError, TimeoutError) as error:
            vain = vain + 1 if stream.tell() <= furthest else 0
            furthest = max(furthest, stream.tell())
            if vain > session.retries:
                why = f"the connection was cut {vain} times at {furthest} bytes: {error}"
                raise _failed(file, why) from None
            time.sleep(min(4.0, _BACKOFF_S * (2**vain - 1)))


def _ask(file: RemoteFile, stream: BinaryIO, session: Session, take: _Take) -> None:
    have = stream.tell()
    with session.ask(file.link, {"Range": f"bytes={have}-"} if have else {}) as response:
        carried_on = response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        if have and not (response.status_code == _PARTIAL and carried_on):
            stream.seek(0)
            stream.truncate()
        if response.status_code == _RANGE_REFUSED and have:
            raise ConnectionError("the server did not resume the download")
        if not response.ok:
            raise _failed(file, f"answered {response.status_code} {response.reason}")
        length = response.headers.get("Content-Length", "")
        whole = stream.tell() + int(length) if length.isdigit() else file.size
        take(response.raw.stream(_CHUNK, decode_content=False))
        if whole is not None and stream.tell() < whole:
            raise ConnectionError(f"{stream.tell()} of {whole} bytes were received")


def _failed(file: RemoteFile, why: str) -> FetchError:
    shown = recordable(file.link, tokens_in_path=True)
    return FetchError(
        f"{file.filename} could not be fetched",
        why=Redactor()(f"{shown}: {why}"),
        fix="check the network, the proxy (HTTPS_PROXY, NO_PROXY) and the certificates (PIP_CERT), then "
        f"{_AGAIN}; what is whole is kept",
        commands=("pip config list",),
        evidence={"file": file.filename, "url": shown},
    )


def _wrong(file: RemoteFile, found: str, size: int) -> SourceIntegrityError:
    shown = recordable(file.link, tokens_in_path=True)
    return SourceIntegrityError(
        f"{file.filename} is not the file that is pinned",
        why=f"{shown} gave {size} bytes with sha256 {found}; expected {file.sha256}",
        fix=f"it was replaced or damaged on the server, or by a proxy: correct it there, then {_AGAIN}",
        evidence={"file": file.filename, "url": shown, "expected": file.sha256, "got": found},
    )
