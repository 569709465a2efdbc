"""The bytes of one file, answer by answer: what is asked next, what is kept, what is told."""

from __future__ import annotations

import fcntl
import io
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
import urllib3
from support.indexes import sha256

from xpubuild.engine.watch import Cancel
from xpubuild.errors import SourceIntegrityError, XpuBuildError
from xpubuild.supply.index import download
from xpubuild.supply.index.download import _part_of, _Transfer
from xpubuild.supply.index.files import RemoteFile
from xpubuild.supply.index.session import in_threads

DATA = b"0123456789"
URL = "https://me:secret-word@a.example/files/x.whl"


class Answer:
    """What a server sends: a piece that is an exception is raised."""

    def __init__(self, *pieces: Any, status: int = 200, length: str | None = None, begins: str = "") -> None:
        self.pieces, self.status_code, self.reason = pieces, status, "Because"
        self.ok = status < 400
        self.headers = {"Content-Length": length} if length is not None else {}
        self.headers |= {"Content-Range": begins} if begins else {}
        self.raw = SimpleNamespace(stream=self.stream)

    def stream(self, size: int, *, decode_content: bool) -> Iterator[bytes]:
        assert (size, decode_content) == (1 << 16, False)
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Session:
    """A server, in memory."""

    def __init__(self, *answers: Any) -> None:
        self.retries = 1
        self.answers, self.asked = iter(answers), list[dict[str, str]]()

    def ask(self, url: str, *, headers: dict[str, str]) -> Answer:
        assert (url, headers.pop("Accept-Encoding")) == (URL, "identity")
        self.asked.append(headers)
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Answer)
        return answer


def moved(session: Session, *, before: bytes = b"", told: list[int] | None = None, **more: Any) -> bytes:
    given: dict[str, Any] = {"sha256": sha256(DATA), "size": len(DATA), **more}
    file = RemoteFile(
        "x", "1", "x.whl", given["sha256"], given["size"], "https://a.example/files/x.whl", origin=URL
    )
    stream = io.BytesIO(before)
    seen = told if told is not None else []
    _Transfer(file, stream, session, seen.append, given.get("cancel")).run()  # type: ignore[arg-type]
    return stream.getvalue()


CUT = urllib3.exceptions.ProtocolError("cut")
NOTHING = [Answer(CUT, status=206, begins="bytes 2-9/10")] * 3
EMPTY = [Answer(status=206, begins="bytes 2-9/10", length="7")] * 3


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr(download, "time", SimpleNamespace(sleep=slept.append))
    return slept


@pytest.mark.parametrize(
    ("answers", "before", "asked"),
    [
        ([Answer(DATA[:4], DATA[4:])], b"", [{}]), ([Answer(DATA, length="10")], b"", [{}]), ([], DATA, []),
        ([Answer(DATA[4:], status=206, begins="bytes 4-9/10")], DATA[:4], [{"Range": "bytes=4-"}]),
        ([Answer(DATA)], DATA[:4], [{"Range": "bytes=4-"}]),
        ([Answer(DATA, status=206, begins="bytes 3-9/10")], DATA[:4], [{"Range": "bytes=4-"}]),
        ([Answer(DATA, begins="bytes 4-9/10")], DATA[:4], [{"Range": "bytes=4-"}]),
        ([Answer(status=416), Answer(DATA)], b"0123", [{"Range": "bytes=4-"}, {}]),
        ([Answer(DATA)], DATA + b"more", [{}]), ([Answer(DATA)], b"9" * 10, [{}]),
        ([Answer(DATA[4:], status=206, begins="bytes 4-9/10"), Answer(DATA)], b"9999",
         [{"Range": "bytes=4-"}, {}]),
        ([Answer(DATA[:4], CUT), Answer(DATA[4:], status=206, begins="bytes 4-9/10")], b"", [{},
         {"Range": "bytes=4-"}]),
        ([Answer(DATA[:4], length="10"), Answer(DATA[4:], status=206, begins="bytes 4-9/10")], b"",
         [{}, {"Range": "bytes=4-"}]),
        ([Answer(CUT), Answer(DATA)], b"", [{}, {}]), ([Answer(ConnectionResetError()), Answer(DATA)], b"",
         [{}, {}]),
    ],
    ids=range(15),
)  # fmt: skip
def test_a_file_arrives_whole(answers: list[Answer], before: bytes, asked: list[dict[str, str]]) -> None:
    session = Session(*answers)
    told: list[int] = []
    assert moved(session, before=before, told=told) == DATA
    assert session.asked == asked
    assert told[-1] == 10


