"""Secrets never reach a log, and other text is left alone."""

from __future__ import annotations

import string
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xpubuild.engine.redact import Redactor, recordable

printable = st.characters(
    min_codepoint=33, max_codepoint=0x2FFF, exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp")
)
secrets = st.text(printable, min_size=6, max_size=40).filter(lambda s: "*" not in s)
words = st.text(string.ascii_letters + string.digits + " .,;()[]{}<>=+-_#%&|~\u00e4\u6f22\t", max_size=60)
names = st.sampled_from(
    [
        "GITHUB_TOKEN", "HF_TOKEN", "hf_token", "AWS_SECRET_ACCESS_KEY", "MY_PASSWORD", "PGPASSWD", "API_KEY",
        "SSH_PASSPHRASE", "APIKEY", "X_CREDENTIALS", "PRIVATE_KEY", "MY_PRIVATEKEY", "AUTH_HEADER",
    ]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(names, secrets, words, words)
def test_a_secret_of_the_environment_never_survives(name: str, secret: str, before: str, after: str) -> None:
    text = f"{before}{secret}{after}{secret}"
    redact = Redactor.from_environment({name: secret, "PATH": "/bin"})
    out = redact(text)
    assert secret not in out
    assert out == text.replace(secret, "****")
    assert redact(out) == out


@settings(max_examples=300, deadline=None)
@given(secrets.filter(lambda s: not set(s) & set("/'\"")), words)
def test_credentials_in_a_url_never_survive(secret: str, text: str) -> None:
    out = Redactor()(f"{text} https://user:{secret}@example.invalid/a.git {text}")
    assert out == f"{text} https://****@example.invalid/a.git {text}"


@settings(max_examples=200, deadline=None)
@given(
    secrets.filter(lambda s: not set(s) & set("'\"")),
    st.sampled_from(
        [
            "Authorization: Basic {}", "authorization: bearer {}", "AUTHORIZATION: token {}",
            "Authorization:Bearer {}", "Proxy-Authorization: Basic {}", "> Authorization: Negotiate {}",
            "aUtHoRiZaTiOn: bearer {}", "{{'Authorization': 'Bearer {}'}}", '{{"authorization": "Basic {}"}}',
            "http.extraheader=AUTHORIZATION: basic {}",
        ]
    ),
)  # fmt: skip
def test_an_authorization_header_never_survives(secret: str, form: str) -> None:
    text = form.format(secret)
    out = Redactor()(text)
    assert out == form.format("****")


@settings(max_examples=300, deadline=None)
@given(words)
def test_ordinary_text_is_unchanged(text: str) -> None:
    redact = Redactor.from_environment({"HF_TOKEN": "0f1e2d3c4b5a69788796a5b4", "USER": "me"})
    assert redact(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "https://github.com/intel/torch-xpu-ops",
        "git clone https://host/a/@scope/b.git",
        "see https://host/x and mail me@host",
        "Cloning into 'https://host:8443/x'...",
        "[12/345] Building CXX object a/b.cpp.o",
        "authorization failed: token expired",
        "/usr/bin/c++ -DTOKEN=1 -I/a@b/include",
        "",
    ],
)
def test_harmless_text_is_unchanged(text: str) -> None:
    assert Redactor.from_environment({"HF_TOKEN": "0f1e2d3c4b5a"})(text) == text


def test_a_password_inside_a_url_of_the_environment_is_known_by_itself() -> None:
    redact = Redactor.from_environment({"HTTPS_PROXY": "http://me:hunter2-hunter2@proxy:3128"})
    assert redact("the password is hunter2-hunter2") == "the password is ****"
    assert redact("the user is me") == "the user is me"


def test_a_key_of_several_lines_is_known_line_by_line() -> None:
    redact = Redactor.from_environment({"DEPLOY_PRIVATE_KEY": "-----BEGIN-----\nabcdefghij\nklmnopqrst\n"})
    assert redact("abcdefghij") == "****"
    assert redact("xklmnopqrsty") == "x****y"


GHP = "ghp_" + "a1B2" * 9


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f"remote: invalid token {GHP}.", "remote: invalid token ****."),
        ("HF_TOKEN=hf_0123456789abcdefghij python x.py", "HF_TOKEN=**** python x.py"),
        ("-DMY_API_KEY='abcdef012' -O2", "-DMY_API_KEY='****' -O2"),
        (
            "twine upload --password hunter --api-token=abcdef0",
            "twine upload --password hunter --api-token=****",
        ),
        (
            "Looking in indexes: https://h/k3y0f8LettersAnd9/simple/",
            "Looking in indexes: https://h/****/simple/",
        ),
    ],
)
def test_what_looks_like_a_secret_is_masked_wherever_it_stands(text: str, wanted: str) -> None:
    assert Redactor()(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "https://files.example.org/packages/ab/cd/0123456789abcdef0123456789abcdef0123456789/x-1-py3.whl",
        "https://download.pytorch.org/whl/nightly/cpu/torch-2.7.0.dev20250101%2Bcpu-cp311-manylinux2014_x86_64.whl",
        "https://discuss.pytorch.org/t/how-to-build-2-0-for-xpu/12345",
        "https://h/d/bd1d0273-a931-4f7e-ab76-6a2a67d646c7/intel-oneapi.sh",
        "auto token=lexer.next(); const int AUTH_TOKENS = 3;",
        "_ZN3c1013AutogradStateC1Ebbbb and gh_x, hf_x, eyJ0",
    ],
)
def test_what_only_reminds_of_a_secret_is_left(text: str) -> None:
    assert Redactor()(text) == text


@pytest.mark.parametrize("name", ["PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL", "PIP_FIND_LINKS"])
@pytest.mark.parametrize("token", ["0123456789abcdef01234567", "an-Key-1", "Ab0Cd1Ef2Gh3Ij4K"])
def test_a_token_in_the_path_of_an_index_is_known(name: str, token: str) -> None:
    redact = Redactor.from_environment({name: f"https://a.example/simple https://b.example/t/{token}/simple"})
    assert token not in redact(f"ERROR: 404 for {token}: https://b.example/t/{token}/simple/torch/")
    assert "https://a.example/simple" in redact("https://a.example/simple")
    url = recordable(f"https://b.example/t/{token}/x.whl?sig=1#sha256=2", tokens_in_path=True)
    assert url == "https://b.example/t/****/x.whl"


@pytest.mark.parametrize(
    "text",
    [
        "a" * 200_000 + "://x",
        "://" + "a" * 200_000,
        "a://" * 50_000,
        "authorization" + " " * 200_000,
        "authorization: " * 20_000,
        "a://" + "@" * 60_000 + "x" * 60_000,
    ],
    ids=["scheme", "no-end", "schemes", "blanks", "headers", "ats"],
)
def test_a_long_line_takes_no_time(text: str) -> None:
    redact = Redactor.from_environment({"HF_TOKEN": "0123456789ab"})
    started = time.process_time()
    redact(text)
    assert time.process_time() - started < 1.0
