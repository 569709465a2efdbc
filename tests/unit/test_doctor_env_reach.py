"""How a server is asked, and what is said of each way in which it cannot be reached."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from support import net

from xpubuild.doctor.look import reach
from xpubuild.doctor.look.reach import Reached, reach_all, server_of, unreadable

BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\nA: b\r\n\r\n"


def ask(server: str, proxy: str = "") -> Reached:
    (answer,) = reach_all([server, server], {"all_proxy": proxy})
    return answer


def test_a_server_is_asked_for_its_head() -> None:
    heard: list[bytes] = []
    with net.server(heard=heard) as port:
        assert ask(f"http://127.0.0.1:{port}") == Reached(f"http://127.0.0.1:{port}")
    assert heard == [f"HEAD / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()]


def test_a_proxy_is_asked_for_the_server() -> None:
    heard: list[bytes] = []
    with net.server(heard=heard) as port:
        proxy = f"127.0.0.1:{port}"
        assert ask("http://a.example:81", proxy) == Reached("http://a.example:81", proxy="a proxy")
        assert ask("http://a.example", f"http://me@{proxy}").proxy == f"http://{proxy}"
        assert ask("https://a.example", f"http://me:p%40w@{proxy}").cause == "tls"
    assert heard[:2] == [
        b"HEAD http://a.example:81/ HTTP/1.1\r\nHost: a.example:81\r\n\r\n",
        b"HEAD http://a.example/ HTTP/1.1\r\nHost: a.example\r\nProxy-Authorization: Basic bWU6\r\n\r\n",
    ]
    assert heard[2] == (
        b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n"
        b"Proxy-Authorization: Basic bWU6cEB3\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("answer", "http", "https"),
    [
        (BAD_GATEWAY, ("proxy", "the proxy responded with 502"),
         ("proxy", "the proxy does not forward the connection: it responded with 502")),
        (BAD_GATEWAY.replace(b"502", b"500"), ("proxy", "the proxy responded with 500"),
         ("proxy", "the proxy does not forward the connection: it responded with 500")),
        (BAD_GATEWAY.replace(b"502", b"499"), ("", ""),
         ("proxy", "the proxy does not forward the connection: it responded with 499")),
        (net.PROXY_AUTHENTICATION,
         *(("proxy-auth", "the proxy requires a user name and a password (407)"),) * 2),
        (b"hello\r\n\r\n", *(("server", "the response is not HTTP"),) * 2),
        (b"HTTP/1.1\r\n\r\n", *(("server", "the response is not HTTP"),) * 2),
        (b"HTTP/1.1 two\r\n\r\n", *(("server", "the response is not HTTP"),) * 2),
        (b"", *(("server", "the connection was closed"),) * 2),
    ],
)  # fmt: skip
def test_what_a_proxy_answers(answer: bytes, http: tuple[str, str], https: tuple[str, str]) -> None:
    with net.server(answer) as port:
        found = [ask(f"{kind}://a.example", f"http://127.0.0.1:{port}") for kind in ("http", "https")]
    assert [(item.cause, item.detail) for item in found] == [http, https]


def test_of_a_socks_proxy_its_port_is_tried() -> None:
    with net.server(None) as port:
        found = ask("https://a.example", f"socks5h://127.0.0.1:{port}")
        assert found == Reached("https://a.example", proxy="a proxy")
    gone = net.free_port()
    refused = Reached(
        "https://a.example", "proxy", f"the proxy 127.0.0.1:{gone} refused the connection", "a proxy"
    )
    assert ask("https://a.example", f"socks5://127.0.0.1:{gone}") == refused
    direct = f"git://127.0.0.1:{gone}"
    assert ask(direct) == Reached(direct, "refused", f"127.0.0.1:{gone} refused the connection")


@pytest.mark.parametrize(
    "way",
    [
        ("https://a.example", "", ("a.example", 443)), ("http://a.example", "", ("a.example", 80)),
        ("git://a.example", "", ("a.example", 9418)), ("ssh://a.example", "", ("a.example", 22)),
        ("https://a.example:1", "", ("a.example", 1)), ("https://a.example", "http://p", ("p", 80)),
        ("http://a.example", "p:3", ("p", 3)), ("http://a.example", "socks5://p", ("p", 1080)),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "story",
    [
        (socket.gaierror(-2, "not known"),
         ("dns", "the host name {host} cannot be resolved: not known"), None),
        (ConnectionRefusedError(), ("refused", "{host}:{port} refused the connection"),
         ("proxy", "the proxy {host}:{port} refused the connection")),
        (TimeoutError(), ("timeout", "{host}:{port} does not respond"),
         ("timeout", "the proxy {host}:{port} does not respond")),
        (OSError(101, "Network is unreachable"), ("unreachable", "{host}:{port}: Network is unreachable"),
         ("unreachable", "the proxy {host}:{port}: Network is unreachable")),
        (OSError("odd"), ("unreachable", "{host}:{port}: odd"),
         ("unreachable", "the proxy {host}:{port}: odd")),
        (ValueError("no"), ("unreachable", "no"), None), (ValueError(), ("unreachable", "ValueError"), None),
    ],
)  # fmt: skip
def test_why_there_is_no_connection(
    monkeypatch: pytest.MonkeyPatch,
    way: tuple[str, str, tuple[str, int]],
    story: tuple[Exception, tuple[str, str], tuple[str, str] | None],
) -> None:
    server, proxy, address = way
    error, direct, by_proxy = story
    asked = []

    def create(place: tuple[str, int], timeout: float) -> None:
        asked.append((place, timeout))
        raise error

    monkeypatch.setattr(reach.socket, "create_connection", create)
    found = ask(server, proxy)
    cause, detail = by_proxy or direct if proxy else direct
    assert (found.cause, found.detail) == (cause, detail.format(host=address[0], port=address[1]))
    assert asked == [(address, 5.0)]


@pytest.mark.parametrize("ending", ["silent", "interrupted"])
def test_a_connection_without_a_response(ending: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(0.01)
        if ending == "interrupted":
            theirs.close()
        with pytest.raises(reach._NotReachedError) as caught:
            reach._status(ours, "HEAD")
    said = {"silent": ("timeout", "connected, but no response"),
            "interrupted": ("unreachable", "the connection was interrupted: Broken pipe")}  # fmt: skip
    assert (caught.value.cause, str(caught.value)) == said[ending]


def refused(message: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError("as a whole")
    error.verify_message = message
    return error


@pytest.mark.parametrize(
    ("error", "cause", "detail"),
    [
        (refused("self-signed certificate"), "tls", "self-signed certificate"),
        (refused(""), "tls", "('as a whole',)"),
        (TimeoutError(), "timeout", "the TLS handshake timed out"),
        (ssl.SSLError("wrong version"), "tls", "no TLS connection: ('wrong version',)"),
        (OSError("reset"), "tls", "no TLS connection: reset"),
    ],
)
def test_why_there_is_no_tls(
    monkeypatch: pytest.MonkeyPatch, error: Exception, cause: str, detail: str
) -> None:
    def wrap_socket(_stream: object, server_hostname: str) -> None:
        assert server_hostname == "a.example"
        raise error

    monkeypatch.setattr(reach, "_trust", lambda _environ: SimpleNamespace(wrap_socket=wrap_socket))
    with socket.socket() as stream, pytest.raises(reach._NotReachedError) as caught:
        reach._secure(stream, "a.example", {})
    assert (caught.value.cause, str(caught.value)) == (cause, detail)


@pytest.mark.parametrize(
    "name", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"]
)
def test_certificates_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    missing = tmp_path / "none.pem"
    with pytest.raises(reach._NotReachedError) as caught:
        reach._trust({name: str(missing), "OTHER": str(missing)})
    said = f"{name}={missing} cannot be read: [Errno 2] No such file or directory"
    assert (caught.value.cause, str(caught.value)) == ("tls", said)


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("https://me:pw@a.example:8/b", "https://a.example:8"), ("git://A.example", "git://a.example"),
        ("http://[::1]:8/", "http://[::1]:8"), ("ssh://[::1]", "ssh://[::1]"), ("ftp://a.example", ""),
        ("https:///x", ""), ("/srv/x", ""), ("https://a:x/", ""), ("https://[a/", ""), ("https://a:0/", ""),
    ],
)  # fmt: skip
def test_the_server_of_a_url(url: str, server: str) -> None:
    assert server_of(url) == server
    assert unreadable(url) == (url in ("https://a:x/", "https://[a/", "https://a:0/"))


@pytest.mark.parametrize(
    ("host", "entries", "answer"),
    [
        ("a.b.example", "b.example", True), ("a.b.example", "*.b.example:80", True),

        ("b.example", ".B.example", True), ("ab.example", "b.example", False), ("a.example", "", False),
        ("a.example", " , ", False),
        ("a.example", "x, *", True), ("a.example", "*,", True), ("a.example", "**", False),
    ],
)  # fmt: skip
def test_what_needs_no_proxy(host: str, entries: str, answer: bool) -> None:
    assert reach._exempt(host, entries) is answer


def test_a_user_without_a_password_is_one() -> None:
    assert reach._authorization(urlsplit("http://p")) == ""
