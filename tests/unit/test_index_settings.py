"""pip's settings, read as pip reads them, and what they mean for requests; nothing shows a credential."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.index_demo import configure

from xpubuild.engine.redact import recordable
from xpubuild.errors import ToolchainError, XpuBuildError
from xpubuild.supply.index import pipconf
from xpubuild.supply.index.files import RemoteFile
from xpubuild.supply.index.pipconf import (
    authorities,
    local_path,
    pip_settings,
    switched_on,
    without_login,
)
from xpubuild.supply.index.session import Session

SECRET = "correct-horse"


def refuses(action: Callable[[], object]) -> None:
    with pytest.raises(XpuBuildError):
        action()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home é"
    (folder / ".config" / "pip").mkdir(parents=True)
    (folder / ".pip").mkdir()
    (folder / "xdg" / "pip").mkdir(parents=True)
    return folder


def environment(home: Path, **variables: str) -> dict[str, str]:
    # /etc/pip.conf of the machine stays in force for pip and for us alike.
    return {"HOME": str(home), "XDG_CONFIG_DIRS": str(home / "xdg"), "PATH": os.defpath, **variables}


OPTIONS = """
import json
from pip._internal.commands import create_command
options, _ = create_command("install").parse_args([])
names = "index_url extra_index_urls find_links no_index trusted_hosts cert client_cert proxy timeout retries"
print(json.dumps({name: getattr(options, name) for name in names.split()}))
"""


def pip_says(env: dict[str, str]) -> dict[str, Any]:
    """Return the options of ``pip install`` as the real pip settles them."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", OPTIONS], env=env, capture_output=True, text=True, check=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


