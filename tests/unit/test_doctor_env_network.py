"""doctor: proxies, certificates and servers, against real servers on loopback."""

from __future__ import annotations

import base64
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from support import net
from support.doctor_env import EnvHost, offline
from support.doctor_frame import a_context
from support.doctor_shows import shows

from xpubuild.doctor.checks.network import (
    _newest,
    network_proxy,
    network_reach,
    proxy_for,
    reach_all,
    server_of,
)
from xpubuild.doctor.kit import Outcome


def ask(server: str, environ: Mapping[str, str] | None = None, deadline_s: float = 3.0) -> tuple[str, str]:
    return reach_all([server], environ or {}, deadline_s=deadline_s)[server]


def test_a_server_that_answers_is_reached() -> None:
    with net.server() as port:
        assert ask(f"http://127.0.0.1:{port}")[0] == ""
        assert ask(f"git://127.0.0.1:{port}/x", {"all_proxy": "socks5://127.0.0.1:1"}) == ("", "")
        cause, told = ask("https://git.example", {"all_proxy": f"socks5h://me:secret@127.0.0.1:{port}"})
    assert (cause, told) == ("", f"not asked (behind socks5h://127.0.0.1:{port}, which accepts connections)")


def test_all_are_asked_at_once() -> None:
    with net.server(None) as one, net.server(None) as two, net.server() as good:
        began = time.monotonic()
        answers = reach_all([f"http://127.0.0.1:{port}" for port in (one, two, good)], {}, deadline_s=2)
        assert time.monotonic() - began < 3.9, "one after the other takes 4 s at least"
    assert [cause for cause, _ in answers.values()] == ["timeout", "timeout", ""]


def test_a_name_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    def slow(*_args: object, **_kwargs: object) -> None:
        time.sleep(1.5)
        ended.set()
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr("socket.getaddrinfo", slow)
    assert ask("https://git.example", deadline_s=0.2)[0] == "timeout"
    assert not ended.is_set()
    assert ended.wait(5)


def test_the_password_goes_to_the_proxy_and_into_no_text() -> None:
    heard: list[bytes] = []
    with net.server(net.PROXY_AUTHENTICATION, heard=heard) as port:
        answer = ask("https://git.example", {"https_proxy": f"http://me:s%40cret@127.0.0.1:{port}"})
    assert base64.b64encode(b"me:s@cret") in heard[0]
    assert f"through http://127.0.0.1:{port}" in answer[1]
    assert "cret" not in str(answer)


def test_a_proxy_that_passes_nothing_on() -> None:
    with net.server(net.FORBIDDEN) as port:
        answer = ask("https://git.example", {"https_proxy": f"http://127.0.0.1:{port}"})
    assert (answer[0], "403" in answer[1]) == ("proxy", True)


@pytest.mark.parametrize("scheme", ["", "socks5h://", "socks4://me:secret@"])
def test_a_proxy_where_nobody_listens(scheme: str) -> None:
    port = net.free_port()
    cause, told = ask("https://git.example", {"all_proxy": f"{scheme}127.0.0.1:{port}"})
    assert cause == "proxy"
    assert told.startswith(f"the proxy 127.0.0.1:{port} refused the connection (through ")
    assert "secret" not in told


@pytest.mark.needs("openssl")
def test_a_certificate_that_nobody_signed_and_its_bundle(tmp_path: Path) -> None:
    tls, certificate = net.own_certificate(tmp_path)
    with net.server(tls=tls) as port:
        server = f"https://localhost:{port}"
        answer = ask(server)
        assert answer[0] == "tls"
        assert "self" in answer[1]
        assert ask(server, {"SSL_CERT_FILE": str(certificate)})[0] == ""
        missing = ask(server, {"REQUESTS_CA_BUNDLE": str(tmp_path / "none.pem")})
        assert (missing[0], "none.pem" in missing[1]) == ("tls", True)


