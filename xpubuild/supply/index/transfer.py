"""HTTP for archives, conda packages and served mirrors, by the settings that pip has on this machine.

requests itself knows proxies with exceptions, and the logins of a URL and of netrc, which it gives to no
other host. Whoever asked can be stopped all the time.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from xpubuild.engine.environment import base_environment
from xpubuild.engine.files import explained, replacing
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.engine.process import Cancel
from xpubuild.engine.redact import Redactor, recordable
from xpubuild.errors import FetchError, RecipeError, SourceIntegrityError, ToolchainError
from xpubuild.supply.depot.entries import is_filename
from xpubuild.supply.index.pipconf import authorities, local_path, pip_settings, switched_on

if TYPE_CHECKING:
    from requests.models import PreparedRequest, Response

# pip's own defaults, and as pip: errors of a server that are likely to pass.
_TIMEOUT_S, _RETRIES, _BACKOFF_S = 15.0, 5, 0.25
_PASSING = (500, 502, 503, 504, 520, 527)
_PARTIAL, _RANGE_REFUSED = 206, 416
_CHUNK = 1 << 14
#: What an exchange has to bring in so many seconds (the first time, all of an answer), and how often it may
#: fail to: each read has a deadline of its own, which a byte now and then keeps for ever.
_LEAST_BYTES, _PACE_S, _MOST_SLOW = 1 << 15, 30.0, 2
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
            self._proxies = dict.fromkeys(("http", "https"), proxy if "://" in proxy else f"http://{proxy}")
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
        own = dict(self._proxies)
        merged = self.merge_environment_settings(str(prepared_request.url), own, False, None, None)
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
    work: Callable[[_Item], _Result],
    items: Iterable[_Item],
    cancel: Cancel | None = None,
    look: Callable[[], None] = lambda: None,
) -> list[_Result]:
    """Return ``work`` of each item, in order, several at a time; the first exception is raised.

    A thread that still waits for a server when ``cancel`` is set or ``look``, which is called all the time,
    raises is left alone and ends with the process: a pool's threads would be waited for.

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
            if cancel is not None:
                cancel.stop_here()
            look()
            done, waiting = wait([future for future, _ in tasks], _LOOK_EVERY_S, FIRST_EXCEPTION)
            for future in done:
                future.result()
            if not waiting:
                return [future.result() for future, _ in tasks]
    finally:
        stop.set()


def download(
    link: str, sha256: str | None, into: Path, name: str, *, size: int | None = None,
    on_bytes: Callable[[int], None] = lambda _: None, cancel: Cancel | None = None,
    session: Session | None = None,
) -> Path:  # fmt: skip
    """Fetch a file into a folder and return its place there; one that is there and right is kept.

    ``link`` may hold a login, which is shown nowhere. ``sha256`` is None where nobody states it, ``size`` the
    bytes that are known of. ``on_bytes`` gets how many bytes more are here, a negative number where some are
    discarded, in another thread, one call at a time. A connection that is cut is carried on with. ``session``
    is one whose connections are used again.

    Raises:
        RecipeError: the file's name is none.
        FetchError: it could not be fetched; names file and server.
        SourceIntegrityError: what came has another hash; nothing of it is kept.
        NoSpaceError, ToolchainError: the folder cannot be written.
        InterruptedByUserError: ``cancel`` was set.
    """
    if not is_filename(name):
        raise RecipeError(
            f"'{name}' is not the name of a package file",
            why="it would be outside the download folder, or hidden in it",
            fix="correct the lock or list that has it",
        )
    place = into / name
    with explained(into, f"fetching {shlex.quote(name)}"):
        if sha256 and place.is_file() and file_sha256(place) == sha256:
            on_bytes(place.stat().st_size)
            return place
        into.mkdir(parents=True, exist_ok=True)
        with replacing(place) as stream:
            transfer = _Transfer(link, name, stream, size, on_bytes, cancel)
            transfer.perform(session or Session())
            found, shown = transfer.total.hexdigest(), recordable(link, tokens_in_path=True)
            if sha256 not in (None, found):
                raise SourceIntegrityError(
                    f"{name} is not the file that is pinned",
                    why=f"{shown} gave {transfer.have} bytes with sha256 {found}; expected {sha256}",
                    fix="it was replaced or damaged on the server, or by a proxy: correct it there, then"
                    f" {_AGAIN}",
                    evidence={"file": name, "url": shown, "expected": sha256, "got": found},
                )
    return place


class _TooSlowError(Exception):
    """A server keeps its client waiting."""