LAYOUTS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "nothing": ({}, {}),
    "user": ({".config/pip/pip.conf": "[global]\nindex-url = https://a.example/simple\ntimeout=7\n"}, {}),
    "user over legacy over site": (
        {
            ".config/pip/pip.conf": "[global]\nindex-url = https://user.example\n",
            ".pip/pip.conf": "[global]\nindex-url = https://legacy.example\nretries = 2\n",
            "xdg/pip/pip.conf": "[global]\nindex-url = https://site.example\nretries = 1\ntimeout = 3\n",
        },
        {},
    ),
    "install over global": (
        {
            ".config/pip/pip.conf": "[install]\nfind_links = /i\n[global]\nfind-links = /g\nproxy = http://p:1\n"
            "trusted-host = a b\nclient-cert = c.pem\n[wheel]\nfind-links=/w\n",
            "c.pem": "",
        },
        {},
    ),
    "environment over files": (
        {".config/pip/pip.conf": "[install]\nindex-url = https://a.example\nno-index = yes\n"},
        {"PIP_INDEX_URL": "https://env.example", "PIP_NO_INDEX": "", "PIP_DEFAULT_TIMEOUT": "9"},
    ),
    "several lines": (
        {".config/pip/pip.conf": "[global]\nextra-index-url =\n  https://a.example\n  https://b.example\n"},
        {},
    ),
    "a file of one's own": (
        {".config/pip/pip.conf": "[global]\nretries = 1\n", "own.conf": "[global]\nno-index = true\n"},
        {"PIP_CONFIG_FILE": "own.conf"},
    ),
    "no file": ({".config/pip/pip.conf": "[global]\nretries = 1\n"}, {"PIP_CONFIG_FILE": os.devnull}),
    "a file that is not there": (
        {".config/pip/pip.conf": "[global]\nretries = 1\n"}, {"PIP_CONFIG_FILE": "/not/there.conf"}
    ),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_settings_are_those_that_pip_itself_merges(
    home: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, variables = LAYOUTS[layout]
    for name, text in files.items():
        (home / name).write_text(text)
    monkeypatch.chdir(home)
    env = environment(home, **variables)
    options, ours = pip_says(env), pip_settings(env)
    assert switched_on(ours.get("no-index")) == options["no_index"]
    main = ours.get("index-url")
    assert main == options["index_url"] or (main is None and options["index_url"].endswith("/simple"))
    assert ours.get("extra-index-url", "").split() == options["extra_index_urls"]
    assert ours.get("find-links", "").split() == options["find_links"]
    assert ours.get("trusted-host", "").split() == options["trusted_hosts"]
    assert float(ours.get("timeout") or ours.get("default-timeout") or 15) == options["timeout"]
    assert int(ours.get("retries", 5)) == options["retries"]
    assert ours.get("client-cert") == options["client_cert"]
    assert ours.get("cert") == options["cert"]
    assert ours.get("proxy") == (options["proxy"] or None)


@pytest.mark.parametrize(
    ("place", "path"),
    [("/a b", "/a b"), ("file:///a%20b", "/a b"), ("file:/x", "/x"), ("https://h/x", None), ("x", "x")],
)
def test_places_of_this_machine(place: str, path: str | None) -> None:
    assert local_path(place) == (None if path is None else Path(path))


def test_authorities_of_the_machine_are_found_where_distributions_have_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pipconf._SYSTEM_AUTHORITIES == (
        "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
    )  # fmt: skip
    there = tmp_path / "ca.pem"
    there.touch()
    monkeypatch.setattr(pipconf, "_SYSTEM_AUTHORITIES", ("/no/such", str(there)))
    assert authorities({}, {}) == str(there)
    there.unlink()
    assert authorities({}, {}) == ""


@pytest.mark.parametrize("name", ["cert", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"])
def test_authorities_are_taken_from_every_name_that_is_usual(tmp_path: Path, name: str) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.touch()
    assert authorities({name: str(bundle)}, {name: str(bundle)}) == str(bundle)
    bundle.unlink()
    with pytest.raises(ToolchainError, match="certificates"):
        authorities({name: str(bundle)}, {name: str(bundle)})


def test_a_file_that_cannot_be_read_is_named_and_not_quoted(home: Path) -> None:
    (home / ".config/pip/pip.conf").write_text(f"index-url = https://me:{SECRET}@a.example\n")
    with pytest.raises(ToolchainError, match=r"pip\.conf cannot be read") as caught:
        pip_settings(environment(home))
    assert SECRET not in str(caught.value.to_json())
    assert caught.value.why.startswith("line 1 is neither [SECTION] nor NAME = VALUE")


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


def test_a_session_has_the_settings_of_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    configure(
        monkeypatch, PIP_TRUSTED_HOST="A.example b.example:8", PIP_RETRIES="4", PIP_CERT=str(tmp_path),
        PIP_CLIENT_CERT="/me", PIP_TIMEOUT="7", PIP_PROXY="p:1",
    )  # fmt: skip
    made, asked = Session(), list[dict[str, Any]]()
    assert (made.headers["User-Agent"], made.cert, made.timeout_s) == ("xpubuild", "/me", 7)
    assert (made.retries, Session(1).retries, Session(9).retries) == (4, 1, 4)
    for url, trusting in {
        "https://a.example/x": True, "https://a.example:9/": True, "https://b.example:8/": True,
        "https://b.example:9/": False, "https://a.example.org/": False, "http://a.example/": False,
    }.items():  # fmt: skip
        assert (type(made.get_adapter(url)).__name__ == "_TrustingAdapter") is trusting, url
    monkeypatch.setattr(made, "get", lambda url, **options: asked.append({"url": url, **options}))
    made.ask("https://x.example/y", headers={"A": "b"})
    assert asked == [
        {"url": "https://x.example/y", "headers": {"A": "b"}, "stream": True, "timeout": 7.0,
         "verify": str(tmp_path), "proxies": {"http": "http://p:1", "https": "http://p:1"}}
    ]  # fmt: skip


@pytest.mark.parametrize(
    "variables", [{"PIP_RETRIES": "many"}, {"PIP_TIMEOUT": "x"}, {"PIP_CERT": "/no/such"}]
)
def test_settings_that_cannot_be_used(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    configure(monkeypatch, **variables)
    refuses(Session)


def test_a_file_shows_and_records_no_credential() -> None:
    link = f"https://me:{SECRET}@a.example/x.whl?X-Signature={SECRET}#sha256=1"
    file = RemoteFile("x", "1", "x.whl", None, None, recordable(link), origin=link)
    assert file.url == "https://a.example/x.whl"
    assert SECRET not in repr(file)
    assert file.link == link
    assert file == RemoteFile("x", "1", "x.whl", None, None, file.url)
    assert without_login("https://a:b@h:1/p?q#f") == "https://h:1/p?q#f"
    assert without_login("/a folder/with@sign") == "/a folder/with@sign"
