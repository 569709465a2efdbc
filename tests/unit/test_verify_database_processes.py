"""The processes of verify with made-up programs: what they are given, whole results, how each end is told."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from xpubuild.verify.suite import children, database_shards, run
from xpubuild.verify.suite.children import Ended, Talking, run_beside
from xpubuild.verify.suite.database_shards import Limits, Pool

WORKER = """\
import json, os, sys
from pathlib import Path
def tell(**record):
    print(json.dumps(record), flush=True)
read = lambda: json.loads(sys.stdin.readline() or "null")
Path(sys.argv[2], "given").write_text(json.dumps([sys.argv[1:], os.environ.get("MARK")]))
print("said", file=sys.stderr, flush=True)
tell(event="ready")
while (current := read()):
    name, kinds = current
    for kind in kinds:
        if name != "early":
            tell(event="begin", operator=name, type=kind)
        if name in ("exit", "early"):
            lines = ["a line"] * 9 + ["Fatal Python error: one", "the stack"] * (name == "exit")
            print("\\n".join(lines), file=sys.stderr)
            sys.exit(5)
        tell(event="end", type=kind, state="passed", detail="d", runs={"out": 2}, seconds=0.5)
    tell(event="next")
sys.exit(int(os.environ.get("STATUS", "0")))
"""


def cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], status: str = "0"
) -> list[dict[str, Any]]:
    worker = tmp_path / "worker.py"
    worker.write_text(WORKER)
    given: list[tuple[Any, ...]] = []

    def python(script: Path, *words: object) -> list[str]:
        given.append((script.name, *words))
        return [sys.executable, str(worker), str(words[1]), str(words[2])]

    monkeypatch.setattr(database_shards, "python", python)
    found: list[dict[str, Any]] = []
    pool = Pool(["cpu"], tmp_path, Limits(20.0), found.append, {"MARK": "m", "STATUS": status})
    try:
        pool.run([(name, ["float32", "int64", "bool"][: 1 if name == "one" else 3]) for name in names])
    finally:
        homes = sorted(path for path in tmp_path.glob("shard-*"))
        assert [path.name for path in homes] == [f"shard-{number}" for number in range(len(given))]
        assert given == [("run.py", "--database-trials", "cpu", home, 16.0) for home in homes]
        for home in homes:
            assert json.loads((home / "given").read_text()) == [["cpu", str(home)], "m"]
            assert (home / "output.txt").read_text().startswith("said\n")
    return found


def test_every_cell_of_operators_is_handed_on_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, bad, other, early, *rest = cells(tmp_path, monkeypatch, ["one", "exit", "early"])
    assert one == {
        "operator": "one", "type": "float32", "state": "passed", "detail": "d", "runs": {"out": 2},
        "seconds": 0.5,
    }  # fmt: skip
    assert bad.pop("seconds") >= 0
    # Of a native stack the line above it is told.
    assert bad == {
        "operator": "exit", "type": "float32", "state": "crashed", "runs": {},
        "detail": "its process exited with code 5: Fatal Python error: one",
    }  # fmt: skip
    assert other == {
        "operator": "exit", "type": "int64", "state": "not run", "runs": {}, "seconds": 0.0,
        "detail": "it crashed in float32",
    }  # fmt: skip
    assert early["type"] == "bool"
    assert (rest[0]["operator"], rest[0]["type"], rest[0]["detail"]) == (
        "early", "float32", "its process exited with code 5: a line",
    )  # fmt: skip
    assert [item["state"] for item in rest] == ["crashed", "not run", "not run"]


def test_a_process_that_fails_after_all_is_done_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RuntimeError, match=r"^a process of operators exited with code 4: said$"):
        cells(tmp_path, monkeypatch, ["one"], status="4")


def test_a_failure_of_the_reader_ends_the_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text(WORKER)
    monkeypatch.setattr(
        database_shards, "python", lambda *words: [sys.executable, str(worker), *map(str, words[2:4])]
    )
    ended: list[float] = []
    really = Talking.end

    def end(self: Talking, grace_s: float = 0.0) -> int:
        ended.append(grace_s)
        return really(self, grace_s)

    monkeypatch.setattr(Talking, "end", end)

    def fails(_: object) -> None:
        raise KeyError("a bug")

    pool = Pool(["cpu"], tmp_path, Limits(20.0), fails, {})
    with pytest.raises(KeyError):
        pool.run([("one", ["float32"])])
    assert ended == [0.0]
    assert pool._selector.get_map() is None


def test_the_end_of_what_a_process_printed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join(f"line {number}" for number in range(9)))
    assert database_shards._tail(log) == "\n".join(f"line {number}" for number in range(4, 9))
    log.write_text("Fatal Python error: first\nx\nFatal Python error: last\nthe stack\n")
    assert database_shards._tail(log) == "Fatal Python error: last"
    log.write_bytes(b"Fatal Python error: far above\n" + b"\xff\n" * 10_000)
    assert database_shards._tail(log) == "\n".join(["\ufffd"] * 5)


@pytest.mark.parametrize(
    ("ended", "ok", "text"),
    [
        (Ended(0, False, "out\n \n"), True, "it exited with code 0: out"),
        (Ended(0, True, ""), False, "it timed out"),
        (Ended(3, False, "x" * 500), False, f"it exited with code 3: {'x' * 400}"),
        (Ended(-9, False, "a\nb "), False, "it was killed by SIGKILL: b"),
        (Ended(-99, False, ""), False, "it was killed by signal 99"),
    ],
)
def test_how_a_program_ended(ended: Ended, ok: bool, text: str) -> None:
    assert (ended.ok, ended.describe("it")) == (ok, text)


def test_programs_beside_each_other_have_logs_of_their_own(tmp_path: Path) -> None:
    code = (
        "import os, sys; print(os.environ['A'], os.getcwd(), os.getpgrp() == os.getpid(), sys.stdin.read())"
    )
    commands = [[sys.executable, "-c", f"{code}; print('x' * {5000 * number})"] for number in range(2)]
    first, second = run_beside(
        commands, deadline_s=30, folder=tmp_path / "a" / "b", env={"A": "b"}, cwd=tmp_path
    )
    assert first == Ended(0, False, f"b {tmp_path} True \n\n")
    assert second.output == "x" * 3999 + "\n"
    assert list((tmp_path / "a" / "b").iterdir()) == []
    assert children.python(Path("/s.py"), 1, "b") == [sys.executable, "-B", "/s.py", "1", "b"]
    with pytest.raises(ValueError, match=r"^the program was started without pipes$"):
        children._there(None)


@pytest.mark.parametrize("group", [True, False])
def test_a_program_that_talks(tmp_path: Path, *, group: bool) -> None:
    code = (
        "import os, sys; print(dict(os.environ).get('A'), os.getpgrp() == os.getpid(), flush=True);"
        " print(sys.stdin.readline(), file=sys.stderr); sys.exit(3)"
    )
    talking = Talking([sys.executable, "-c", code], {"A": "b"}, log=tmp_path / "log", group=group)
    assert talking.output.read(200) == f"b {group}\n".encode()
    talking.send(b"a line")
    assert talking.end(20.0) == 3
    assert (tmp_path / "log").read_text() == "a line\n\n"
    silent = Talking([sys.executable, "-c", "import time; time.sleep(600)"], dict(os.environ), group=group)
    assert silent.end() == -signal.SIGKILL
    gone = Talking(["true"], {"PATH": os.environ["PATH"]})
    gone._process.wait()
    gone.send(b"nobody reads it")
    assert gone.end() == 0


def test_the_program_is_each_of_its_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, ...]] = []
    modules: dict[str, dict[str, Any]] = {
        "references": {"serve": lambda *words: seen.append(("references", *words))},
        "database_trial": {"serve_trials": lambda *words: seen.append(("trials", *words))},
    }
    for name, content in modules.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, f"xpubuild_verify_suite.{name}", module)
    monkeypatch.setattr(run, "_load_suite", lambda: seen.append(("load",)))
    monkeypatch.setattr(run, "_prepare_process", lambda: seen.append(("prepare",)))
    monkeypatch.setattr(sys, "path", ["/first"])
    assert run.main(["--references", "/f", f"/a{os.pathsep}/b", "xpu"]) == 0
    assert run.main(["--database-trials", "cpu", "/f", "1.5"]) == 0
    assert sys.path == ["/first", "/a", "/b"]
    assert seen == [
        ("prepare",), ("load",), ("references", "/f", "xpu"), ("prepare",), ("load",),
        ("trials", "cpu", "/f", 1.5),
    ]  # fmt: skip
