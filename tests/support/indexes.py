"""Package indexes on loopback with faults to order, and a proxy that notes what goes through it."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.server
import random
import select
import socket
import ssl
import subprocess
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, unquote, urlsplit

_Running = TypeVar("_Running", bound="_Server")


def noise(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)  # noqa: S311


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]

    @property
    def login(self) -> str:
        scheme, _, value = self.headers.get("authorization", "").partition(" ")
        return base64.b64decode(value).decode() if scheme == "Basic" else ""


class _Quiet(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is part of many tests."""


class _Server:
    """A server in a thread of its own."""

    def __init__(self, handler: type[http.server.BaseHTTPRequestHandler]) -> None:
        self.server = _Quiet(("127.0.0.1", 0), handler)
        self.requests: list[Request] = []
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    def __enter__(self: _Running) -> _Running:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


@dataclass
class Faults:
    """What goes wrong: path -> orders, each used up by one request."""

    status: dict[str, list[int]] = field(default_factory=dict)
    cut_after: dict[str, list[int]] = field(default_factory=dict)
    redirect: dict[str, str] = field(default_factory=dict)
    #: Answers whole files to requests for a part.
    no_ranges: bool = False
    #: Keeps the client waiting until the event is set.
    stall: threading.Event | None = None


class PackageIndex(_Server):
    """A simple index (PEP 503) below ROOT/simple/, files below ROOT/files/."""

    def __init__(self, *, login: str = "", certificate: Path | None = None, root: str = "") -> None:
        super().__init__(_handler(self))
        self.root = root
        self.login = login
        self.faults = Faults()
        self.files: dict[str, bytes] = {}
        self._scheme = "https" if certificate else "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)

    def add(self, filename: str, data: bytes = b"") -> str:
        self.files[filename] = data or filename.encode()
        return sha256(self.files[filename])

    def url(self, login: str = "", host: str = "127.0.0.1") -> str:
        return f"{self.at(login, host)}/simple"

    def at(self, login: str = "", host: str = "127.0.0.1") -> str:
        return f"{self._scheme}://{f'{login}@' if login else ''}{host}:{self.port}{self.root}"

    def asked(self, part: str = "") -> list[str]:
        return [request.path for request in self.requests if part in request.path]

    def page_of(self, project: str) -> tuple[str, str] | None:
        names = [name for name in sorted(self.files) if _project(name) == project]
        if not names:
            return None
        # Indexes show a shortened name now and then; what counts is the link.
        links = [
            f'<a href="../../files/{quote(name)}#sha256={sha256(self.files[name])}">{name[:12]}…</a>'
            for name in names
        ]
        return "text/html; charset=utf-8", f"<!DOCTYPE html><html><body>{'<br>'.join(links)}</body></html>"


def _project(filename: str) -> str:
    return filename.split("-", maxsplit=1)[0].lower().replace("_", "-")


def _handler(index: PackageIndex) -> type[http.server.BaseHTTPRequestHandler]:  # noqa: C901
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path).removeprefix(index.root)
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, path, headers)
            index.requests.append(request)
            if index.login and request.login != index.login:
                self.answer(401, b"", {"WWW-Authenticate": 'Basic realm="index"'})
            elif path in index.faults.redirect:
                self.answer(302, b"", {"Location": index.faults.redirect[path]})
            elif index.faults.status.get(path):
                self.answer(index.faults.status[path].pop(0), b"not now")
            elif path.startswith("/simple/"):
                self.project(path.strip("/").rpartition("/")[2])
            elif path.startswith("/files/"):
                self.file(path)
            else:
                self.answer(404, b"no such thing")

        def project(self, name: str) -> None:
            page = index.page_of(name)
            if page is None:
                self.answer(404, b"no such project")
            else:
                self.answer(200, page[1].encode(), {"Content-Type": page[0]})

        def file(self, path: str) -> None:
            data = index.files.get(path.removeprefix("/files/"))
            if data is None:
                self.answer(404, b"no such file")
                return
            start = 0
            wanted = self.headers.get("Range", "")
            if wanted and not index.faults.no_ranges:
                start = int(wanted.removeprefix("bytes=").partition("-")[0])
                if start >= len(data):
                    self.answer(416, b"", {"Content-Range": f"bytes */{len(data)}"})
                    return
            more = {"Cache-Control": "max-age=365000000, immutable, public"}
            if start:
                more["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
            cuts = index.faults.cut_after.get(path)
            self.answer(206 if start else 200, data[start:], more, cut=cuts.pop(0) if cuts else None)

        def answer(
            self, status: int, body: bytes, headers: dict[str, str] | None = None, cut: int | None = None
        ) -> None:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body if cut is None else body[:cut])
            if cut is not None:
                self.close_connection = True
                self.wfile.flush()
                if index.faults.stall is not None:
                    index.faults.stall.wait(30)
                with contextlib.suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)

    return Handler


