"""What ``bash_lines`` and ``fish_lines`` write comes out of the real shells byte for byte."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from xpubuild.machine.oneapi_shell import bash_lines, fish_lines

# Any bytes an environment can hold, as Python sees them; what is special to shells more often than not.
_SPECIAL = st.text(st.sampled_from("'\"\\$`!\n\t \r;&|<>(){}[]*?~#=%é\udce9"), max_size=12)
_VALUE = st.one_of(
    _SPECIAL,
    st.binary(max_size=12).map(lambda data: data.replace(b"\0", b"").decode("utf-8", "surrogateescape")),
)
_NAME = st.from_regex(r"XT_[A-Z]{1,3}[0-9a-z_]?", fullmatch=True)
_ASSIGNMENTS = st.dictionaries(_NAME, st.one_of(st.none(), _VALUE), max_size=6)
_BEFORE = {"PATH": os.environ["PATH"], "HOME": "/", "XT_A": "old", "XT_B": "old"}


def evaluated(argv: list[str], text: str) -> dict[str, str]:
    """Hand the text to a shell and return the environment that a child of it gets."""
    result = subprocess.run(
        [*argv],
        input=text.encode("utf-8", "surrogateescape") + b"\ncommand env -0\n",
        capture_output=True,
        check=True,
        env=_BEFORE,
    )
    assert result.stderr == b""
    records = result.stdout.decode("utf-8", "surrogateescape").split("\0")
    return dict(record.split("=", 1) for record in records if record.startswith("XT_"))


def expected(assignments: Mapping[str, str | None]) -> dict[str, str]:
    merged = {**{k: v for k, v in _BEFORE.items() if k.startswith("XT_")}, **assignments}
    return {name: value for name, value in merged.items() if value is not None}


def check(
    argv: list[str], lines: Callable[[Mapping[str, str | None]], str], given_: Mapping[str, str | None]
) -> None:
    assert evaluated(argv, lines(given_)) == expected(given_)


@settings(max_examples=120, deadline=None)
@given(_ASSIGNMENTS)
@example({"XT_A": "it's\n\\'$(touch /nowhere)`x`\"!\n", "XT_B": None, "XT_C": "caf\udce9"})
def test_bash_round_trip(assignments: dict[str, str | None]) -> None:
    check(["bash", "--noprofile", "--norc"], bash_lines, assignments)


@settings(max_examples=40, deadline=None)
@given(_ASSIGNMENTS)
def test_posix_shell_round_trip(assignments: dict[str, str | None]) -> None:
    check(["sh"], bash_lines, assignments)


@pytest.mark.needs("zsh")
@settings(max_examples=40, deadline=None)
@given(_ASSIGNMENTS)
@example({"XT_A": "=%", "XT_B": "=ls", "XT_C": "a:=b"})
def test_zsh_round_trip(assignments: dict[str, str | None]) -> None:
    check(["zsh", "-f"], bash_lines, assignments)


@pytest.mark.needs("fish")
@settings(max_examples=40, deadline=None)
@given(_ASSIGNMENTS)
@example({"XT_A": "it's\n\\'$(touch /nowhere)\\\\", "XT_B": None, "XT_C": "caf\udce9"})
def test_fish_round_trip(assignments: dict[str, str | None]) -> None:
    check(["fish", "--no-config"], fish_lines, assignments)


@pytest.mark.needs("fish")
def test_fish_search_paths_stay_whole() -> None:
    paths = {"PATH": f"/one é/bin:/it's:{os.environ['PATH']}", "LD_LIBRARY_PATH": "/a b:/c", "MANPATH": "/m:"}
    text = fish_lines(paths) + "command env -0\n"
    result = subprocess.run(
        ["fish", "--no-config"], input=text.encode(), capture_output=True, check=True, env=_BEFORE
    )
    seen = dict(record.split("=", 1) for record in result.stdout.decode().split("\0") if "=" in record)
    assert {name: seen[name] for name in paths} == paths
