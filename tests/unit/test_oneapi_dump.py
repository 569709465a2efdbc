"""The list that capture.sh writes: whole, cut off at any byte, or something else."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from xpubuild.machine.oneapi_dump import parse_dump

WHOLE = (
    b"#xpubuild-capture 1\0#before\0PATH=/bin\0A=1\0#source /one api/vars.sh\0#status 0\0"
    b"#source /two.sh\0#status 250\0#after\0PATH=/one:/bin\0TEXT=a\n#complete\nb=c\0LATIN=caf\xe9\0"
    b"#complete\0"
)


def test_a_whole_list() -> None:
    dump = parse_dump(WHOLE)
    assert dump.complete
    assert dump.before == {"PATH": "/bin", "A": "1"}
    assert dump.after["PATH"] == "/one:/bin"
    assert dump.after["TEXT"] == "a\n#complete\nb=c"
    assert os.fsencode(dump.after["LATIN"]) == b"caf\xe9"
    assert dump.sources == ["/one api/vars.sh", "/two.sh"]
    assert dump.statuses == [0, 250]
    assert dump.unfinished is None


@given(st.integers(0, len(WHOLE) - 1))
def test_a_list_that_was_cut_off_is_never_complete(length: int) -> None:
    assert not parse_dump(WHOLE[:length]).complete


def test_the_script_that_never_came_back_is_known() -> None:
    cut = WHOLE[: WHOLE.index(b"#status 250")]
    assert parse_dump(cut).unfinished == "/two.sh"


def test_records_after_the_end_spoil_it() -> None:
    assert not parse_dump(WHOLE + b"A=2\0").complete


@given(st.binary(max_size=60))
def test_anything_else_is_no_list(data: bytes) -> None:
    dump = parse_dump(data)
    assert not dump.complete
    assert not dump.after
