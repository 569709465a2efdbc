"""HTTP for archives, conda packages and served mirrors, by the settings that pip has on this machine; and
threads for slow questions, so that the caller can be stopped while a server does not answer.

requests itself knows proxies with exceptions, and the logins of a URL and of netrc, which it gives to no
other host.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from typing import TYPE_CHECKING, Any, TypeVar

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import Cancel
from xpubuild.errors import InterruptedByUserError, ToolchainError
from xpubuild.supply.index.pipconf import authorities, pip_settings, switched_on

if TYPE_CHECKING:
    from requests.models import PreparedRequest, Response

# pip's own defaults, and as pip: errors of a server that are likely to pass.
_TIMEOUT_S = 15.0
_RETRIES = 5
_PASSING = (500, 502, 503, 504, 520, 527)
_BACKOFF_S = 0.25
# How urllib3 names a connection before it says what is wrong with it.
_CONNECTION = re.compile(r"^(?:<[^>]*>|\w+\([^)]*\)): ")
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
        self._proxies = _proxies(settings)
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

    def ask(self, url: str, *, headers: Mapping[str, str] | None = None) -> Response:
        """Send one request, redirects followed; the body is left to be read.

        Raises:
            requests.RequestException: no answer; ``explain`` says why.
        """
        return self.get(
            url, headers=dict(headers or {}), stream=True, timeout=self.timeout_s, verify=self._trusted,
            proxies=dict(self._proxies),
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
    said = next((words for kind, words in kinds if isinstance(error, kind)), type(error).__name__)
    reason = getattr(error.args[0] if error.args else None, "reason", None) or error
    return f"{said}: {_CONNECTION.sub('', str(reason))}"


def _proxies(settings: Mapping[str, str]) -> dict[str, str]:
    """Return what overrides the variables: pip's ``proxy`` is for everything and knows no exceptions."""
    if proxy := settings.get("proxy"):
        return dict.fromkeys(("http", "https"), proxy if "://" in proxy else f"http://{proxy}")
    return {"no_proxy": "*"} if switched_on(settings.get("no-proxy-env")) else {}


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

    A thread that still waits for a server when ``cancel`` is set is left to its time limit and ends with the
    process: a pool's threads would be waited for.

    Raises:
        InterruptedByUserError: ``cancel`` was set.
    """
    tasks: list[tuple[Future[_Result], _Item]] = [(Future(), item) for item in items]
    left, stop = iter(tasks), threading.Event()

    def serve() -> None:
        for future, item in left:
            if stop.is_set():
                return
            try:
                future.set_result(work(item))
            except BaseException as error:  # noqa: BLE001 - raised again in the thread of the caller
                future.set_exception(error)

    for _ in range(min(_WORKERS, len(tasks))):
        threading.Thread(target=serve, daemon=True).start()
    try:
        while True:
            if cancel:
                raise stopped()
            done, waiting = wait([future for future, _ in tasks], _LOOK_EVERY_S, FIRST_EXCEPTION)
            for future in done:
                future.result()
            if not waiting:
                return [future.result() for future, _ in tasks]
    finally:
        stop.set()


def stopped() -> InterruptedByUserError:
    """Return the error of a run that was asked to stop."""
    return InterruptedByUserError(
        "fetching Python files was stopped", fix="run the same command again; what was fetched is kept"
    )
