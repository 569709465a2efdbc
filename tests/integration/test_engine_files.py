"""File operations that are killed, and disks that are full or read-only."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from pathlib import Path

import pytest
from support.engine import program

from xpubuild.engine import files

#: Writes one file again and again, each time whole and of another letter. Arguments: file, how to write it.
WRITER = """
import itertools, os, sys
from pathlib import Path
from xpubuild.engine import files

target, how = Path(sys.argv[1]), sys.argv[2]
stage = target.parent / "stage"
stage.mkdir(exist_ok=True)
print("ready", flush=True)
for letter in itertools.cycle(b"abcdefgh"):
    data = bytes([letter]) * 300_000
    if how == "write":
        files.write_atomic(target, data)
    else:
        made = stage / target.name
        made.write_bytes(data)
        (files.publish_file if how == "publish" else files.copy_durable)(made, target.parent)
"""


@pytest.mark.parametrize("how", ["write", "publish", "copy"])
def test_a_writer_that_is_killed_leaves_the_old_or_the_new(how: str, tmp_path: Path) -> None:
    target = tmp_path / "w\u00f6rk space" / "receipt.json"
    files.write_atomic(target, b"z" * 300_000)
    source = random.Random(20261121)  # noqa: S311 - moments, not secrets
    letters = set()
    for _ in range(12):
        with program(WRITER, str(target), how) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            time.sleep(source.uniform(0.0, 0.1))
            os.kill(writer.pid, signal.SIGKILL)
            writer.wait()
        data = target.read_bytes()
        assert len(data) == 300_000
        assert len(set(data)) == 1
        letters.add(data[:1])
    assert len(letters) > 1, "no writer was killed between two writes"
    files.write_atomic(target, b"last")
    assert target.read_bytes() == b"last"


#: As an ordinary user, whom permissions stop: root may write anywhere.
REFUSED = """
import os, sys
from pathlib import Path
from xpubuild.engine import files
from xpubuild.errors import ToolchainError

if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
folder = Path(sys.argv[1])
for act in (
    lambda: files.write_atomic(folder / "file", b"new"),
    lambda: files.write_atomic(folder / "deep" / "er", b"new"),
    lambda: files.remove_tree(folder / "file"),
):
    try:
        act()
    except ToolchainError as error:
        print(error.what, "|", error.why)
"""


def test_a_folder_one_may_not_write_to() -> None:
    # Not below tmp_path, where the ordinary user could not even look.
    with tempfile.TemporaryDirectory(prefix="xpubuild-", dir="/tmp") as name:
        locked = Path(name)
        (locked / "file").write_text("old")
        locked.chmod(0o555)
        with program(REFUSED, str(locked)) as process:
            out, _ = process.communicate(timeout=60)
        locked.chmod(0o755)
        lines = out.splitlines()
        assert len(lines) == 3
        assert all("cannot be written | Permission denied" in line for line in lines)
        assert (locked / "file").read_text() == "old"
