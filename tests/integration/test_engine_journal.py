"""The journal: durable, and never in the way of the next run."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from support.engine import FileProof, make_plan, program, shell, small_disk

from xpubuild.engine import journal as module
from xpubuild.engine.events import NullSink
from xpubuild.engine.journal import Journal
from xpubuild.engine.model import Step
from xpubuild.engine.process import Cancel, ProcessResult
from xpubuild.engine.runner import Outcome, run_plan
from xpubuild.errors import NoSpaceError, ToolchainError

RESULT = ProcessResult(
    argv=("/bin/true",), returncode=0, duration_s=1.5, user_s=1.0, system_s=0.25, max_rss_bytes=1 << 20,
    peak_tree_bytes=1 << 21,
)  # fmt: skip
#: Journals steps as fast as it can and prints the number of each step that is done.
WRITER = """
import sys
from pathlib import Path
from xpubuild.engine.journal import Journal

with Journal(Path(sys.argv[1])) as journal:
    journal.start_run("r", ["x"], "1")
    for number in range(100000):
        name = f"step{number}"
        journal.begin(name, "f" * 64)
        journal.add_made(name, [f"/w/{number}"])
        journal.done(name, evidence=[{"n": number}], witnesses={f"/w/{number}": [1, 2]}, published=[])
        print(number, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "w\u00f6rk space?#%"
    folder.mkdir()
    return folder / "journal.db"


def finish(journal: Journal, *names: str) -> None:
    for name in names:
        journal.begin(name, "f" * 64)
        journal.done(name, evidence=[{"proof": "p"}], witnesses={"/x": [1, 2]}, published=["/w/a.whl"])


def fill(journal: Journal, steps: int) -> None:
    """Write steps of 4 kB until it no longer works, or ``steps`` of them."""
    for number in range(steps):
        journal.begin(f"step{number}", "f" * 64)
        journal.done(f"step{number}", evidence=[{"text": "x" * 4000}], witnesses={}, published=[])


def test_what_is_written_is_read(path: Path) -> None:
    with Journal(path) as journal:
        journal.start_run("quickstart", ["xpubuild", "install", "gr\u00fcn"], "1.2")
        finish(journal, "a")
        journal.begin("b", "e" * 64)
        journal.failed("b", "it broke")
        journal.command("a", ["g++", "a b.cpp"], RESULT, "/logs/a.log")
        journal.add_made("a", ["/w/env", "/w/wheels"])
        journal.add_made("b", ["/w/wheels"])
        journal.end_run("failed")
    with Journal(path, read_only=True) as journal:
        record = journal.record("a")
        assert record is not None
        assert (record.status, record.fingerprint, record.witnesses) == ("done", "f" * 64, {"/x": [1, 2]})
        assert (record.evidence, record.published) == ([{"proof": "p"}], ["/w/a.whl"])
        assert [(r.step, r.status, r.detail) for r in journal.records()] == [
            ("a", "done", ""), ("b", "failed", "it broke"),
        ]  # fmt: skip
        (run,) = journal.runs()
        assert (run["recipe"], run["argv"], run["status"]) == (
            "quickstart", ["xpubuild", "install", "gr\u00fcn"], "failed",
        )  # fmt: skip
        (command,) = journal.commands()
        assert (command["argv"], command["duration_s"], command["log"]) == (
            ["g++", "a b.cpp"],
            1.5,
            "/logs/a.log",
        )
        assert journal.made() == {"/w/env": "a", "/w/wheels": "b"}
        assert journal.record("c") is None
    # SQLite itself leaves two more where it was opened to read only.
    assert {entry.name for entry in path.parent.iterdir()} <= {
        f"journal.db{end}" for end in ("", "-wal", "-shm")
    }


def test_what_was_said_to_be_done_is_done_after_kill_9(path: Path) -> None:
    for _ in range(4):
        with program(WRITER, str(path)) as writer:
            assert writer.stdout is not None
            for _line in range(25):
                last = int(writer.stdout.readline())
            os.kill(writer.pid, signal.SIGKILL)
            last = int(([str(last), *writer.stdout.read().split()])[-1])
        with Journal(path, read_only=True) as journal:
            done = {record.step for record in journal.records() if record.status == "done"}
            made = journal.made()
        assert {f"step{number}" for number in range(last + 1)} <= done
        assert {f"/w/{number}" for number in range(last + 1)} <= made.keys()
        with Journal(path) as journal:
            assert journal.set_aside is None


def test_every_commit_is_flushed(path: Path) -> None:
    """A power cut takes what was not flushed; SQLite flushes a WAL commit with synchronous=FULL only."""
    with Journal(path) as journal:
        assert journal._db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert journal._db.execute("PRAGMA synchronous").fetchone()[0] == 2


def damage_whole(path: Path) -> None:
    path.write_bytes(b"this is no database" * 1000)


def damage_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for at in range(4096, len(data), 4096):
        data[at : at + 64] = b"\xa5" * 64
    path.write_bytes(data)


DAMAGES = [damage_whole, damage_middle]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_journal_is_kept_and_a_new_one_begun(damage: object, path: Path) -> None:
    with Journal(path) as journal:
        fill(journal, 10)
    assert callable(damage)
    damage(path)
    before = path.read_bytes()
    with pytest.raises(ToolchainError) as caught, Journal(path, read_only=True) as journal:
        journal.records()
    assert "cannot be used" in caught.value.what
    with Journal(path) as journal:
        assert journal.set_aside is not None
        assert journal.set_aside.parent == path.parent
        assert journal.set_aside.read_bytes() == before
        assert journal.records() == []
        finish(journal, "again")
    with Journal(path) as journal:
        assert journal.set_aside is None
        assert [record.step for record in journal.records()] == ["again"]


def written(path: Path) -> bytes:
    """Write a journal with an entry of every kind and return its bytes."""
    with Journal(path) as journal:
        journal.start_run("r", ["xpubuild", "install"], "1")
        finish(journal, "a")
        journal.command("a", ["g++"], replace(RESULT, memory=((0.0, 1 << 20), (0.5, 1 << 21))), "log")
        journal.add_made("a", ["/w/env"])
        journal.settle_at(str(path.parent))
        journal.end_run("ok")
        journal._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.read_bytes()


def everything(journal: Journal) -> tuple[object, ...]:
    return (
        journal.runs(), journal.records(), journal.commands(), journal.made(), journal.place(),
    )  # fmt: skip


def test_a_flip_of_any_byte_is_harmless_or_sets_the_journal_aside() -> None:
    """Every byte of the first two pages: headers, schema, entries."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="xpubuild-", dir=memory) as folder:
        path = Path(folder) / "journal.db"
        good = written(path)
        with Journal(path, read_only=True) as journal:
            expected = everything(journal)
        refused = 0
        for position in range(min(len(good), 8192)):
            bad = bytearray(good)
            bad[position] ^= 0x41
            path.write_bytes(bad)
            try:
                with Journal(path, read_only=True) as journal:
                    assert everything(journal) == expected, position
                harmless = True
            except ToolchainError:
                refused += 1
                harmless = False
            if not harmless or position < 100:
                with Journal(path) as journal:
                    assert harmless or journal.set_aside is not None, position
                    finish(journal, "b")
                for other in path.parent.iterdir():
                    other.unlink()
    assert refused > 100


@pytest.mark.parametrize("attack", [
    "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END",
    (
        "DROP TABLE entries; CREATE VIEW entries AS WITH RECURSIVE n(kind, key, data, mark) AS"
        " (SELECT 'a', 'b', 'c', 1 UNION ALL SELECT kind, key, data, mark + 1 FROM n) SELECT * FROM n"
    ),
])  # fmt: skip
def test_another_schema_sets_the_journal_aside(path: Path, attack: str) -> None:
    written(path)
    db = sqlite3.connect(path)
    db.executescript(attack)
    db.close()
    with pytest.raises(ToolchainError, match="cannot be used"):
        Journal(path, read_only=True)
    with Journal(path) as journal:
        assert journal.set_aside is not None
        assert journal.records() == []


def test_after_a_flipped_byte_the_steps_prove_themselves_again(path: Path) -> None:
    made, workspace = path.parent / "made", path.parent
    proof = FileProof(str(made), "x")
    plan = make_plan(workspace, Step(id="a", title="a", commands=(shell(f"printf x > '{made}'"),),
                                     proofs=(proof,), outputs=(str(made),)))  # fmt: skip

    def install() -> Outcome:
        with Journal(path) as journal:
            return run_plan(plan, journal, sink=NullSink(), cancel=Cancel())

    assert install().ran == ["a"]
    path.write_bytes(path.read_bytes().replace(b'[{"proof"', b'[{"proof!'))
    proof.checked.clear()
    outcome = install()
    assert (outcome.ran, outcome.errors, proof.checked) == (["a"], [], [str(made)])
    assert install().up_to_date == ["a"]


def test_a_missing_journal_is_not_made_by_looking(path: Path) -> None:
    with pytest.raises(ToolchainError, match="does not exist") as caught:
        Journal(path, read_only=True)
    assert "xpubuild install" in caught.value.fix
    assert not list(path.parent.iterdir())


def test_a_locked_journal_is_not_taken_for_a_damaged_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 0.1)
    with Journal(path) as journal:
        finish(journal, "a")
    other = sqlite3.connect(path, isolation_level=None)
    try:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        for read_only in (True, False):
            with pytest.raises(ToolchainError) as caught:
                Journal(path, read_only=read_only)
            assert "locked" in caught.value.why
    finally:
        other.close()
    with Journal(path, read_only=True) as journal:
        assert [record.step for record in journal.records()] == ["a"]
    assert not list(path.parent.glob("*.damaged-*"))


@pytest.mark.parametrize("version", [2, 99])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_journal_of_another_format_is_left_alone(path: Path, version: int, read_only: bool) -> None:
    db = sqlite3.connect(path)
    db.executescript(f"CREATE TABLE steps (step TEXT); PRAGMA user_version={version}")
    db.close()
    with pytest.raises(ToolchainError) as caught:
        Journal(path, read_only=read_only)
    assert f"format {version}" in caught.value.why
    assert caught.value.fix == "use another --workspace, or the xpubuild that made this one"
    assert not list(path.parent.glob("*.damaged-*"))


@pytest.mark.needs("mount")
def test_a_disk_that_fills_up(tmp_path: Path) -> None:
    with small_disk(tmp_path / "sm\u00e4ll", "512k") as disk:
        with Journal(disk / "journal.db") as journal:
            finish(journal, "first", "second")
            with pytest.raises(NoSpaceError) as caught:
                fill(journal, 10_000)
            assert "finished steps are kept" in caught.value.fix
            with pytest.raises(NoSpaceError):
                journal.start_run("r", ["x" * 100_000], "1")
        with Journal(disk / "journal.db", read_only=True) as journal:
            assert {record.step for record in journal.records() if record.status == "done"} > {
                "first",
                "second",
            }


READER = """
import os, sys
from pathlib import Path
from xpubuild.engine.journal import Journal

if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
with Journal(Path(sys.argv[1]), read_only=True) as journal:
    print([record.step for record in journal.records()])
"""


def test_somebody_else_may_read_it() -> None:
    """One builds for a thousand users, who may look and not write; SQLite would make files to read a WAL."""
    with tempfile.TemporaryDirectory(prefix="xpubuild-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with Journal(folder / "journal.db") as journal:
            finish(journal, "a")
        (folder / "journal.db").chmod(0o644)
        folder.chmod(0o555)
        argv = [sys.executable, "-c", READER, str(folder / "journal.db")]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        folder.chmod(0o755)
    assert done.stderr == ""
    assert done.stdout == "['a']\n"


def test_commands_of_an_earlier_version_are_read(path: Path) -> None:
    with Journal(path) as journal:
        journal.start_run("r", ["x"], "1")
        journal.command("build", ["/bin/true"], RESULT, "log")
        row = journal.commands()[0]
    assert module.ran_command(row)["peak_bytes"] == 1 << 21
    old = {("peak_tree_bytes" if name == "peak_bytes" else name): value for name, value in row.items()}
    assert module.ran_command(old) == module.ran_command(row)
