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


#: What a client waits for -> the beginning of an answer, and the part of it that comes again and again.
KEEPS_WAITING = {
    "an answer": (b"",),
    "the end of the header": (b"HTTP/1.1 200 OK\r\n", b"X"),
    "another answer": (b"HTTP/1.1 100 Continue\r\n\r\n",),
    "the end of the body": (b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n", b"x"),
}


@contextmanager
def slow_server(*sent: bytes) -> Iterator[str]:
    """Serve an answer of which the last part is sent again and again, one piece every 50 ms."""
    done = threading.Event()

    def answer(client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            for piece in sent[:-1]:
                client.sendall(piece)
            while not done.wait(0.05):
                client.sendall(sent[-1])

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            done.set()
            server.shutdown(socket.SHUT_RDWR)
