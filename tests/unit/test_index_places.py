"""Folders, pages and indexes of Python files, and what is told of a pin that none has."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from packaging.specifiers import SpecifierSet

from xpubuild.errors import FetchError, SourceIntegrityError, XpuBuildError
from xpubuild.supply.index import pages
from xpubuild.supply.index.choice import offer
from xpubuild.supply.index.config import IndexConfig
from xpubuild.supply.index.files import stated
from xpubuild.supply.index.lacking import Prebuilt, first_lacking
from xpubuild.supply.index.missing import Need, nothing, other_hashes
from xpubuild.supply.index.pages import Sources, explain
from xpubuild.supply.index.session import IndexSession
from xpubuild.supply.index.wanted import wanted_files, with_sizes
from xpubuild.supply.requirements import HashedPin

ALONE = {"PIP_CONFIG_FILE": os.devnull, "HOME": "/nowhere"}
HASH = "1" * 64


def refuses(action: Callable[[], object]) -> None:
    with pytest.raises(XpuBuildError):
        action()


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "my wheels"
    folder.mkdir()
    for name in ("demo-1.0-py3-none-any.whl", "demo-1.0.tar.gz", "other-2.0-py3-none-any.whl", "readme.txt"):
        (folder / name).write_bytes(name.encode())
    (folder / "below").mkdir()
    page = '<a href="demo-3.0-py3-none-any.whl#sha256={}">x</a>'
    (folder / "links.HTM").write_text(page.format(HASH))
    (folder / "bad.html").write_bytes(b"x" * 40)
    return folder


def names(found: list[Any]) -> list[str]:
    return [item.filename for item in found]


def test_folders_files_and_pages_of_this_machine(tmp_path: Path, wheels: Path) -> None:
    index = tmp_path / "index"
    (index / "demo").mkdir(parents=True)
    (index / "demo" / "index.html").write_text('<a href="../../demo-9.0-py3-none-any.whl">x</a>')
    file = wheels / "demo-1.0.tar.gz"
    places = (
        str(wheels),
        file.as_uri(),
        "/no/such",
        "https://h.example/demo-4.0-py3-none-any.whl",
        "https://h.example/A.ZIP",
    )
    sources = Sources(IndexConfig((str(index), index.as_uri(), "/no/index"), find_links=places))
    assert names(sources.offers("Demo")) == [
        "demo-1.0-py3-none-any.whl", "demo-1.0.tar.gz", "demo-3.0-py3-none-any.whl", "demo-1.0.tar.gz",
        "demo-4.0-py3-none-any.whl", "demo-9.0-py3-none-any.whl", "demo-9.0-py3-none-any.whl",
    ]  # fmt: skip
    assert sources.failures == {
        "/no/such": "there is no such file or folder", "/no/index": "there is no such folder",
    }  # fmt: skip
    assert sources.looked()[2] == "/no/such (there is no such file or folder)"
    assert sources.looked()[0] == str(wheels)
    assert sources.offers("nothing") == []


def test_a_page_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.html"
    page.write_bytes(b"x" * 40)
    monkeypatch.setattr(pages, "MOST_PAGE_BYTES", 30)
    sources = Sources(IndexConfig((), find_links=(str(page),)))
    assert sources.offers("demo") == []
    assert sources.failures[str(page)].startswith("page.html: ")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (requests.exceptions.SSLError("x"), "its certificate is not trusted: x"),
        (requests.exceptions.ProxyError("x"), "the proxy rejected the connection: x"),
        (requests.exceptions.ReadTimeout("x"), "no answer in time: x"), (requests.exceptions.InvalidURL("x"),
         "InvalidURL: x"),
        (requests.exceptions.ConnectionError("<a b>: x"), "could not be reached: x"),
        (requests.exceptions.ConnectionError("HTTPConnection(host='h', port=1): x"),
         "could not be reached: x"),
        (requests.exceptions.ConnectionError(SimpleNamespace(reason="why")), "could not be reached: why"),
        (requests.exceptions.ConnectionError(), "could not be reached: "),
    ],
    ids=range(8),
)  # fmt: skip
def test_why_a_server_did_not_answer(error: requests.RequestException, said: str) -> None:
    assert explain(error) == said


class _Answer:
    """What a server says, in memory."""

    def __init__(self, status: int, text: str = "", kind: str = "text/html") -> None:
        self.status_code, self.reason, self.ok = status, "Because", status < 400
        self.headers: Mapping[str, str] = {"content-type": kind}
        self.text, self.content, self.url = text, text.encode(), "https://a.example/demo/"
        self.encoding = "utf-8"
        self.history: list[Any] = []

    def json(self) -> Any:
        return json.loads(self.text)


def asked(
    monkeypatch: pytest.MonkeyPatch, answers: Iterator[Any], config: IndexConfig
) -> tuple[Sources, list[Any]]:
    calls: list[Any] = []

    def page(_: IndexSession, url: str, headers: Mapping[str, str]) -> Any:
        calls.append((url, dict(headers)))
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(IndexSession, "page", page)
    return Sources(config), calls


def test_pages_of_an_index(monkeypatch: pytest.MonkeyPatch) -> None:
    config = IndexConfig(("https://a.example/simple/", "http://plain.example"))
    page = _Answer(200, '<a href="demo-1.0-py3-none-any.whl">x</a>')
    answers = iter([page, _Answer(404), _Answer(410), _Answer(503), _Answer(200, "{",
    "application/vnd.pypi.simple.v1+json"),
                    _Answer(200, "x", "image/png")])  # fmt: skip
    sources, calls = asked(monkeypatch, answers, config)
    assert names(sources.offers("my.demo")) == ["demo-1.0-py3-none-any.whl"]
    assert names(sources.offers("demo")) == []
    for name in ("a", "b", "c", "d"):
        assert sources.offers(name) == []
    assert calls[0] == ("https://a.example/simple/my-demo/", {
        "Accept": "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.1, "
        "text/html;q=0.01",
    })  # fmt: skip
    assert len(calls) == 6
    assert sources.failures["http://plain.example"] == (
        "pip accepts plain http only from this machine or a trusted-host"
    )
    assert sources.failures["https://a.example/simple/"] == "answered 503 Because"


def test_an_index_that_is_dead_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    config = IndexConfig(("https://a.example/one", "https://a.example/two"))
    sources, calls = asked(monkeypatch, iter([requests.exceptions.ConnectionError("x")] * 9), config)
    sources.load(["a", "b", "c", "a"])
    assert 1 <= len(calls) <= 2
    assert set(sources.failures.values()) == {"could not be reached: x"}
    sources.load(["d"])
    assert 1 <= len(calls) <= 2


PIN = HashedPin("demo", "1.0", SpecifierSet("==1.0"), None, frozenset({HASH}))
OTHERS = [
    offer(f"https://a/demo-1.0-cp3{minor}-{abi}-manylinux_2_17_{machine}.whl", sha256=sha256)
    for minor, abi, machine, sha256 in (
        (10, "cp310", "x86_64", HASH), (9, "cp39", "x86_64", None), (12, "abi3", "x86_64", HASH),
        (13, "cp313", "aarch64", HASH), (14, "cp314", "x86_64", "2" * 64),
    )
]  # fmt: skip


class _Places:
    def __init__(self, looked: list[str], failures: dict[str, str], offers: list[Any]) -> None:
        self._looked, self.failures, self._offers = looked, failures, offers

    def looked(self) -> list[str]:
        return self._looked

    def offers(self, _: str) -> list[Any]:
        return self._offers


@pytest.mark.parametrize(
    "places",
    [
        [], [_Places(["https://a (dead)"], {"https://a": "dead"}, [])], [_Places(["/w", "https://a"], {},
         OTHERS)],
        [_Places([], {}, OTHERS[:1]), _Places(["https://b"], {"https://b": "x"}, OTHERS[1:2])],
    ],
    ids=range(4),
)  # fmt: skip
@pytest.mark.parametrize("python", ["3.11", "3.13.1t"])
def test_a_pin_that_no_place_has(places: list[Any], python: str) -> None:
    need = Need(PIN, python, "x86_64")
    with pytest.raises(FetchError):
        raise nothing(need.text, need, places)
    with pytest.raises(SourceIntegrityError):
        raise other_hashes(need, [item for item in OTHERS if item], places)


@pytest.mark.parametrize("sdists", [True, False])
def test_files_of_folders_for_a_pin(tmp_path: Path, wheels: Path, *, sdists: bool) -> None:
    (wheels / "only-1.0.tar.gz").write_bytes(b"x")
    digest, size = stated(wheels / "only-1.0.tar.gz")
    config = IndexConfig((), find_links=(str(wheels), "/no/such"))
    asked_for = [(f"only==1.0 --hash=sha256:{digest}\n", ())]
    said: list[str] = []
    if sdists:
        (file,) = wanted_files(asked_for, ["3.11"], config, on_warning=said.append)
        assert (file.filename, file.sha256, file.size) == ("only-1.0.tar.gz", digest, size)
        assert said == ["/no/such is skipped: there is no such file or folder"]
        assert with_sizes([file], config) == [file]
    else:
        refuses(lambda: wanted_files(asked_for, ["3.11"], config, sdists=False))
    refuses(lambda: wanted_files([(f"demo==1.0 --hash=sha256:{HASH}\n", ())], ["3.11"], config))
    refuses(lambda: wanted_files([("demo==1.0\n", ())], ["3.11"], config))
    assert wanted_files(asked_for, ["3.11"], config, only="other") == []


def test_the_first_prebuilt_wheel_that_is_lacking(wheels: Path) -> None:
    digest, _ = stated(wheels / "demo-1.0-py3-none-any.whl")
    config = IndexConfig((), find_links=(str(wheels),), timeout_s=9, retries=3)
    here = Prebuilt("demo", "1.0", text=f"demo==1.0 --hash=sha256:{digest}\n")
    assert first_lacking([here], "3.11", config) is None
    for gone in (
        Prebuilt("demo", "1.0", text=f"demo==1.0 --hash=sha256:{HASH}\n"),
        Prebuilt("x", "1", ("/no/such",)),
    ):
        error = first_lacking([here, gone], "3.11", config, hasty=True)
        assert error is not None
        with pytest.raises(XpuBuildError):
            raise error