@pytest.mark.parametrize(
    ("server", "environ", "expected"),
    [
        ("https://git.example", {}, ""),
        ("https://git.example", {"https_proxy": "http://p:1"}, "http://p:1"),
        ("https://git.example", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("http://git.example", {"HTTP_PROXY": "http://p:1"}, ""),
        ("https://git.example", {"https_proxy": "http://p:1", "no_proxy": "example"}, ""),
        ("https://git.example", {"https_proxy": "http://p:1", "no_proxy": "a.org, .example"}, ""),
        ("https://git.example", {"https_proxy": "http://p:1", "NO_PROXY": "*"}, ""),
        ("https://git.example", {"https_proxy": "http://p:1", "no_proxy": "it.example"}, "http://p:1"),
        ("https://git.example", {"all_proxy": "socks5://p:1"}, "socks5://p:1"),
    ],
)
def test_which_proxy_is_asked(server: str, environ: dict[str, str], expected: str) -> None:
    assert proxy_for(server, environ) == expected


def reach_of(host: EnvHost, **urls: str) -> Outcome:
    return network_reach(host.context(offline("2.8", **urls)))


@pytest.mark.needs("openssl")
@shows("ok", "network.reach")
@shows("fail", "network.reach")
def test_the_check_explains_a_certificate(tmp_path: Path) -> None:
    host = EnvHost(tmp_path)
    tls, certificate = net.own_certificate(tmp_path)
    with net.server(tls=tls) as port:
        found = reach_of(host, torch=f"https://localhost:{port}/pytorch.git")
        host.environ["GIT_SSL_CAINFO"] = str(certificate)
        mended = reach_of(host, torch=f"https://localhost:{port}/pytorch.git")
    assert (found.status, mended.status) == ("fail", "ok")
    assert "SSL_CERT_FILE" in found.fix.commands[0]


def test_indexes_of_pip_are_asked_and_components_left_out_are_not(tmp_path: Path) -> None:
    host = EnvHost(tmp_path)
    dead = net.free_port()
    with net.server() as port:
        del host.environ["PIP_NO_INDEX"]
        host.environ["PIP_INDEX_URL"] = f"http://me:secret@127.0.0.1:{port}/simple"
        found = reach_of(host, ipex=f"http://127.0.0.1:{dead}/ipex.git")
        host.environ.update(
            all_proxy=f"socks5://127.0.0.1:{port}", PIP_INDEX_URL="https://near.example/simple"
        )
        behind = reach_of(host)
    assert (found.status, found.evidence["servers"]) == ("ok", {f"http://127.0.0.1:{port}": "ok"})
    assert behind.evidence["servers"] == {"https://near.example": "not asked"}
    assert "responded" not in behind.detail


@pytest.mark.parametrize(
    "url",
    [
        "https://someone:se/cretpw@near.example/simple",
        "https://someone:12/cretpw@near.example/simple",
        "https://someone:12#cretpw@near.example/simple",
        "https://someone:a@se/cretpw@near.example/simple",
        "https://near.example:http/simple",
        "htp://near.example/simple",
    ],
)
def test_an_index_that_is_no_url_is_not_shown(tmp_path: Path, url: str) -> None:
    host = EnvHost(tmp_path, environ={"PIP_NO_INDEX": "", "PIP_INDEX_URL": url})
    found = reach_of(host)
    assert found.status == "fail"
    assert found.detail.startswith("pip's configuration has what is not the URL of a package index")
    assert not [part for part in ("someone", "12", "se/", "cretpw", "near.example") if part in str(found)]


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("https://me:secret@near.example:8443/simple", "https://near.example:8443"),
        ("https://near.example/FEED@VIEW/simple", "https://near.example"),
        ("file:///srv/simple", ""),
        ("git+https://near.example/x", ""),
    ],
)
def test_the_server_of_a_url(url: str, server: str) -> None:
    assert server_of(url) == server


def test_an_index_of_the_recipe_alone_is_a_warning(tmp_path: Path) -> None:
    host = EnvHost(tmp_path)
    recipe = offline("quickstart", torch=f"http://127.0.0.1:{net.free_port()}/whl")
    assert network_reach(host.context(recipe)).status == "warn"


def test_without_a_recipe_servers_are_asked_where_the_check_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = EnvHost(tmp_path)
    newest = _newest()
    assert newest.components["torch"].source is not None
    assert newest.components["torch"].source.commit
    with net.server() as port:
        # The servers of that release are not there in tests.
        url = f"http://127.0.0.1:{port}"
        near = offline(newest.name, torch=f"{url}/pytorch.git").recipe
        monkeypatch.setattr("xpubuild.doctor.checks.network._newest", lambda: near)
        assert network_reach(host.context()).detail == "needs a recipe (--recipe)"
        found = network_reach(host.context(asked=frozenset({"network.reach"})))
    assert (found.status, found.evidence["servers"]) == ("ok", {url: "ok"})
    assert newest.name in found.detail


def proxy(**environ: str) -> Outcome:
    return network_proxy(a_context(environ=environ))


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("http://proxy.example:http", "port"),
        ("http://proxy.example:99999", "port"),
        ("htp://proxy.example:3128", "scheme"),
        ("http://:3128", "host"),
        ("http://[::1", "brackets"),
        ("http://me:p@[bad]:80", "brackets"),
        ("http://me:p@ss@proxy.example:3128", "%40"),
        ("http://me:p#ss@proxy.example:3128", "%40"),
        ("http://proxy.example:3128/path", "extra text after its port"),
        ("'http://proxy.example:3128'", "quotes"),
        (" http://proxy.example:3128", "spaces or quotes"),
    ],
)
def test_a_malformed_proxy_is_a_failure_and_is_not_shown(value: str, word: str) -> None:
    found = proxy(https_proxy=value)
    assert found.status == "fail"
    assert word in found.detail
    assert value.strip() not in found.detail
    assert "p@ss" not in str(found)


@pytest.mark.parametrize(
    "environ",
    [{"https_proxy": "http://p:1", "HTTPS_PROXY": "http://q:1"}, {"no_proxy": "a.org", "NO_PROXY": "b.org"}],
)
def test_spellings_that_differ_are_a_warning(environ: dict[str, str]) -> None:
    found = proxy(**environ)
    lower, upper = environ
    assert (found.status, f"{lower} and {upper} differ" in found.detail) == ("warn", True)
    assert found.fix.commands == (f'export {upper}="${lower}"',)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("proxy.example:3128", "proxy http://proxy.example:3128"),
        ("socks5h://me:secret@proxy:1080/", "proxy socks5h://proxy:1080"),
        ("http://[::1]:3128", "proxy http://[::1]:3128"),
    ],
)
def test_a_sound_proxy_is_named_without_its_user(value: str, told: str) -> None:
    assert proxy(http_proxy=value, https_proxy=value).detail == told
