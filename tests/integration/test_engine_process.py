"""Commands: arguments, environment, what they inherit, how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.engine import MARK, PATH, new_mark, nothing_left

from xpubuild.engine import process
from xpubuild.engine.process import LOOPBACK, ProcessResult, query, run
from xpubuild.errors import NoSpaceError, ToolchainError

BASE = {"PATH": PATH}


#: Also after errors.
pytestmark = pytest.mark.usefixtures("nothing_stays_open")


def python(*arguments: str, **options: Any) -> ProcessResult:
    return run([sys.executable, "-c", *arguments], env=BASE, **options)


def shell(text: str, **options: Any) -> ProcessResult:
    return run(["sh", "-c", text], env=BASE, **options)


def test_arguments_arrive_byte_by_byte(tmp_path: Path) -> None:
    words = [
        "",
        "a b",
        "gr\u00fcn \u6f22",
        "'\"$HOME`x`\\",
        "*",
        "-n",
        "--",
        "new\nline",
        os.fsdecode(b"\xff\xfe"),
    ]
    result = python("import os, sys; print([os.fsencode(word).hex() for word in sys.argv[1:]])", *words)
    assert result.ok
    assert result.tail == (str([os.fsencode(word).hex() for word in words]),)


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {
            "EMPTY": "",
            "SPACE D": "a b",
            "GR\u00dcN": "\u6f22",
            "LINES": "a\nb",
            "EQ": "a=b=c",
            "BYTES": "\udcff",
        },
        {
            "PYTHONHOME": "/nowhere",
            "PYTHONPATH": "/nowhere",
            "PYTHONSTARTUP": "x",
            "LD_LIBRARY_PATH": "/nowhere",
        },
    ],
)
def test_the_environment_is_exactly_the_one_given(
    wanted: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAKY", "yes")
    raw: list[str] = []
    result = run(["/usr/bin/env", "-0"], env=wanted, on_line=raw.append)
    assert result.ok
    found = dict(entry.split("=", 1) for entry in "\n".join(raw).split("\0") if entry)
    assert {name: os.fsencode(value).decode("utf-8", "replace") for name, value in wanted.items()} == found


def test_signals_start_as_in_a_fresh_shell() -> None:
    def masks(text: str) -> dict[str, int]:
        fields = (line.split(":\t") for line in text.splitlines() if line.startswith(("SigBlk", "SigIgn")))
        return {name: int(value, 16) for name, value in fields}

    ours = masks(Path("/proc/self/status").read_text())["SigIgn"]
    theirs = masks("\n".join(shell("grep -e ^SigBlk -e ^SigIgn /proc/self/status").tail))
    assert theirs["SigBlk"] == 0
    # Python ignores SIGPIPE and SIGXFSZ; a shell ignores SIGINT for what it runs in the background.
    reset = (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ)
    for number in reset:
        ours &= ~(1 << (number - 1))
    assert theirs["SigIgn"] == ours


def test_standard_input_is_empty_and_there_is_no_terminal() -> None:
    result = python(
        "import os, sys; print(repr(sys.stdin.read()), os.getsid(0) == int(sys.argv[1]), flush=True);"
        "os.open('/dev/tty', os.O_RDWR)",
        str(os.getsid(0)),
    )
    assert result.tail[0] == "'' False"
    assert "No such device" in result.tail[-1]


def test_a_command_sees_no_descriptor_but_its_own() -> None:
    result = shell("ls /proc/self/fd", cwd=Path("/"))
    assert result.tail == ("0", "1", "2", "3")  # 3 is the folder that ls reads


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        ("exit 0", 0, "exited with code 0"),
        ("exit 7", 7, "exited with code 7"),
        ("exit 255", 255, "exited with code 255"),
        ("kill -SEGV $$", -signal.SIGSEGV, "was killed by SIGSEGV"),
        ("kill -INT $$", -signal.SIGINT, "was killed by SIGINT"),
        ("kill -PIPE $$", -signal.SIGPIPE, "was killed by SIGPIPE"),
    ],
)
def test_how_it_ended(text: str, status: int, words: str) -> None:
    result = shell(text)
    assert (result.returncode, result.describe(), result.ok) == (status, words, status == 0)


def test_a_missing_program(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="'no-such-program' was not found") as caught:
        run(["no-such-program"], env=BASE)
    assert caught.value.evidence["PATH"] == PATH
    with pytest.raises(ToolchainError, match="was not found"):
        run([str(tmp_path / "missing")], env=BASE)


def test_the_path_of_the_command_counts_and_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "b\u00edn dir"
    folder.mkdir()
    tool = folder / "tool"
    tool.write_text("#!/bin/sh\necho found\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(ToolchainError):
        run(["tool"], env=BASE)
    result = run(["tool"], env={"PATH": f"/nowhere:{folder}"})
    assert result.tail == ("found",)
    assert result.argv == (str(tool),)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"echo no interpreter line\n", "Exec format error"),
        (b"\x7fELF\x02\x01\x01" + bytes(57), "Exec format error"),
        (b"#!/no/such/interpreter\n", "No such file or directory"),
    ],
)
def test_a_file_the_kernel_will_not_run(content: bytes, why: str, tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_bytes(content)
    tool.chmod(0o755)
    for call in (run, query):
        with pytest.raises(ToolchainError, match="could not be started") as caught:
            call([str(tool), "argument"], env=BASE)
        assert why in caught.value.why
        assert caught.value.evidence["argv"] == [str(tool), "argument"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="does not exist"):
        run(["true"], env=BASE, cwd=tmp_path / "missing")


def test_secrets_stay_out_of_the_error_of_what_cannot_start(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_bytes(b"no format")
    tool.chmod(0o755)
    with pytest.raises(ToolchainError) as caught:
        run([str(tool), "https://u:hunter2@h/", "0123456789"], env={**BASE, "MY_TOKEN": "0123456789"})
    assert caught.value.evidence["argv"] == [str(tool), "https://****@h/", "****"]


def test_a_supervisor_that_cannot_run_is_told_and_not_taken_for_a_killed_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "supervise.py"
    broken.write_text("raise ImportError('no ctypes here')\n")
    monkeypatch.setattr("xpubuild.engine.child._SUPERVISOR", broken)
    for call in (run, query):
        with pytest.raises(ToolchainError) as caught:
            call(["true"], env=BASE)
        assert "no ctypes here" in caught.value.why


@pytest.mark.parametrize("where", ["", " >&2"])
def test_an_answer_without_end_is_cut_and_its_program_killed(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "MOST_OUTPUT_BYTES", 100_000)
    # A program that ignores signals, so that only killing it ends it.
    loud = f"trap '' INT TERM; while :; do echo {'y' * 1000}; done{where}"
    answer = query(["sh", "-c", loud], env=BASE, deadline_s=60)
    assert (answer.too_long, answer.timed_out, answer.ok) == (True, False, False)
    assert len(answer.stdout) + len(answer.stderr) == 100_000
    assert answer.returncode == -signal.SIGKILL


def test_the_streams_are_apart_and_whole() -> None:
    result = query(
        ["sh", "-c", "printf 'out\\r\\n\\nno end'; printf 'err \\303\\274\\n' >&2; exit 4"], env=BASE
    )
    assert result.stdout == "out\r\n\nno end"
    assert result.stderr == "err \u00fc\n"
    assert (result.returncode, result.ok, result.timed_out) == (4, False, False)
    assert result.argv[0].endswith("/sh")


def test_a_deadline_keeps_what_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "LADDER", ((signal.SIGINT, 0.2), (signal.SIGTERM, 0.2)))
    mark = new_mark()
    text = "trap '' INT TERM; echo said; echo complained >&2; setsid sleep 300 & sleep 300"
    started = time.monotonic()
    with nothing_left(mark):
        result = query(["sh", "-c", text], env={**BASE, MARK: mark}, deadline_s=0.8)
    assert result.timed_out
    assert not result.ok
    assert (result.stdout, result.stderr) == ("said\n", "complained\n")
    assert time.monotonic() - started < 20


# ---- What a command prints: order, lines, secrets, full disks; and what it cost


def test_both_streams_are_merged_in_order() -> None:
    text = "import os\nfor n in range(300): os.write(1 + n % 2, b'%d\\n' % n)"
    lines: list[str] = []
    assert python(text, on_line=lines.append).ok
    assert lines == [str(number) for number in range(300)]


def test_a_command_that_closes_its_output_is_waited_for(tmp_path: Path) -> None:
    result = shell(f"exec >&- 2>&-; sleep 0.3; echo x > '{tmp_path}/done'; exit 3")
    assert result.returncode == 3
    assert (tmp_path / "done").exists()


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


_LOOKUPS = """import os, socket
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).close()
for name in ("pkgs.example", "pkgs.example", "other.example"):
    try:
        socket.getaddrinfo(name, 443)
    except socket.gaierror:
        print("refused")
