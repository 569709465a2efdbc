"""Which files of a release an interpreter may pick."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet
from support.index_demo import configure

from xpubuild.errors import RecipeError, ToolchainError
from xpubuild.resources import recipes_dir
from xpubuild.supply.index import pipconf
from xpubuild.supply.index.pip_download import Need
from xpubuild.supply.index.pipconf import (
    Said,
    authorities,
    find_uv,
    pip_settings,
    reason_for_pip,
    switched_on,
    translated,
)
from xpubuild.supply.index.transfer import Session
from xpubuild.supply.requirements import HashedPin, hashed_pins, pinned


def fits(filename: str, python: str = "3.11") -> bool:
    pin = HashedPin("demo", "1.0", SpecifierSet("==1.0"), None, frozenset({"0"}))
    return Need(pin, python).met_by(filename, "0")


@pytest.mark.parametrize(
    "tags",
    [
        "py3-none-any", "py2.py3-none-any", "py311-none-any", "cp311-cp311-linux_x86_64",
        "cp311-cp311-manylinux1_x86_64", "cp311-cp311-manylinux2010_x86_64",
        "cp311-abi3-manylinux2014_x86_64",
        "cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64", "cp311-cp311-manylinux_2_39_x86_64",
        "cp37-abi3-manylinux_2_5_x86_64", "py3-none-manylinux_2_49_x86_64", "cp311-none-any",
    ],
)  # fmt: skip
def test_what_an_interpreter_on_glibc_may_pick(tags: str) -> None:
    assert fits(f"demo-1.0-{tags}.whl")


@pytest.mark.parametrize(
    "tags",
    [
        "cp312-cp312-manylinux_2_17_x86_64", "cp312-abi3-manylinux_2_17_x86_64",
        "cp311-cp311-musllinux_1_2_x86_64",
        "cp311-cp311-macosx_11_0_arm64", "cp311-cp311-win_amd64", "cp311-cp311-manylinux_2_17_aarch64",
        "cp311-cp311t-manylinux_2_17_x86_64", "pp311-pypy311_pp73-manylinux_2_17_x86_64", "py2-none-any",
        "cp310-cp310-manylinux_2_17_x86_64", "cp311-cp311-manylinux_2_17_i686", "py312-none-any",
    ],
)  # fmt: skip
def test_what_it_may_not_pick(tags: str) -> None:
    assert not fits(f"demo-1.0-{tags}.whl")


def test_free_threaded_builds() -> None:
    assert fits("demo-1.0-cp313-cp313t-manylinux_2_17_x86_64.whl", "3.13t")
    assert not fits("demo-1.0-cp313-cp313-manylinux_2_17_x86_64.whl", "3.13t")
    assert not fits("demo-1.0-cp39-abi3-manylinux_2_17_x86_64.whl", "3.13t")


PINS = f"""\
# comment
-c other.txt
numpy==2.2.6 ; python_full_version < '3.11' \\
    --hash=sha256:{"1" * 64} \\
    --hash=sha256:{"2" * 64}
    # via somebody
numpy==2.3.1 ; python_full_version >= '3.11' \\
    --hash=sha256:{"3" * 64}
