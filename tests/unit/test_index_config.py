"""What pip is configured with, read as pip reads it; nothing of it shows a credential."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pypi_simple import PYPI_SIMPLE_ENDPOINT

from xpubuild.engine.redact import recordable
from xpubuild.errors import ToolchainError
from xpubuild.supply.index import config
from xpubuild.supply.index.config import IndexConfig, read_config
from xpubuild.supply.index.credentials import login_of, without_login
from xpubuild.supply.index.files import RemoteFile

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
    options = pip_says(env)
    ours = read_config(env)
    indexes = [] if options["no_index"] else [options["index_url"], *options["extra_index_urls"]]
    assert list(ours.indexes) == indexes
    assert list(ours.find_links) == options["find_links"]
    assert list(ours.trusted_hosts) == options["trusted_hosts"]
    assert (ours.timeout_s, ours.retries) == (options["timeout"], options["retries"])
    assert ours.client_cert == options["client_cert"]
    assert options["cert"] in (None, ours.verify)
    assert ours.proxies.get("https") == options["proxy"]


def test_the_places_in_the_order_in_which_pip_asks_them(home: Path) -> None:
    (home / "wheels").mkdir()
    config = read_config(
        environment(
            home, PIP_CONFIG_FILE=os.devnull, PIP_INDEX_URL="https://a.example/simple",
            PIP_EXTRA_INDEX_URL="https://b.example/simple\nfile:///c%20d", PIP_FIND_LINKS="~/wheels /w https://l.example/p",
            PIP_TRUSTED_HOST="Plain.example other.example:8080", PIP_TIMEOUT="7.5", PIP_RETRIES="2",
        )
    )  # fmt: skip
    assert config.indexes == ("https://a.example/simple", "https://b.example/simple", "file:///c%20d")
    assert config.find_links == (f"{home}/wheels", "/w", "https://l.example/p")
    assert (config.timeout_s, config.retries) == (7.5, 2)
    assert config.trusts("http://plain.example/x")
    assert config.trusts("http://other.example:8080/x")
    assert not config.trusts("http://other.example/x")
    assert config.trusts("http://127.0.0.1:99/x")
    assert config.places() == (*config.find_links, *config.indexes)


def test_no_index_leaves_the_wheel_folders(home: Path) -> None:
    env = environment(home, PIP_CONFIG_FILE=os.devnull, PIP_NO_INDEX="1", PIP_FIND_LINKS="/w")
    config = read_config({**env, "PIP_EXTRA_INDEX_URL": "https://b.example"})
    assert (config.indexes, config.find_links) == ((), ("/w",))


def test_without_any_setting_it_is_the_python_package_index(home: Path) -> None:
    config = read_config(environment(home, PIP_CONFIG_FILE=os.devnull))
    assert config.indexes == (pip_says(environment(home, PIP_CONFIG_FILE=os.devnull))["index_url"],)
    assert (config.timeout_s, config.retries, config.find_links) == (15.0, 5, ())


@pytest.mark.parametrize("name", ["PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"])
def test_authorities_are_taken_from_every_name_that_is_usual(home: Path, name: str) -> None:
    bundle = home / "ca.pem"
    bundle.touch()
    env = environment(home, PIP_CONFIG_FILE=os.devnull, **{name: str(bundle)})
    assert read_config(env).verify == str(bundle)
    bundle.unlink()
    with pytest.raises(ToolchainError, match="certificates"):
        read_config(env)


def test_a_file_that_cannot_be_read_is_named_and_not_quoted(home: Path) -> None:
    (home / ".config/pip/pip.conf").write_text(f"index-url = https://me:{SECRET}@a.example\n")
    with pytest.raises(ToolchainError, match=r"pip\.conf cannot be read") as caught:
        read_config(environment(home))
    assert SECRET not in str(caught.value.to_json())
    assert caught.value.why.startswith("line 1 is neither [SECTION] nor NAME = VALUE")
    (home / ".config/pip/pip.conf").write_text("[global]\nindex-url = a\nindex-url = b\n")
    with pytest.raises(ToolchainError) as caught:
        read_config(environment(home))
    assert caught.value.why.startswith("line 3 ")


@pytest.mark.parametrize("name", ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_PROXY"])
def test_what_is_no_url_is_told_without_its_password(home: Path, name: str) -> None:
    env = environment(home, PIP_CONFIG_FILE=os.devnull, **{name: f"https://me:{SECRET}@host:port/simple"})
    with pytest.raises(ToolchainError, match="is not the URL") as caught:
        read_config(env)
    assert SECRET not in str(caught.value.to_json())


@pytest.mark.parametrize("value", ["\x1b[2J", "http://[::1", "host:port", "http://h:99999999"])
def test_a_proxy_of_the_environment_that_is_no_url_is_told(home: Path, value: str) -> None:
    with pytest.raises(ToolchainError, match="is not the URL of a proxy") as caught:
        read_config(environment(home, PIP_CONFIG_FILE=os.devnull, https_proxy=value))
    assert "https_proxy" in caught.value.fix


def test_a_proxy_without_a_scheme_is_one_of_http(home: Path) -> None:
    config = read_config(environment(home, PIP_CONFIG_FILE=os.devnull, https_proxy=f"me:{SECRET}@proxy:3128"))
    assert config.proxy_for("https://a.example") == f"http://me:{SECRET}@proxy:3128"
    assert SECRET not in config.shown(f"cannot reach me:{SECRET}@proxy:3128")


def test_a_value_that_is_no_number_is_named(home: Path) -> None:
    with pytest.raises(ToolchainError, match="timeout is 'soon'"):
        read_config(environment(home, PIP_CONFIG_FILE=os.devnull, PIP_TIMEOUT="soon"))


@pytest.mark.parametrize(
    ("no_proxy", "url", "proxied"),
    [
        ("", "https://a.example/x", True),
        ("a.example", "https://a.example/x", False),
        (".example", "https://a.example/x", False),
        ("b.example", "https://a.example/x", True),
        ("*", "https://a.example/x", False),
        ("127.0.0.1", "http://127.0.0.1:81/x", False),
        ("127.0.0.1:81, other", "http://127.0.0.1:81/x", False),
        ("127.0.0.1:82", "http://127.0.0.1:81/x", True),
        ("10.0.0.0/8", "http://10.1.2.3/x", False),
        ("10.0.0.0/8", "http://11.1.2.3/x", True),
    ],
)
def test_exceptions_of_the_proxy(home: Path, no_proxy: str, url: str, proxied: bool) -> None:
    env = environment(home, PIP_CONFIG_FILE=os.devnull, HTTP_PROXY="http://p:1", https_proxy="http://p:1")
    assert (read_config({**env, "NO_PROXY": no_proxy}).proxy_for(url) is not None) is proxied


def test_pips_own_proxy_knows_no_exceptions_and_lower_case_counts_first(home: Path) -> None:
    env = environment(home, PIP_CONFIG_FILE=os.devnull, HTTPS_PROXY="http://up:1", https_proxy="http://low:1")
    assert read_config(env).proxy_for("https://a.example") == "http://low:1"
    own = read_config({**env, "PIP_PROXY": "http://own:1", "NO_PROXY": "*"})
    assert own.proxy_for("https://a.example") == "http://own:1"
    assert read_config({**env, "PIP_NO_PROXY_ENV": "1"}).proxy_for("https://a.example") is None


def secretive(home: Path) -> IndexConfig:
    (home / ".netrc").write_text("machine n.example login nora password netrc-word\n")
    (home / ".netrc").chmod(0o600)
    return read_config(
        environment(
            home, PIP_CONFIG_FILE=os.devnull, PIP_INDEX_URL=f"https://me:{SECRET}@a.example/simple",
            PIP_EXTRA_INDEX_URL="https://token-alone@b.example:8443/simple",
            PIP_FIND_LINKS="https://you:p%40ss%2Fword@l.example/p", HTTPS_PROXY="http://peter:proxy-word@p:1",
        )
    )  # fmt: skip


def test_a_login_goes_to_its_own_host_only(home: Path) -> None:
    known = secretive(home).credentials
    assert known.for_url("https://a.example/files/x.whl") == ("me", SECRET)
    assert known.for_url("https://b.example:8443/x") == ("token-alone", "")
    assert known.for_url("https://l.example/x") == ("you", "p@ss/word")
    assert known.for_url("https://n.example/x") == ("nora", "netrc-word")
    assert known.for_url("http://a.example/x") is None
    assert known.for_url("https://a.example:444/x") is None
    assert known.for_url("https://b.example/x") is None
    assert known.for_url("https://files.example/x") is None


def test_nothing_that_is_shown_holds_a_credential(home: Path) -> None:
    config = secretive(home)
    words = (SECRET, "token-alone", "p@ss/word", "p%40ss%2Fword", "proxy-word", "netrc-word")
    shown = (
        repr(config),
        repr(config.credentials),
        str(config.places()),
        str(config.with_indexes(config.indexes)),
    )
    assert not [word for word in words for text in shown if word in text]
    for word in words:
        assert word not in config.shown(f"cannot connect: {word!r} is wrong")


def test_a_file_shows_and_records_no_credential() -> None:
    link = f"https://me:{SECRET}@a.example/x.whl?X-Signature={SECRET}#sha256=1"
    file = RemoteFile("x", "1", "x.whl", None, None, recordable(link), origin=link)
    assert file.url == "https://a.example/x.whl"
    assert SECRET not in repr(file)
    assert file.link == link
    assert file == RemoteFile("x", "1", "x.whl", None, None, file.url)


def test_recipe_indexes_are_asked_with_little_patience_and_their_own_login(home: Path) -> None:
    config = secretive(home).with_indexes([f"https://r:{SECRET}@r.example/whl"])
    assert config.indexes == ("https://r.example/whl",)
    assert config.find_links == ()
    assert config.retries == 1
    assert config.credentials.for_url("https://r.example/whl/x") == ("r", SECRET)
    assert config.credentials.for_url("https://a.example/x") == ("me", SECRET)


def test_parts_of_urls() -> None:
    assert without_login("https://a:b@h:1/p?q#f") == "https://h:1/p?q#f"
    assert login_of("https://a%40b:c%3Ad@h/") == ("a@b", "c:d")
    assert login_of("https://h/@x") is None
    assert without_login("/a folder/with@sign") == "/a folder/with@sign"


def test_the_usual_index_is_that_of_pypi_simple(monkeypatch: pytest.MonkeyPatch) -> None:
    told = config._pypi()
    assert told == PYPI_SIMPLE_ENDPOINT.rstrip("/")
    monkeypatch.setattr(config, "_ENDPOINT", re.compile("$nothing"))
    assert config._pypi() == told