class RecordingProxy(_Server):
    """An HTTP proxy; ``passed`` counts the hosts (with port) that were asked for through it."""

    def __init__(self, *, login: str = "", refuses: bool = False) -> None:
        self.passed: Counter[str] = Counter()
        self.login, self.refuses = login, refuses
        super().__init__(_proxy_handler(self))

    def url(self, login: str = "") -> str:
        return f"http://{f'{login}@' if login else ''}127.0.0.1:{self.port}"


def _proxy_handler(proxy: RecordingProxy) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

        def allowed(self) -> bool:
            _, _, value = self.headers.get("Proxy-Authorization", "").partition(" ")
            given = base64.b64decode(value).decode() if value else ""
            if proxy.refuses or (proxy.login and given != proxy.login):
                self.send_error(403 if proxy.refuses else 407)
                return False
            return True

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            proxy.passed[parts.netloc] += 1
            if not self.allowed():
                return
            with socket.create_connection((parts.hostname or "", parts.port or 80)) as upstream:
                lines = [
                    f"{self.command} {parts.path} HTTP/1.0",
                    f"Host: {parts.netloc}",
                    "Connection: close",
                ]
                lines += [f"{name}: {value}" for name, value in self.headers.items()
                          if name.lower() not in ("host", "connection", "proxy-authorization")]  # fmt: skip
                upstream.sendall("\r\n".join([*lines, "", ""]).encode())
                while data := upstream.recv(1 << 16):
                    self.wfile.write(data)

        def do_CONNECT(self) -> None:
            proxy.passed[self.path] += 1
            if not self.allowed():
                return
            host, _, port = self.path.partition(":")
            with socket.create_connection((host, int(port))) as upstream:
                self.send_response(200)
                self.end_headers()
                _relay(self.connection, upstream)

    return Handler


def _relay(one: socket.socket, other: socket.socket) -> None:
    peers = {one: other, other: one}
    while True:
        ready, _, _ = select.select(list(peers), [], [], 5)
        for end in ready:
            data = end.recv(1 << 16)
            if not data:
                return
            peers[end].sendall(data)
        if not ready:
            return


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make an authority and a certificate of it for this machine: (authority, certificate and key)."""
    folder.mkdir(parents=True, exist_ok=True)
    authority, key, both = folder / "ca é.pem", folder / "ca.key", folder / "server.pem"
    ours, request, signed = folder / "server.key", folder / "server.csr", folder / "server.crt"
    names = folder / "names.cnf"
    names.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    _openssl("req", "-x509", *new_key, "-keyout", key, "-out", authority, "-days", "2",
             "-subj", "/CN=tests of xpubuild", "-addext", "basicConstraints=critical,CA:TRUE",
             "-addext", "keyUsage=critical,keyCertSign,cRLSign")  # fmt: skip
    _openssl("req", *new_key, "-keyout", ours, "-out", request, "-subj", "/CN=localhost")
    _openssl("x509", "-req", "-in", request, "-CA", authority, "-CAkey", key, "-CAcreateserial",
             "-days", "2", "-extfile", names, "-out", signed)  # fmt: skip
    both.write_bytes(signed.read_bytes() + ours.read_bytes())
    return authority, both


def _openssl(*words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)
