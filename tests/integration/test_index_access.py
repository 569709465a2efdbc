"""The way to a package server: logins, proxies, certificate authorities."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.index_demo import DATA, NAME, configure, remote
from support.indexes import PackageIndex, RecordingProxy, certificate, sha256

from xpubuild.errors import FetchError, XpuBuildError
from xpubuild.supply.index.transfer import download

SECRET = "correct-horse"


@pytest.fixture
def index() -> Iterator[PackageIndex]:
    with PackageIndex() as served:
        served.add(NAME, DATA)
        yield served


def test_a_login_in_a_link_survives_a_redirect_on_its_host_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = f"me:{SECRET}"
    with PackageIndex(login=login) as index, PackageIndex() as other:
        index.add(NAME, DATA)
        other.add(NAME, DATA)
        index.faults.redirect = {
            "/files/here.whl": "/files/" + NAME.replace("+", "%2B"),
            "/files/away.whl": f"{other.at()}/files/" + NAME.replace("+", "%2B"),
        }
        for word in ("here", "away"):
            link = f"{index.at(login)}/files/{word}.whl"
            assert download(link, sha256(DATA), tmp_path / word, NAME).read_bytes() == DATA
        assert [request.login for request in index.requests] == [login] * 3
        assert [request.login for request in other.requests] == [""]


# proxies


def test_everything_goes_through_the_proxy(
    index: PackageIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RecordingProxy(login=f"peter:{SECRET}") as proxy:
        configure(monkeypatch, HTTP_PROXY=proxy.url(f"peter:{SECRET}"))
        assert download(*remote(index), tmp_path, NAME).read_bytes() == DATA
        assert dict(proxy.passed) == {f"127.0.0.1:{index.port}": 1}
        assert not any("proxy-authorization" in request.headers for request in index.requests)


@pytest.mark.parametrize("spelling", ["NO_PROXY", "no_proxy"])
def test_what_needs_no_proxy_goes_past_it(
    index: PackageIndex, tmp_path: Path, spelling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RecordingProxy() as proxy:
        configure(monkeypatch, http_proxy=proxy.url(), **{spelling: "127.0.0.1,other.example"})
        assert download(*remote(index), tmp_path, NAME).read_bytes() == DATA
        assert not proxy.passed


def test_a_proxy_that_refuses_is_told_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RecordingProxy(refuses=True) as proxy:
        configure(monkeypatch, HTTPS_PROXY=proxy.url(f"peter:{SECRET}"), PIP_RETRIES="0")
        with pytest.raises(FetchError) as caught:
            download(f"https://files.example/{NAME}", sha256(DATA), tmp_path, NAME)
        assert "proxy" in caught.value.why
        assert SECRET not in json.dumps(caught.value.to_json())
        assert dict(proxy.passed) == {"files.example:443": 1}


# certificates


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("an authority"))


@pytest.mark.needs("openssl")
@pytest.mark.parametrize("name", ["PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"])
def test_an_authority_of_the_site_is_trusted_where_it_is_named(
    signed: tuple[Path, Path], tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, both = signed
    with PackageIndex(certificate=both) as index, RecordingProxy() as proxy:
        index.add(NAME, DATA)
        for more in ({}, {"HTTPS_PROXY": proxy.url()}):
            configure(monkeypatch, **{name: str(authority)}, **more)
            assert download(*remote(index), tmp_path / f"{len(more)}", NAME).read_bytes() == DATA
        assert proxy.passed[f"127.0.0.1:{index.port}"] >= 1


@pytest.mark.needs("openssl")
def test_an_unknown_authority_is_refused_and_a_trusted_host_is_not(
    signed: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with PackageIndex(certificate=signed[1]) as index:
        index.add(NAME, DATA)

        def fetched(**variables: str) -> Path:
            configure(monkeypatch, PIP_RETRIES="0", **variables)
            return download(*remote(index), tmp_path, NAME)

        with pytest.raises(XpuBuildError) as caught:
            fetched()
        assert caught.value.exit_code == 30
        assert "its certificate is not trusted" in caught.value.why
        with pytest.raises(FetchError):
            fetched(PIP_TRUSTED_HOST="127.0.0.1:1")
        assert fetched(PIP_TRUSTED_HOST=f"127.0.0.1:{index.port}").read_bytes() == DATA
