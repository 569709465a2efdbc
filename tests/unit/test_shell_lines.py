"""Assignments as shell text: real shells evaluate them to the same bytes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from xpubuild.machine.shell_lines import bash_lines, csh_lines, fish_lines

# Any bytes an environment can hold, as Python sees them; what is special to shells more often than not.
_SPECIAL = st.text(st.sampled_from("'\"\\$`!\n\t \r;&|<>(){}[]*?~#=%é\udce9"), max_size=12)
_BYTES = st.binary(max_size=12).map(lambda data: data.replace(b"\0", b"").decode("utf-8", "surrogateescape"))
_NAME = st.from_regex(r"XT_[A-Z]{1,3}[0-9a-z_]?", fullmatch=True)
_ASSIGNMENTS = st.dictionaries(_NAME, st.one_of(st.none(), _SPECIAL, _BYTES), max_size=6)
_BEFORE = {"PATH": os.environ["PATH"], "HOME": "/", "XT_A": "old", "XT_B": "old"}


def evaluated(argv: list[str], text: str) -> dict[str, str]:
    """Hand the text to a shell and return the environment that a child of it gets."""
    given_ = text.encode("utf-8", "surrogateescape") + b"\ncommand env -0\n"
    result = subprocess.run(argv, input=given_, capture_output=True, check=True, env=_BEFORE)
    assert result.stderr == b""
    records = result.stdout.decode("utf-8", "surrogateescape").split("\0")
    return dict(record.split("=", 1) for record in records if "=" in record)


@pytest.mark.parametrize(
    "argv",
    [
        ["bash", "--noprofile", "--norc"],
        ["sh"],
        pytest.param(["zsh", "-f"], marks=pytest.mark.needs("zsh")),
        pytest.param(["fish", "--no-config"], marks=pytest.mark.needs("fish")),
    ],
)
@settings(max_examples=30, deadline=None)
@given(_ASSIGNMENTS)
@example({"XT_A": "it's\n\\'$(touch /nowhere)`x`\"!\n", "XT_B": None, "XT_C": "caf\udce9"})
@example({"XT_A": "=%", "XT_B": "=ls", "XT_C": "a:=b"})
def test_values_survive_the_shell(argv: list[str], assignments: Mapping[str, str | None]) -> None:
    lines = fish_lines if argv[0] == "fish" else bash_lines
    seen = {n: v for n, v in evaluated(argv, lines(assignments)).items() if n.startswith("XT_")}
    merged = {"XT_A": "old", "XT_B": "old", **assignments}
    assert seen == {name: value for name, value in merged.items() if value is not None}


@pytest.mark.needs("fish")
def test_fish_search_paths_stay_whole() -> None:
    paths = {"PATH": f"/one é/bin:/it's:{os.environ['PATH']}", "LD_LIBRARY_PATH": "/a b:/c", "MANPATH": "/m:"}
    seen = evaluated(["fish", "--no-config"], fish_lines(paths))
    assert {name: seen[name] for name in paths} == paths


def test_csh() -> None:
    assert csh_lines({"B": "it's!\n", "A": None, "PATH": "/a b:/c"}) == (
        "unsetenv A;\nsetenv B 'it'\\''s\\!\\\n';\nsetenv PATH '/a b:/c';\n"
    )


@pytest.mark.parametrize("lines", [bash_lines, csh_lines, fish_lines])
def test_what_a_shell_does_not_take(lines: object) -> None:
    assert callable(lines)
    for name in ("", "1A", "A-B", "A B", "BASH_FUNC_f%%", "A\n", "é"):
        with pytest.raises(ValueError, match="cannot be a shell variable"):
            lines({name: "x"})
    with pytest.raises(ValueError, match="NUL"):
        lines({"A": "\0"})
