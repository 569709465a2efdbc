"""Whether git and pip can reach a server: name resolution, connection, proxy, certificate, response."""

from __future__ import annotations

import base64
import contextlib
import queue
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal
from urllib.parse import SplitResult, unquote, urlsplit

from xpubuild.frozen import frozen

if TYPE_CHECKING:
    import ssl

DEADLINE_S = 5.0
_PORTS = {"https": 443, "http": 80, "git": 9418, "ssh": 22}
_PROXY_AUTHENTICATION = 407
_SERVER_ERROR = 500
_CA_FILES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO")
Cause = Literal["", "dns", "refused", "timeout", "proxy", "proxy-auth", "tls", "unreachable", "server"]


@frozen
class Reached:
    """The result for one server; ``cause`` is empty if it responded. No text contains a user or password."""

    server: str
    cause: Cause = ""
    detail: str = ""
    proxy: str = ""


class _NotReachedError(Exception):
    def __init__(self, cause: Cause, detail: str) -> None:
        super().__init__(detail)
        self.cause: Cause = cause


def server_of(url: str) -> str:
    """Return scheme://host[:port] of a URL, without user and password; empty where there is no host.

    It is also empty if the text is not a URL: see ``unreadable``.
    """
    if unreadable(url):
        return ""
    parts = urlsplit(url)
    if not parts.hostname or parts.scheme not in _PORTS:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{host}{port}"


def unreadable(url: str) -> bool:
    """Whether a text is no URL: brackets without an address in them, or a port that is no number."""
    try:
        return urlsplit(url).port == 0
    except ValueError:
        return True


def proxy_for(server: str, environ: Mapping[str, str]) -> str:
    """Return the proxy for a server from the variables, or an empty text.

    Lower-case names take precedence, and ``no_proxy`` is read, as curl, git, urllib and requests do it.
    """
    parts = urlsplit(server)
    exempt = environ.get("no_proxy") or environ.get("NO_PROXY", "")
    if _exempt(parts.hostname or "", exempt):
        return ""
    names = [f"{parts.scheme}_proxy", "all_proxy"]
    # HTTP_PROXY in capitals is not read by curl and git: a CGI script would get it from a header.
    capitals = [name.upper() for name in names if name != "http_proxy"]
    return next((environ[name] for name in (*names, *capitals) if environ.get(name)), "")


def _exempt(host: str, entries: str) -> bool:
    """Whether no_proxy contains a host: itself, a domain that it is in, or everything."""
    for entry in entries.split(","):
        domain = entry.strip().partition(":")[0].lower().removeprefix("*").lstrip(".")
        if entry.strip() == "*" or (domain and (host == domain or host.endswith(f".{domain}"))):
            return True
    return False


def reach_all(
    servers: Iterable[str], environ: Mapping[str, str], *, deadline_s: float = DEADLINE_S
) -> tuple[Reached, ...]:
    """Contact all servers in parallel and return a result for each within the timeout."""
    asked = list(dict.fromkeys(servers))
    answers: queue.SimpleQueue[Reached] = queue.SimpleQueue()
    until = time.monotonic() + deadline_s
    for server in asked:
        # Looking up a name cannot be given a deadline, so a thread that does not come back is left behind.
        threading.Thread(
            target=lambda name=server: answers.put(_reach(name, environ, deadline_s)), daemon=True
        ).start()
    found: dict[str, Reached] = {}
    while len(found) < len(asked):
        try:
            answer = answers.get(timeout=max(0.0, until + 0.5 - time.monotonic()))
        except queue.Empty:
            break
        found[answer.server] = answer
    late = Reached("", "timeout", f"no response within {deadline_s:g} s")
    return tuple(found.get(server, Reached(server, late.cause, late.detail)) for server in asked)


def _reach(server: str, environ: Mapping[str, str], deadline_s: float) -> Reached:
    proxy = proxy_for(server, environ)
    shown = server_of(proxy) or ("a proxy" if proxy else "")
    try:
        _ask(urlsplit(server), proxy, environ, deadline_s)
    except _NotReachedError as error:
        return Reached(server, error.cause, str(error), shown)
    except (OSError, ValueError) as error:
        return Reached(server, "unreachable", str(error) or type(error).__name__, shown)
    return Reached(server, proxy=shown)