try:
    socket.create_connection(("192.0.2.1", 443), 5)
except ConnectionRefusedError:
    print("closed")
print(sorted(name for name in os.environ if name.endswith("_proxy")), os.getuid())
"""


@pytest.mark.needs("netns")
def test_an_isolated_command_has_loopback_alone_and_what_it_looks_up_is_named() -> None:
    env = {**BASE, "https_proxy": "http://proxy.example:3128"}
    result = run([sys.executable, "-c", _LOOKUPS], env=env, isolated=True)
    assert result.tail == ("refused",) * 3 + ("closed", f"[] {os.getuid()}")
    assert (result.network, result.asked) == (LOOPBACK, ("pkgs.example", "other.example"))
    assert result.duration_s < 30, "nobody waits for a name server"
    assert python("pass").network == ""


@pytest.mark.needs("netns")
def test_where_no_namespace_is_allowed_the_command_runs_and_the_reason_is_told() -> None:
    text = (
        "from xpubuild.engine.process import run\n"
        "found = run(['true'], env={'PATH': '/usr/bin:/bin'}, isolated=True)\n"
        "print(found.ok, found.network)"
    )
    words = ["sh", "-c", 'echo 0 > /proc/sys/user/max_net_namespaces; exec "$@"', "_"]
    argv = ["unshare", "--user", "--map-root-user", *words, sys.executable, "-c", text]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("True none of its own is allowed here (")
