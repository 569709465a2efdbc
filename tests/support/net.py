"""Servers on loopback that answer in one way: well, not at all, as a proxy, with an own certificate."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
PROXY_AUTHENTICATION = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
FORBIDDEN = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"


@contextmanager
def server(
    answer: bytes | None = OK, *, tls: ssl.SSLContext | None = None, heard: list[bytes] | None = None
) -> Iterator[int]:
    """Serve on a free port of loopback, and yield the port.

    Each connection gets ``answer`` after its first request; with None it gets nothing, and stays open.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.05)
    done = threading.Event()

    def serve() -> None:
        with contextlib.ExitStack() as held:
            while not done.is_set():
                try:
                    stream, _ = listener.accept()
                except TimeoutError:
                    continue
                stream.settimeout(2)
                held.enter_context(stream)
                with contextlib.suppress(OSError):
                    if tls is not None:
                        stream = held.enter_context(tls.wrap_socket(stream, server_side=True))
                    if answer is None:
                        continue
                    request = stream.recv(65536)
                    if heard is not None:
                        heard.append(request)
                    stream.sendall(answer)
                    stream.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        done.set()
        thread.join()
        listener.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def own_certificate(folder: Path, name: str = "localhost", days: int = 2) -> tuple[ssl.SSLContext, Path]:
    """Make a certificate that nobody signed; return a server's context and the certificate's file."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    argv = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-keyout", str(key), "-out", str(certificate), "-days", str(days), "-subj", f"/CN={name}",
        "-addext", f"subjectAltName=DNS:{name}",
    ]  # fmt: skip
    subprocess.run(argv, check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, certificate
