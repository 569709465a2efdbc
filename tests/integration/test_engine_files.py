"""File operations that are killed, and disks that are full or read-only."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from support.engine import program, small_disk

from xpubuild.engine import files
from xpubuild.errors import NoSpaceError, ToolchainError

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
            time.sleep(source.uniform(0.0, 0.04))
            os.kill(writer.pid, signal.SIGKILL)
            writer.wait()
        data = target.read_bytes()
        assert len(data) == 300_000
        assert len(set(data)) == 1
        letters.add(data[:1])
    assert len(letters) > 1, "no writer was killed between two writes"
    files.write_atomic(target, b"last")
    assert target.read_bytes() == b"last"


@pytest.mark.needs("mount")
def test_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "sm\u00e4ll disk", "256k") as disk:
        target = disk / "receipt.json"
        files.write_atomic(target, b"old" * 1000)
        with pytest.raises(NoSpaceError, match="while writing"):
            files.write_atomic(target, b"x" * 1_000_000)
        big = tmp_path / "big.whl"
        big.write_bytes(b"x" * 1_000_000)
        with pytest.raises(NoSpaceError, match="while copying"):
            files.copy_durable(big, disk / "wheels")
        assert target.read_bytes() == b"old" * 1000
        assert sorted(path.name for path in disk.rglob("*")) == ["receipt.json", "wheels"]


@pytest.mark.needs("mount")
def test_a_read_only_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "256k") as disk:
        (disk / "tree").mkdir()
        (disk / "tree" / "file").write_text("x")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        for act in (
            lambda: files.write_atomic(disk / "receipt.json", b"x"),
            lambda: files.write_atomic(disk / "new" / "receipt.json", b"x"),
            lambda: files.remove_tree(disk / "tree"),
            lambda: files.remove_tree(disk / "tree" / "file"),
            lambda: files.publish_file(disk / "tree" / "file", disk),
            lambda: files.copy_durable(disk / "tree" / "file", disk),
        ):
            with pytest.raises(ToolchainError) as caught:
                act()
            assert os.strerror(errno.EROFS) in caught.value.why
            assert "--workspace" in caught.value.fix
        assert (disk / "tree" / "file").read_text() == "x"


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