def _ask(server: SplitResult, proxy: str, environ: Mapping[str, str], deadline_s: float) -> None:
    host, port = server.hostname or "", server.port or _PORTS[server.scheme]
    if server.scheme not in ("http", "https"):
        _connect(host, port, deadline_s).close()
        return
    via = urlsplit(proxy if "://" in proxy else f"http://{proxy}") if proxy else None
    if via is not None and via.scheme.startswith("socks"):
        _connect(via.hostname or "", via.port or 1080, deadline_s, "the proxy ").close()
        return
    with contextlib.ExitStack() as held:
        if via is None:
            stream = held.enter_context(_connect(host, port, deadline_s))
        else:
            stream = held.enter_context(
                _connect(via.hostname or "", via.port or 80, deadline_s, "the proxy ")
            )
            if server.scheme == "https":
                _tunnel(stream, f"{host}:{port}", via)
        if server.scheme == "https":
            stream = held.enter_context(_secure(stream, host, environ))
        by_proxy = via is not None and server.scheme == "http"
        target = f"http://{server.netloc}/" if by_proxy else "/"
        headers = _authorization(via) if via is not None and by_proxy else ""
        status = _status(stream, f"HEAD {target} HTTP/1.1\r\nHost: {server.netloc}\r\n{headers}\r\n")
    if status == _PROXY_AUTHENTICATION:
        raise _NotReachedError("proxy-auth", "the proxy requires a user name and a password (407)")
    if via is not None and status >= _SERVER_ERROR:
        raise _NotReachedError("proxy", f"the proxy responded with {status}")


def _connect(host: str, port: int, deadline_s: float, which: str = "") -> socket.socket:
    try:
        return socket.create_connection((host, port), timeout=deadline_s)
    except socket.gaierror as error:
        raise _NotReachedError("dns", f"the host name {host} cannot be resolved: {error.strerror}") from error
    except ConnectionRefusedError as error:
        cause: Cause = "proxy" if which else "refused"
        raise _NotReachedError(cause, f"{which}{host}:{port} refused the connection") from error
    except TimeoutError as error:
        raise _NotReachedError("timeout", f"{which}{host}:{port} does not respond") from error
    except OSError as error:
        raise _NotReachedError("unreachable", f"{which}{host}:{port}: {error.strerror or error}") from error


def _tunnel(stream: socket.socket, target: str, via: SplitResult) -> None:
    head = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{_authorization(via)}\r\n"
    status = _status(stream, head)
    if status == _PROXY_AUTHENTICATION:
        raise _NotReachedError("proxy-auth", "the proxy requires a user name and a password (407)")
    if status // 100 != 2:  # noqa: PLR2004 - any success
        raise _NotReachedError(
            "proxy", f"the proxy does not forward the connection: it responded with {status}"
        )


def _authorization(via: SplitResult) -> str:
    if not via.username:
        return ""
    pair = f"{unquote(via.username)}:{unquote(via.password or '')}".encode()
    return f"Proxy-Authorization: Basic {base64.b64encode(pair).decode()}\r\n"


def _status(stream: socket.socket, request: str) -> int:
    """Send a request and return the status of the response; only headers are read."""
    try:
        stream.sendall(request.encode("ascii", "replace"))
        with stream.makefile("rb") as reader:
            line = reader.readline(4096).decode("latin-1")
            while reader.readline(65536).strip():
                pass
    except TimeoutError as error:
        raise _NotReachedError("timeout", "connected, but no response") from error
    except OSError as error:
        raise _NotReachedError(
            "unreachable", f"the connection was interrupted: {error.strerror or error}"
        ) from error
    words = line.split(" ", 2)
    if not line.startswith("HTTP/") or len(words) < 2 or not words[1].isdigit():  # noqa: PLR2004 - HTTP/x and status
        raise _NotReachedError("server", "the response is not HTTP" if line else "the connection was closed")
    return int(words[1])


def _secure(stream: socket.socket, host: str, environ: Mapping[str, str]) -> ssl.SSLSocket:
    import ssl  # noqa: PLC0415 - loads OpenSSL, and few runs have a recipe

    try:
        return _trust(environ).wrap_socket(stream, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise _NotReachedError("tls", error.verify_message or str(error)) from error
    except TimeoutError as error:
        raise _NotReachedError("timeout", "the TLS handshake timed out") from error
    except (ssl.SSLError, OSError) as error:
        raise _NotReachedError("tls", f"no TLS connection: {error}") from error


def _trust(environ: Mapping[str, str]) -> ssl.SSLContext:
    """Return the trusted certificates: the bundles in the variables, or the system's."""
    import ssl  # noqa: PLC0415 - as above

    context = ssl.create_default_context()
    for name in _CA_FILES:
        if environ.get(name):
            try:
                context.load_verify_locations(cafile=environ[name])
            except (OSError, ssl.SSLError) as error:
                raise _NotReachedError("tls", f"{name}={environ[name]} cannot be read: {error}") from error
    return context
