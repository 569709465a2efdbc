"""How an index is asked, pip without a network, names of files, and pins of requirement files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests

from xpubuild.errors import XpuBuildError
from xpubuild.supply.index import session
from xpubuild.supply.index.choice import best, is_filename, may_install, offer
from xpubuild.supply.index.config import IndexConfig
from xpubuild.supply.index.credentials import Credentials
from xpubuild.supply.index.files import RemoteFile, stated
from xpubuild.supply.index.offline import links_page, offline_environment
from xpubuild.supply.index.session import IndexSession
from xpubuild.supply.requirements import hashed_pins, marker_environment, pinned, releases

ALONE = {"PIP_CONFIG_FILE": os.devnull, "HOME": "/nowhere"}
HASH = "1" * 64


def refuses(action: Callable[[], object]) -> None:
    with pytest.raises(XpuBuildError):
        action()


def test_a_session_has_nothing_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    config = IndexConfig(
        (), trusted_hosts=("a.example", "b.example:8"), retries=4, verify="/ca", client_cert="/me",
        timeout_s=7,
        proxies={"https": "http://p:1"},
    )  # fmt: skip
    made = IndexSession(config)
    assert (made.trust_env, made.headers["User-Agent"], made.cert) == (False, "xpubuild", "/me")
    retry = made.get_adapter("https://x.example/").max_retries  # type: ignore[attr-defined]
    assert (retry.total, retry.backoff_factor, retry.raise_on_status) == (4, 0.25, False)
    assert retry.status_forcelist == (500, 502, 503, 504, 520, 527)
    assert retry.respect_retry_after_header is False
    assert made.get_adapter("http://x.example/").max_retries.total == 4  # type: ignore[attr-defined]
    for url, trusting in {
        "https://a.example/x": True, "https://a.example:9/": True, "https://b.example:8/": True,
        "https://b.example:9/": False, "https://a.example.org/": False, "http://a.example/": False,
    }.items():  # fmt: skip
        assert isinstance(made.get_adapter(url), session._TrustingAdapter) is trusting, url
    proxies = {"http": "http://p:1", "https": "http://p:1"}
    assert made.merge_environment_settings("https://x", None, True, None, None) == {
        "proxies": proxies, "stream": True, "verify": "/ca", "cert": "/me",
    }  # fmt: skip
    assert made.merge_environment_settings("http://x", None, False, None, "/c")["cert"] == "/c"
    assert made.merge_environment_settings("http://x", None, False, None, None)["proxies"] == {}
    calls: list[Any] = []
    monkeypatch.setattr(made, "request", lambda *words, **options: calls.append((words, options)))
    made.ask("https://me:word@x.example/y", headers={"A": "b"}, stream=True)
    made.ask("https://x.example/y", method="HEAD")
    more = {"timeout": 7, "allow_redirects": True}
    assert calls == [
        (("GET", "https://x.example/y"), {"auth": ("me", "word"), "headers": {"A": "b"}, "stream": True,
         **more}),
        (("HEAD", "https://x.example/y"), {"auth": None, "headers": {}, "stream": False, **more}),
    ]  # fmt: skip


def test_logins_and_proxies_after_a_redirect() -> None:
    logins = Credentials({("https", "b.example", 443): ("me", "word")})
    made = IndexSession(IndexConfig((), proxies={"https": "http://p:1"}, credentials=logins))

    def moved(url: str, origin: str) -> requests.PreparedRequest:
        request = requests.Request(
            "GET", url, headers={"Authorization": "old", "Proxy-Authorization": "x"}
        ).prepare()
        made.rebuild_auth(request, SimpleNamespace(request=SimpleNamespace(url=origin)))  # type: ignore[arg-type]
        assert made.rebuild_proxies(request, {}) == {"http": "http://p:1", "https": "http://p:1"}
        assert "Proxy-Authorization" not in request.headers
        return request

    assert moved("https://a.example/2", "https://a.example/1").headers["Authorization"] == "old"
    assert "Authorization" not in moved("https://c.example/2", "https://a.example/1").headers
    assert moved("https://b.example/2", "https://a.example/1").headers["Authorization"].startswith("Basic ")


def test_pip_without_a_network_is_told_so(tmp_path: Path) -> None:
    emptied = (
        "INDEX_URL", "PYPI_URL", "EXTRA_INDEX_URL", "TRUSTED_HOST", "PROXY", "CERT", "CLIENT_CERT",
        "NO_BINARY",
        "ONLY_BINARY", "PRE", "UPLOADED_PRIOR_TO",
    )  # fmt: skip
    wheels = tmp_path / "my wheels"
    assert offline_environment(wheels) == {
        **{f"PIP_{name}": "" for name in emptied}, "PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": wheels.as_uri(), "PIP_NO_CACHE_DIR": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_KEYRING_PROVIDER": "disabled", "PIP_NO_INPUT": "1",
    }  # fmt: skip
    assert offline_environment("file:///x")["PIP_FIND_LINKS"] == "file:///x"
    assert links_page([("b&", "b<", HASH), ("a", "a", "2" * 64), ("a", "a", HASH)]) == (
        '<!DOCTYPE html>\n<html><head><meta charset="utf-8"><title>Links</title></head><body>\n'
        f'<a href="a#sha256={HASH}">a</a><br>\n<a href="a#sha256={"2" * 64}">a</a><br>\n'
        f'<a href="b&amp;#sha256={HASH}">b&lt;</a><br>\n</body></html>\n'
    )


def test_files_and_their_hashes(tmp_path: Path) -> None:
    file = RemoteFile(
        "x", "1", "x.whl", None, None, "https://h/x.whl", allowed=frozenset({"a"}), origin="https://u@h/x"
    )
    assert (file.link, file.expected) == ("https://u@h/x", {"a"})
    plain = RemoteFile("x", "1", "x.whl", "b", None, "https://h/x.whl", allowed=frozenset({"a"}))
    assert (plain.link, plain.expected, plain.is_archive) == ("https://h/x.whl", {"b"}, False)
    path = tmp_path / "x"
    path.write_bytes(b"1")
    first = stated(path)
    path.write_bytes(b"22")
    os.utime(path, ns=(1, 1))
    assert (first[1], stated(path)[1]) == (1, 2)
    assert stated(path)[0] != first[0]


def test_names_of_files_and_what_may_be_installed() -> None:
    good = ("a", "a.whl", "_a~1+2!3-4.tar.gz", "9")
    bad = ("", ".a", "-a", "a/b", "a b", "a\n", "é")
    assert [is_filename(name) for name in (*good, *bad)] == [True] * 4 + [False] * 7
    item = offer("https://x/demo-1.0-py3-none-any.whl", sha256="x" * 64, requires_python="")
    assert item is not None
    assert (item.sha256, item.requires_python, item.size) == (None, None, None)
    assert best([], sdists=True) == []
    sized = offer("https://x/Demo-1.0-py3-none-any.whl", size=5, requires_python=">=3.12")
    assert sized is not None
    assert (sized.dist, sized.size, sized.requires_python) == ("demo", 5, ">=3.12")
    assert may_install(sized, "3.12t")
    assert not may_install(sized, "3.11t")


def test_pins_of_a_requirement_file() -> None:
    assert releases("3.11") == ("3.11.0", "3.11.99")
    assert releases("3.11.2") == ("3.11.2",)
    text = (
        f"-r x\n# c\na==1 --hash sha256:{HASH.upper()} --hash=md5:{'0' * 32}\n"
        "b===2 ; python_version < '3.11'\nc==3 # d\n"
    )
    first, second, third = hashed_pins(text)
    assert (first.hashes, first.written) == ({HASH}, {f"sha256:{HASH.upper()}", f"md5:{'0' * 32}"})
    assert (second.version, third.version) == ("2", "3")
    assert pinned(text, "3.11.1") == (("a", "1"), ("c", "3"))
    assert marker_environment("3.11.2", "x86_64") == {
        "python_version": "3.11", "python_full_version": "3.11.2", "implementation_name": "cpython",
        "platform_python_implementation": "CPython", "sys_platform": "linux", "platform_system": "Linux",
        "os_name": "posix", "platform_machine": "x86_64",
    }  # fmt: skip
    assert "platform_machine" not in marker_environment("3.11")
    for wrong in ("a", "a>=1", "a==1,==2", "a b"):
        refuses(lambda wrong=wrong: hashed_pins(wrong))