Pillow==12.0 --hash=sha256:{"AB" * 32}  # --hash=sha256:{"4" * 64}
late==1.0 ; python_full_version >= '3.11.4' --hash=sha256:{"5" * 64}
arm==1.0 ; platform_machine == 'aarch64' --hash=sha256:{"6" * 64}
"""


def test_pins_carry_their_hashes_and_their_markers() -> None:
    pins = hashed_pins(PINS)
    assert [(pin.name, pin.version, len(pin.hashes)) for pin in pins] == [
        ("numpy", "2.2.6", 2), ("numpy", "2.3.1", 1), ("Pillow", "12.0", 1), ("late", "1.0", 1),
        ("arm", "1.0", 1),
    ]  # fmt: skip
    assert pins[2].hashes == {"ab" * 32}
    assert [pin.version for pin in pins[:2] if pin.applies("3.10")] == ["2.2.6"]
    assert [pin.version for pin in pins[:2] if pin.applies("3.11")] == ["2.3.1"]
    assert pins[3].applies("3.11")
    assert pins[3].applies("3.11.4")
    assert not pins[3].applies("3.11.3")
    assert pins[4].applies("3.11", "aarch64")
    assert not pins[4].applies("3.11")


def test_what_is_no_pin_is_refused() -> None:
    for wrong in ("numpy>=2", "numpy", "nump y==2", "https://example.org/x.whl"):
        with pytest.raises(RecipeError):
            hashed_pins(wrong)


@pytest.mark.parametrize(
    "path", sorted((recipes_dir() / "requirements").glob("*.txt")), ids=lambda path: path.name
)
def test_every_pin_that_is_shipped_has_hashes(path: object) -> None:
    text = path.read_text("utf-8")  # type: ignore[attr-defined]
    pins = hashed_pins(text)
    assert pins
    assert sum(len(pin.hashes) for pin in pins) == len(
        re.findall(r"^\s+--hash=sha256:[0-9a-f]{64}\b", text, re.M)
    )
    assert {pin.name for pin in pins} >= {name for name, _ in pinned(text, "3.12")}


LISTED = [
    line.split()
    for line in (recipes_dir() / "requirements" / "torch-2.13.0-cpu.sha256").read_text().splitlines()
    if line and not line.startswith("#")
]  # fmt: skip


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13", "3.14", "3.14t"])
def test_the_prebuilt_torch_has_one_wheel_for_every_interpreter_of_the_quickstart(
    python: str,
) -> None:
    hashes = hashed_pins((recipes_dir() / "requirements" / "torch-2.13.0-cpu.txt").read_text("utf-8"))
    torch = next(pin for pin in hashes if pin.name == "torch")
    chosen = [digest for digest, name in LISTED if Need(torch, python).met_by(name, digest)]
    assert len(chosen) == 1


# ---- pip's settings, read as pip reads them, and what they mean for requests; nothing shows a credential


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


# ---- pip's settings in the words of uv, what leaves the work to pip, and how uv is found


ALONE = {"PIP_CONFIG_FILE": os.devnull, "HOME": "/nowhere"}


def said(**variables: str) -> Said:
    environment = {**ALONE, **variables}
    return translated(pip_settings(environment), environment)


def options(words: Said, name: str) -> list[str]:
    return [words.options[at + 1] for at, word in enumerate(words.options) if word == name]


def test_indexes_and_their_logins_are_said_in_the_environment_alone() -> None:
    words = said(
        PIP_INDEX_URL="https://me:word@one.example/simple",
        PIP_EXTRA_INDEX_URL="https://two.example/simple https://token@three.example/simple",
    )
    assert words.environment["UV_DEFAULT_INDEX"] == "https://me:word@one.example/simple"
    assert words.environment["UV_INDEX"] == "https://two.example/simple https://token@three.example/simple"
    assert "example" not in " ".join(words.options)
    assert "word" not in repr(words)
    # Every index is asked for every package, as pip does; uv's own way ends at the first with the name.
    assert options(words, "--index-strategy") == ["unsafe-best-match"]


def test_what_pip_passes_over_is_left_out(tmp_path: Path) -> None:
    """Plain http without trusted-host, which uv would take, and folders that are not there: it would fail."""
    wheels = tmp_path / "my wheels"
    wheels.mkdir()
    words = said(
        PIP_INDEX_URL="http://plain.example/simple",
        PIP_EXTRA_INDEX_URL=f"http://inside.example/simple {(tmp_path / 'gone').as_uri()}",
        PIP_TRUSTED_HOST="inside.example",
        PIP_FIND_LINKS=f"{wheels.as_uri()} {tmp_path}/gone http://plain.example/links",
    )
    assert words.environment["UV_DEFAULT_INDEX"] == "http://inside.example/simple"
    assert "UV_INDEX" not in words.environment
    assert options(words, "--find-links") == [wheels.as_uri()]
    assert options(words, "--allow-insecure-host") == ["inside.example"]


def test_a_page_of_links_with_a_login_is_for_pip() -> None:
    with pytest.raises(ToolchainError, match="login"):
        said(PIP_FIND_LINKS="https://me:word@one.example/links")


def test_the_way_to_the_network_is_pips(tmp_path: Path) -> None:
    authority = tmp_path / "ca é.pem"
    authority.write_text("")
    words = said(
        PIP_PROXY="proxy.example:3128",
        PIP_CERT=str(authority),
        PIP_CLIENT_CERT=str(authority),
        PIP_RETRIES="7",
        PIP_TIMEOUT="20.4",
        HTTPS_PROXY="http://other.example:1",
        NO_PROXY="example",
        SSL_CERT_DIR="/etc/other",
    )
    env = words.environment
    assert (env["http_proxy"], env["https_proxy"]) == ("http://proxy.example:3128",) * 2
    assert not {"HTTPS_PROXY", "NO_PROXY", "no_proxy", "SSL_CERT_DIR"} & env.keys()
    assert (env["SSL_CERT_FILE"], env["SSL_CLIENT_CERT"]) == (str(authority),) * 2
    assert (env["UV_HTTP_TIMEOUT"], env["UV_HTTP_RETRIES"]) == ("20", "7")
    folder = said(PIP_CERT=str(tmp_path), https_proxy="http://p.example:1", no_proxy="inside").environment
    assert (folder["SSL_CERT_DIR"], folder["https_proxy"], folder["no_proxy"]) == (
        str(tmp_path), "http://p.example:1", "inside",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("setting", "value", "pip"),
    [
        ("index-url", "https://one.example", False),
        ("cache-dir", "/var/pip", False),
        ("no-cache-dir", "false", False),
        ("no-cache-dir", "true", True),
        ("keyring-provider", "disabled", False),
        ("keyring-provider", "import", True),
        ("require-virtualenv", "true", False),
        ("constraint", "all.txt", True),
        ("no-binary", ":all:", True),
        ("use-feature", "truststore", True),
        ("something-new", "1", True),
    ],
)
def test_a_setting_that_uv_cannot_be_told_leaves_the_work_to_pip(
    setting: str, value: str, *, pip: bool
) -> None:
    why = reason_for_pip({setting: value})
    assert bool(why) == pip
    assert not why or setting in why


def test_the_uv_of_this_interpreter_is_used_and_its_absence_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    found = find_uv()
    assert Path(found.path).is_file()
    assert found.version == importlib.metadata.version("uv")
    monkeypatch.setitem(sys.modules, "uv", None)
    found = find_uv()
    assert (found.path, found.why) == ("", "uv is not installed beside xpubuild")
