from __future__ import annotations

import io

import pytest

from xpubuild.ui.terminal import Terminal, clean, one_line


class FakeTerminal(io.StringIO):
    """A stream that says it is a terminal of some encoding."""

    def __init__(self, encoding: str = "utf-8", terminal: bool = True) -> None:
        super().__init__()
        self._encoding, self._terminal = encoding, terminal

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("env", "terminal", "live", "color"),
    [
        ({"TERM": "xterm"}, True, True, True),
        ({"TERM": "xterm"}, False, False, False),
        ({"TERM": "dumb"}, True, False, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True, False, False),
        ({}, True, False, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, True, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True, True),
        ({"TERM": "xterm", "NO_COLOR": "1", "FORCE_COLOR": "1"}, True, True, False),
        ({"FORCE_COLOR": "1"}, False, False, True),
        ({"FORCE_COLOR": "0"}, False, False, False),
    ],
)
def test_what_a_stream_can_show(env: dict[str, str], terminal: bool, live: bool, color: bool) -> None:
    found = Terminal.detect(FakeTerminal(terminal=terminal), env)
    assert (found.live, found.color) == (live, color)


@pytest.mark.parametrize(
    ("encoding", "env", "unicode"),
    [
        ("utf-8", {"LANG": "de_DE.UTF-8"}, True),
        ("utf-8", {}, True),
        ("utf-8", {"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, False),
        ("utf-8", {"LC_CTYPE": "C.UTF-8", "LANG": "C"}, True),
        ("utf-8", {"LC_ALL": "", "LANG": "POSIX"}, False),
        ("iso-8859-1", {"LANG": "de_DE.UTF-8"}, False),
        ("ascii", {}, False),
        ("utf-8", {"TERM": "linux", "LANG": "C.UTF-8"}, False),
    ],
)
def test_characters_beyond_ascii(encoding: str, env: dict[str, str], unicode: bool) -> None:
    assert Terminal.detect(FakeTerminal(encoding), env).unicode is unicode


def test_foreign_text_is_cleaned() -> None:
    text = "\x1b[31mred\x1b[0m \x1b]0;title\x07a\tb\x08\x1b(B\r\nnext\x1b[2K\rlast\x9b"
    assert clean(text) == "red a    b\nnext\nlast"
    assert one_line("a\nb\r\nc") == "a b c"
