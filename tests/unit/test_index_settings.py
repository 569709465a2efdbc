"""Settings of pip, proxies, authorities and logins, each where it comes from."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from xpubuild.errors import XpuBuildError
from xpubuild.supply.index import config as configuration
from xpubuild.supply.index import pipconf
from xpubuild.supply.index.config import IndexConfig, local_path, read_config
from xpubuild.supply.index.credentials import Credentials, origin_of
from xpubuild.supply.index.pipconf import pip_settings, switched_on

ALONE = {"PIP_CONFIG_FILE": os.devnull, "HOME": "/nowhere"}
HASH = "1" * 64


def refuses(action: Callable[[], object]) -> None:
    with pytest.raises(XpuBuildError):
        action()


@pytest.mark.parametrize(
    ("place", "path"),
    [("/a b", "/a b"), ("file:///a%20b", "/a b"), ("file:/x", "/x"), ("https://h/x", None), ("x", "x")],
)
def test_places_of_this_machine(place: str, path: str | None) -> None:
    assert local_path(place) == (None if path is None else Path(path))


def test_what_is_not_configured_has_pips_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "_SYSTEM_AUTHORITIES", ())
    made = read_config(ALONE)
    assert (made.timeout_s, made.retries, made.verify, made.client_cert, made.no_proxy) == (
        15.0,
        5,
        True,
        None,
        "",
    )
    assert (dict(made.proxies), made.find_links, made.trusted_hosts) == ({}, (), ())
    assert IndexConfig(("https://a.example",)).timeout_s == 15.0
    assert IndexConfig(("https://a.example",)).retries == 5


def test_authorities_of_the_machine_are_found_where_distributions_have_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert configuration._SYSTEM_AUTHORITIES == (
        "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
    )  # fmt: skip
    there = tmp_path / "ca.pem"
    there.touch()
    monkeypatch.setattr(configuration, "_SYSTEM_AUTHORITIES", ("/no/such", str(there)))
    assert read_config(ALONE).verify == str(there)


@pytest.mark.parametrize(
    "variables",
    [
        {"PIP_RETRIES": "many"}, {"PIP_DEFAULT_TIMEOUT": "x"}, {"PIP_CLIENT_CERT": "/no/such"},
        {"PIP_CERT": "/no/such"},
        {"PIP_INDEX_URL": "https://h:x/"}, {"PIP_FIND_LINKS": "https://[h"}, {"all_proxy": "http://h:x"},
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_cannot_be_used(variables: dict[str, str]) -> None:
    refuses(lambda: read_config({**ALONE, **variables}))


def test_recipe_indexes_that_are_no_urls() -> None:
    made = IndexConfig((), timeout_s=30, retries=7).with_indexes(["https://a.example"])
    assert (made.timeout_s, made.retries) == (15.0, 1)
    assert IndexConfig((), timeout_s=3, retries=0).with_indexes([]).timeout_s == 3
    refuses(lambda: IndexConfig(()).with_indexes(["https://h:x"]))


@pytest.mark.parametrize(
    ("variables", "url", "proxy"),
    [
        ({"ALL_PROXY": "p:1"}, "https://a/x", "http://p:1"), ({"all_proxy": "http://l:1",
         "ALL_PROXY": "u:1"}, "ftp://a", "http://l:1"),
        ({"https_proxy": "http://p:1"}, "http://a/x", None), ({"https_proxy": "p:1", "no_proxy": "a"},
         "https://me:x@a/y", None),
        ({"HTTP_PROXY": "p:1", "NO_PROXY": "10.0.0.0/8"}, "http://10.0.0.1", None),
        ({"HTTP_PROXY": "p:1", "NO_PROXY": "x, 10.0.0.1/8,y"}, "http://10.9.9.9", None),
        ({"HTTP_PROXY": "p:1", "NO_PROXY": "10.0.0.0"}, "http://10.0.0.1", "http://p:1"),
        ({"HTTP_PROXY": "p:1", "NO_PROXY": "a/8,10.0.0.0/99"}, "http://10.0.0.1", "http://p:1"),
        ({"PIP_PROXY": "q:2", "https_proxy": "p:1", "no_proxy": "*"}, "https://a", "http://q:2"),
        ({"PIP_NO_PROXY_ENV": "on", "https_proxy": "p:1"}, "https://a", None),
    ],
    ids=range(10),
)  # fmt: skip
def test_the_proxy_of_a_url(variables: dict[str, str], url: str, proxy: str | None) -> None:
    assert read_config({**ALONE, **variables}).proxy_for(url) == proxy


def test_who_is_trusted() -> None:
    made = IndexConfig((), trusted_hosts=("a.example", "b.example:80"))
    for url, trusted in {
        "https://x": True, "file:///x": True, "http://localhost/x": True, "http://[::1]/": True,
        "http://127.9.9.9": True,
        "http://A.example:1/": True, "http://b.example:80/": True, "http://b.example/": False,
        "http://c.example": False,
    }.items():  # fmt: skip
        assert made.trusts(url) is trusted, url


def test_files_of_pip_in_their_order(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "XDG_CONFIG_DIRS": f"{tmp_path}/a:{tmp_path}/b"}
    own = tmp_path / "own.conf"
    paths = [
        f"{tmp_path}/a/pip/pip.conf", f"{tmp_path}/b/pip/pip.conf", "/etc/pip.conf",
        f"{tmp_path}/.pip/pip.conf",
        f"{tmp_path}/.config/pip/pip.conf",
    ]  # fmt: skip
    assert [*map(str, pipconf._files(env))] == paths
    assert [*map(str, pipconf._files({**env, "PIP_CONFIG_FILE": str(own)}))] == [*paths, str(own)]
    own.write_text("[x]\n")
    assert [*map(str, pipconf._files({**env, "PIP_CONFIG_FILE": str(own)}))] == [*paths[:3], str(own)]
    assert [*map(str, pipconf._files({**env, "PIP_CONFIG_FILE": os.devnull}))] == []
    config = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "/c"}
    assert [*map(str, pipconf._files(config))] == [
        "/etc/xdg/pip/pip.conf",
        paths[2],
        paths[3],
        "/c/pip/pip.conf",
    ]


def test_settings_and_their_names(tmp_path: Path) -> None:
    own = tmp_path / "own.conf"
    env = {"HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path), "PIP_CONFIG_FILE": str(own)}
    own.write_text(
        "[global]\n--Find_Links = /g\nempty =\nretries = 1\n[wheel]\nx = 1\n[install]\nretries = 2\n"
    )
    found = pip_settings({**env, "PIP_NO_INDEX": "1", "PIP_EMPTY": "", "OTHER": "x"})
    names = ("find-links", "no-index", "retries", "empty", "x")
    assert {name: found[name] for name in names if name in found} == {
        "find-links": "/g", "no-index": "1", "retries": "2",
    }  # fmt: skip
    for text in ("x\n", "[a]\nx\n", "[a]\n[a]\n", "[a]\nb=1\nb=2\n", "[a\n"):
        own.write_text(text)
        refuses(lambda: pip_settings(env))
    own.write_bytes(b"\xff")
    refuses(lambda: pip_settings(env))
    words = ("y", "yes", "t", "true", "on", "1", " YES ", "no", "", None, "2")
    assert [switched_on(word) for word in words] == [True] * 7 + [False] * 4


def test_logins_by_host(tmp_path: Path) -> None:
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine N.example account acc password word\ndefault login a password b\n")
    netrc.chmod(0o600)
    known = Credentials.collect(
        ["https://a:b@h/x", "https://c:d@h/y", "https://h2/"], {"HOME": str(tmp_path)}
    )
    assert known.by_origin == {("https", "h", 443): ("a", "b")}
    assert known.for_url("https://n.example/x") == ("acc", "word")
    assert known.for_url("https://z:y@h/") == ("z", "y")
    assert known.also(["https://n:m@h/", "https://q@k:8/"]).by_origin == {
        ("https", "h", 443): ("n", "m"), ("https", "k", 8): ("q", ""),
    }  # fmt: skip
    assert known.into("https://h/p?q") == "https://a:b@h/p?q"
    assert known.into("https://z@h/p") == "https://z@h/p"
    assert known.into("https://other/p") == "https://other/p"
    assert Credentials({("https", "h", 443): ("a@", "b/")}).into("https://h/p") == "https://a%40:b%2F@h/p"
    assert Credentials({("https", "h", 443): ("tok/en", "")}).secrets() == ("tok/en", "tok%2Fen")
    assert (origin_of("HTTP://H/"), origin_of("x://h")) == (("http", "h", 80), ("x", "h", 0))
    other = tmp_path / "other"
    other.write_text("machine o.example login l password p\n")
    for env in ({"NETRC": str(other), "HOME": str(tmp_path)}, {"NETRC": str(other)}):
        assert Credentials.collect([], env).by_host == {"o.example": ("l", "p")}
    netrc.rename(tmp_path / "_netrc")
    assert "n.example" in Credentials.collect([], {"HOME": str(tmp_path)}).by_host
    (tmp_path / "_netrc").write_text("machine\n")
    assert Credentials.collect([], {"HOME": str(tmp_path)}).by_host == {}
    assert Credentials.collect([], {}).by_host == {}
