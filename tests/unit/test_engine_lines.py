"""From bytes to lines: cuts, encodings, secrets, wherever the reads happen to end."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xpubuild.engine.lines import LineReader
from xpubuild.engine.redact import Redactor


def read(*chunks: bytes, redact: Redactor | None = None) -> list[str]:
    heard: list[str] = []
    log = io.BytesIO()
    reader = LineReader(log, heard.append, redact or Redactor())
    for chunk in chunks:
        reader.feed(chunk)
    reader.finish()
    assert log.getvalue().decode("utf-8") == "".join(f"{line}\n" for line in heard)
    assert list(reader.tail) == heard[-200:]
    return heard


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"one\ntwo\n", ["one", "two"]),
        (b"one\ntwo", ["one", "two"]),
        (b"one\r\ntwo\r\n", ["one", "two"]),
        (b" 1%\r 2%\r 3%\n", [" 1%", " 2%", " 3%"]),
        (b"\n\n", ["", ""]),
        (b"", []),
        ("gr\u00fcn \u6f22\n".encode(), ["gr\u00fcn \u6f22"]),
        (b"bad \xff\xfe byte\n", ["bad \ufffd\ufffd byte"]),
        (b"cut \xe6\xbc", ["cut \ufffd"]),
        (b"\x00nul\n", ["\x00nul"]),
    ],
)
def test_lines(data: bytes, wanted: list[str]) -> None:
    assert read(data) == wanted


pieces = st.lists(
    st.sampled_from([b"a", b"\r", b"\n", b"\r\n", "\u00e9".encode(), "\u6f22".encode(), b"\xff", b"\xe6"]),
    max_size=30,
)


@settings(max_examples=500, deadline=None)
@given(pieces, st.data())
def test_where_a_read_ends_changes_nothing(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert read(*chunks) == read(whole)


def test_a_line_without_end_is_passed_on_in_pieces() -> None:
    heard: list[str] = []
    reader = LineReader(None, heard.append, Redactor())
    for _ in range(160):
        reader.feed(b"x" * 65536)
    assert heard, "nothing was told of 10 MB"
    reader.finish()
    assert "".join(heard) == "x" * (160 * 65536)
    assert max(map(len, heard)) < 200_000


@pytest.mark.parametrize("before", [60, 61440, 65530, 131072])
@pytest.mark.parametrize("chunk", [4096, 65536])
def test_no_cut_goes_through_a_secret(before: int, chunk: int) -> None:
    secret = "s3cr3t-0123456789-t0ken"
    data = b"x" * before + f" https://user:{secret}@host/ {secret} ".encode() + b"y" * 200_000
    heard = read(
        *(data[at : at + chunk] for at in range(0, len(data), chunk)),
        redact=Redactor([secret]),
    )
    text = "".join(heard)
    assert text == "x" * before + " https://****@host/ **** " + "y" * 200_000
    assert len(heard) > 1


def test_counted_bytes_reach_the_listener_and_not_the_log() -> None:
    heard: list[str] = []
    log = io.BytesIO()
    reader = LineReader(log, heard.append, Redactor())
    reader.feed(b"Downloading torch\nProgress 12 of 345\nProgress 345 of 345\nProgress is good\n")
    assert heard == ["Downloading torch", "Progress 12 of 345", "Progress 345 of 345", "Progress is good"]
    assert log.getvalue() == b"Downloading torch\nProgress is good\n"
    assert list(reader.tail) == ["Downloading torch", "Progress is good"]
