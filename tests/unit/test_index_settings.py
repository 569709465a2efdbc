"""pip's settings, read as pip reads them, and what they mean for requests; nothing shows a credential."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.index_demo import configure

from xpubuild.errors import ToolchainError
from xpubuild.supply.index import pipconf
from xpubuild.supply.index.pipconf import (
    authorities,
    pip_settings,
    switched_on,
)
from xpubuild.supply.index.transfer import Session

SECRET = "correct-horse"


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
    "a file of one's own": (
        {".config/pip/pip.conf": "[global]\nretries = 1\n", "own.conf": "[global]\nno-index = true\n"},
        {"PIP_CONFIG_FILE": "own.conf"},
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
        {"url": "https://x.example/y", "headers": {"Accept-Encoding": "identity", "A": "b"}, "stream": True,
         "timeout": 7.0, "verify": str(tmp_path), "proxies": {"http": "http://p:1", "https": "http://p:1"}}
    ]  # fmt: skip