@dataclass
class _Transfer:
    """A file on its way into ``stream``; ``total`` is the hash of what it has, ``have`` the bytes of that.

    Only the thread of the present ``attempt`` writes: one that was left alone may still get an answer.
    """

    link: str
    name: str
    stream: BinaryIO
    size: int | None
    on_bytes: Callable[[int], None]
    cancel: Cancel | None

    def __post_init__(self) -> None:
        self.total, self.have = hashlib.sha256(), 0
        self.attempt, self.mutex = 0, threading.Lock()

    def perform(self, session: Session) -> None:
        """Write the whole file: of this machine, or of a server. Tries without progress are counted."""
        if (path := local_path(self.link)) is not None:
            try:
                with path.open("rb") as source:
                    return self._take(iter(lambda: source.read(_CHUNK), b""), 0)
            except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
                raise self._failed(f"{path}: {error.strerror}") from error
        furthest, vain, slow = 0, 0, 0
        while True:
            with self.mutex:
                self.attempt += 1
            try:
                ask = functools.partial(self._ask, session)
                return in_threads(ask, [self.attempt], self.cancel, self._pace(session))[0]
            except _TooSlowError as error:
                slow += 1
                if slow == _MOST_SLOW:
                    with self.mutex:
                        self.attempt += 1
                    raise self._failed(str(error)) from None
            except requests.RequestException as error:
                raise self._failed(explain(error)) from None
            except (urllib3.exceptions.HTTPError, ConnectionError, TimeoutError) as error:
                vain = vain + 1 if self.have <= furthest else 0
                furthest = max(furthest, self.have)
                if vain > session.retries:
                    why = f"the connection was cut {vain} times at {furthest} bytes: {error}"
                    raise self._failed(why) from None
                time.sleep(min(4.0, _BACKOFF_S * (2**vain - 1)))

    def _pace(self, session: Session) -> Callable[[], None]:
        """Return what ends an exchange that brings too little, whatever of an answer it is about."""
        patience = max(_PACE_S, 2 * session.timeout_s)
        mark, end = self.have, time.monotonic() + patience

        def look() -> None:
            nonlocal mark, end
            if time.monotonic() < end:
                return
            if 0 <= self.have - mark < _LEAST_BYTES:
                raise _TooSlowError(f"fewer than {_LEAST_BYTES >> 10} KiB came in {patience:g} s")
            mark, end = self.have, time.monotonic() + patience

        return look

    def _take(self, chunks: Iterable[bytes], attempt: int) -> None:
        for chunk in chunks:
            if self.cancel is not None:
                self.cancel.stop_here()
            with self.mutex:
                if attempt != self.attempt:
                    return
                self.stream.write(chunk)
                self.total.update(chunk)
                self.have += len(chunk)
            self.on_bytes(len(chunk))
            if self.size is not None and self.have > self.size:
                return  # the hash will say that it is another file

    def _ask(self, session: Session, attempt: int) -> None:
        begin = self.have
        with session.ask(self.link, {"Range": f"bytes={begin}-"} if begin else {}) as response:
            carried_on = response.headers.get("Content-Range", "").startswith(f"bytes {begin}-")
            if begin and not (response.status_code == _PARTIAL and carried_on):
                with self.mutex:
                    if attempt != self.attempt:
                        return
                    self.stream.seek(0)
                    self.stream.truncate()
                    self.total, self.have = hashlib.sha256(), 0
                self.on_bytes(-begin)
            if response.status_code == _RANGE_REFUSED and begin:
                raise ConnectionError("the server did not resume the download")
            if not response.ok:
                raise self._failed(f"answered {response.status_code} {response.reason}", response.status_code)
            length = response.headers.get("Content-Length", "")
            ends = [self.have + int(length)] if length.isdigit() else []
            ends += [self.size] if self.size is not None else []
            self._take(response.raw.stream(_CHUNK, decode_content=False), attempt)
            if ends and self.have < min(ends):
                raise ConnectionError(f"{self.have} of {min(ends)} bytes were received")

    def _failed(self, why: str, status: int | None = None) -> FetchError:
        shown = recordable(self.link, tokens_in_path=True)
        return FetchError(
            f"{self.name} could not be fetched",
            why=Redactor()(f"{shown}: {why}"),
            fix="check the network, the proxy (HTTPS_PROXY, NO_PROXY) and the certificates (PIP_CERT), then "
            f"{_AGAIN}; what is whole is kept",
            commands=("pip config list",),
            evidence={"file": self.name, "url": shown, "status": status},
        )
