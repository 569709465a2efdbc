"""What a command prints: order, lines, secrets, full disks; and what it cost."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from support.engine import MARK, PATH, new_mark, nothing_left

from xpubuild.engine.process import ProcessResult, run
from xpubuild.errors import NoSpaceError

BASE = {"PATH": PATH}
TALKATIVE = """
echo "env $HF_TOKEN"
echo "url https://bot:urlsecret@host/x" >&2
env | grep -i -e proxy -e token
echo '> Authorization: Bearer headersecret'
echo proxy said pr0xypass
"""


#: Also after errors.
pytestmark = pytest.mark.usefixtures("nothing_stays_open")


def python(*arguments: str, **options: Any) -> ProcessResult:
    return run([sys.executable, "-c", *arguments], env=BASE, **options)


def shell(text: str, **options: Any) -> ProcessResult:
    return run(["sh", "-c", text], env=BASE, **options)


def test_both_streams_are_merged_in_order() -> None:
    text = "import os\nfor n in range(300): os.write(1 + n % 2, b'%d\\n' % n)"
    lines: list[str] = []
    assert python(text, on_line=lines.append).ok
    assert lines == [str(number) for number in range(300)]


def test_lines_and_carriage_returns_as_they_come(tmp_path: Path) -> None:
    log = tmp_path / "l\u00f6g"
    with log.open("wb") as stream:
        result = python(
            "import sys, time\n"
            "for part in (b' 1%\\r', b' 2%\\r', b'\\ndone\\r', b'\\nbad \\xff', b' end'):\n"
            "    sys.stdout.buffer.write(part); sys.stdout.flush(); time.sleep(0.05)",
            log=stream,
        )
    wanted = (" 1%", " 2%", "done", "bad \ufffd end")
    assert result.tail == wanted
    assert log.read_text("utf-8").splitlines() == list(wanted)


def test_a_command_that_closes_its_output_is_waited_for(tmp_path: Path) -> None:
    result = shell(f"exec >&- 2>&-; sleep 0.3; echo x > '{tmp_path}/done'; exit 3")
    assert result.returncode == 3
    assert (tmp_path / "done").exists()


def test_secrets_reach_neither_log_nor_listener(tmp_path: Path) -> None:
    env = {**BASE, "HF_TOKEN": "hf_0123456789", "HTTPS_PROXY": "http://me:pr0xypass@proxy:1"}
    lines: list[str] = []
    with (tmp_path / "log").open("wb") as stream:
        result = run(
            ["sh", "-c", TALKATIVE],
            env=env,
            log=stream,
            on_line=lines.append,
        )
    written = (tmp_path / "log").read_text()
    for secret in ("hf_0123456789", "pr0xypass", "urlsecret", "headersecret"):
        assert secret not in written
        assert secret not in "".join((*lines, *result.tail))
    assert written.splitlines() == lines == list(result.tail)
    assert "env ****" in lines
    assert "url https://****@host/x" in lines
    assert "> Authorization: Bearer ****" in lines


def test_a_full_device_behind_the_log() -> None:
    mark = new_mark()
    with (
        Path("/dev/full").open("wb", buffering=0) as stream,
        nothing_left(mark),
        pytest.raises(NoSpaceError, match="writing a log"),
    ):
        run(["sh", "-c", "echo x; sleep 300 & sleep 300"], env={**BASE, MARK: mark}, log=stream)


def test_memory_of_a_tree_is_added_up() -> None:
    result = python(
        "import os, time\nfor _ in range(2): os.fork()\ndata = b'x' * 60_000_000\ntime.sleep(2.5)\n"
    )
    assert result.max_rss_bytes < 150_000_000
    assert 240_000_000 < result.peak_tree_bytes < 600_000_000


def test_time_is_counted_for_the_whole_tree(tmp_path: Path) -> None:
    """Also for what left the command's session: it is reaped by the supervisor."""
    burn = "import time\nwhile time.process_time() < 0.5: pass"
    result = shell(
        f"setsid -f sh -c '{sys.executable} -c \"{burn}\"; touch {tmp_path}/done';"
        f"while [ ! -e {tmp_path}/done ]; do sleep 0.05; done"
    )
    assert result.ok
    assert 0.4 < result.user_s + result.system_s < 10
    assert result.duration_s > 0.4