@pytest.mark.parametrize(
    ("answers", "more", "why"),
    [
        ([Answer(status=404)], {}, "answered 404 Because"),
        ([Answer(status=416)], {}, "answered 416 Because"),
        ([requests.exceptions.ConnectionError(URL)], {}, "could not be reached: https://****@a.example"),
        ([Answer(CUT)] * 3, {}, "the connection was cut 2 times at 0 bytes: cut"),
        ([Answer(b"01", CUT), *NOTHING[:2]], {}, "the connection was cut 2 times at 2 bytes: cut"),
        ([Answer(b"01"), *EMPTY[:2]], {}, "was cut 2 times at 2 bytes: 2 of 9 bytes were received"),
        ([Answer(b"01", length="9"), *EMPTY], {"size": None}, "at 2 bytes: 2 of 9 bytes were received"),
        ([Answer(status=416), Answer(CUT), Answer(CUT)], {"before": b"0"}, "cut 2 times at 0 bytes: cut"),
        ([Answer(b"wrong data")], {}, "gave 10 bytes"), ([Answer(b"0" * 11, b"more")], {}, "gave 11 bytes"),
        ([Answer(b"x")], {"size": None}, "gave 1 bytes"),
    ],
    ids=range(11),
)  # fmt: skip
def test_one_that_does_not(answers: list[Any], more: dict[str, Any], why: str) -> None:
    with pytest.raises(XpuBuildError) as caught:
        moved(Session(*answers), **more)
    assert why in caught.value.why
    assert "secret-word" not in str(caught.value.to_json())


def test_tries_that_bring_something_are_not_counted(waits: list[float]) -> None:
    rest = [Answer(DATA[at : at + 2], CUT, status=206, begins=f"bytes {at}-9/10") for at in (2, 4, 6)]
    cut, last = (Answer(*pieces, status=206, begins="bytes 8-") for pieces in ((CUT,), (DATA[8:],)))
    session = Session(Answer(DATA[:2], CUT), *rest, cut, last)
    assert moved(session) == DATA
    assert waits == [0.0, 0.0, 0.0, 0.0, 0.25]


def test_the_wait_grows_to_a_limit(waits: list[float]) -> None:
    session = Session(*[Answer(CUT)] * 7)
    session.retries = 6
    with pytest.raises(XpuBuildError):
        moved(session)
    assert waits == [0.25, 0.75, 1.75, 3.75, 4.0, 4.0]


def test_other_failures_of_the_machine_are_no_cut() -> None:
    with pytest.raises(OSError, match="full"):
        moved(Session(Answer(OSError(28, "full"))))


def test_without_a_hash_anything_is_right() -> None:
    assert moved(Session(Answer(b"any")), sha256=None, size=None) == b"any"


def test_one_that_is_stopped_keeps_what_came() -> None:
    cancel = Cancel()
    cancel.set("asked for")
    with pytest.raises(XpuBuildError):
        moved(Session(Answer(DATA)), cancel=cancel)
    with pytest.raises(XpuBuildError):
        in_threads(lambda item: item, [1, 2], cancel)


def test_items_in_threads_come_back_in_their_order() -> None:
    assert in_threads(lambda item: item * 2, range(20)) == [item * 2 for item in range(20)]
    assert in_threads(lambda item: item, []) == []
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda item: 1 // item, [1, 0, 2])


def test_the_part_of_a_download(tmp_path: Path) -> None:
    file = RemoteFile("x", "1", "x.whl", sha256(DATA), None, "https://a.example/x.whl")
    with _part_of(tmp_path, file) as (path, stream):
        assert path == tmp_path / f".x.whl.{sha256(DATA)[:12]}.part"
        stream.write(b"some")
        with _part_of(tmp_path, file) as (other, _):
            assert other != path, "one that is being written is not shared"
            other.unlink()
    with _part_of(tmp_path, file) as (again, stream):
        assert stream.read() == b"some"
        with again.open("rb") as held, pytest.raises(BlockingIOError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with pytest.raises(KeyError), _part_of(tmp_path, file):
        raise KeyError
    assert path.exists()
    with pytest.raises(SourceIntegrityError), _part_of(tmp_path, file):
        raise SourceIntegrityError("wrong")
    assert list(tmp_path.iterdir()) == []
    plain = RemoteFile("x", "1", "x.whl", None, None, "https://a.example/x.whl")
    for error in (KeyError(), SourceIntegrityError("wrong")):
        with pytest.raises(type(error)), _part_of(tmp_path, plain):
            raise error
    assert list(tmp_path.iterdir()) == []


def test_a_part_that_another_process_finished_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RemoteFile("x", "1", "x.whl", sha256(DATA), None, "https://a.example/x.whl")
    place = tmp_path / f".x.whl.{sha256(DATA)[:12]}.part"
    for replace in (False, True):

        def lock(*_: object, replace: bool = replace) -> None:
            place.unlink()
            if replace:
                place.write_bytes(b"of the other")

        monkeypatch.setattr("xpubuild.supply.index.download.fcntl.flock", lock)
        with _part_of(tmp_path, file) as (path, _stream):
            assert path != place
            os.unlink(path)  # noqa: PTH108
        place.unlink(missing_ok=True)
