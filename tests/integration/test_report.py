"""``xpubuild status --html`` of workspaces in which real ninja ran: document and page."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support import report_world
from support.cli import Xpubuild
from support.documents import check
from support.pages import page_of
from support.report_world import HOSTILE, SECRET

from xpubuild.engine.journal import Journal
from xpubuild.engine.lock import workspace_lock

pytestmark = [pytest.mark.needs("ninja"), pytest.mark.xdist_group("report")]


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report_world.make(tmp_path_factory.mktemp("report") / "w\u00f6rk space", fails=True)


@pytest.fixture
def copy(failed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(failed, tmp_path / "ws"))


def test_the_document_of_a_failed_build(xpubuild: Xpubuild, failed: Path) -> None:
    document = check(xpubuild.json("status", str(failed), "--html", "-"), "report")
    assert document["status"] == "failed"
    steps = {step["id"]: step for step in document["steps"]}
    assert {name: step["status"] for name, step in steps.items()} == {
        "env": "done", "lib.wheel": "done", "lib.install": "failed", "verify": "to do",
    }  # fmt: skip
    assert steps["env"]["proved"][0]["bytes"] == 2
    (build,) = document["builds"]
    assert (build["step"], build["folder"]) == ("lib.wheel", "build/lib")
    wheel = next(item for item in document["commands"] if item["step"] == "lib.wheel")
    assert wheel["started"] - 2 <= build["started"] <= wheel["started"] + wheel["duration_s"]
    times = {edge["output"]: edge["duration_s"] for edge in build["edges"]}
    assert times.keys() == {"three.cpp.o", "<b>two.cpp.o", "one.cpp.o", "lib.so"}
    assert times["one.cpp.o"] > times["<b>two.cpp.o"] > times["three.cpp.o"] > 0
    assert len(wheel["memory"]) > 1
    assert max(count for _, count in wheel["memory"]) <= wheel["peak_bytes"]
    (cached,) = document["compile_cache"]
    assert cached["step"] == "lib.wheel"
    assert [(item["family"], item["calls"], item["hits"]) for item in cached["families"]] == [("C++", 2, 1)]
    (explained,) = document["explanations"]
    assert "fatal error" in explained["explanation"]["first_error"]["text"]


def test_the_page_is_sound_and_shows_all_of_it_as_text(
    xpubuild: Xpubuild, failed: Path, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    xpubuild.ok("status", str(failed), "--html", str(file))
    page = page_of(file)
    assert "img" not in page.tags
    for text in (
        "fatal error", "lib.wheel", "one.cpp.o", "has the right content", "bytes: 2", "import.torch",
        "float32", "Operators that did not pass", "1 (50 %)", "1 not seen before", HOSTILE,
    ):  # fmt: skip
        assert text in page.said, text
    assert {"lanes", "memory"} <= {part.partition('"')[0] for part in file.read_text().split('<svg class="')}


def test_no_secret_is_in_page_and_document(
    xpubuild: Xpubuild, copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = json.loads((copy / "build" / "plan.json").read_text())
    plan["steps"][0]["title"] = f"clone https://me:{SECRET}@host.invalid/x"
    plan["summary"] = {"target": f"cpu {SECRET}"}
    (copy / "build" / "plan.json").write_text(json.dumps(plan))
    monkeypatch.setenv("MY_TOKEN", SECRET)
    file = tmp_path / "page.html"
    found = xpubuild.ok("status", str(copy), "--json", "--html", str(file)).out
    assert "host.invalid" in found
    assert SECRET not in found + file.read_text()


def test_a_build_that_runs_and_one_that_was_killed(xpubuild: Xpubuild, copy: Path, tmp_path: Path) -> None:
    report_world.run(copy, fails=False)
    assert xpubuild.json("status", str(copy), "--html", "-")["status"] == "complete"
    report_world.interrupt(copy)
    file = tmp_path / "page.html"
    with workspace_lock(copy, command="xpubuild install test"):
        running = check(xpubuild.json("status", str(copy), "--html", str(file)), "report")
    assert running["status"] == "running"
    assert "running" in page_of(file).said
    killed = check(xpubuild.json("status", str(copy), "--html", str(file)), "report")
    assert killed["status"] == "interrupted"
    verify = next(step for step in killed["steps"] if step["id"] == "verify")
    assert verify["detail"] == "its inputs have changed since"
    assert "interrupted" in page_of(file).said


def test_what_cannot_be_read_is_named(xpubuild: Xpubuild, copy: Path, tmp_path: Path) -> None:
    (copy / "build" / "plan.json").write_text("[" * 100_000)
    (copy / "build" / "verify.json").write_text("[]")
    (copy / "receipt.json").write_text('{"host": 5}')
    (copy / "build" / "verify-operators" / "operators.json").write_text("{")
    numbers = b"1\t" + b"9" * 400 + b"\t3\ta.o\tb\n"
    (copy / "build" / "lib" / ".ninja_log").write_bytes(b"# ninja log v7\n\xff\n" + numbers)
    file = tmp_path / "page.html"
    document = check(xpubuild.json("status", str(copy), "--html", str(file)), "report")
    assert [step["id"] for step in document["steps"]] == ["env", "lib.wheel", "lib.install"]
    assert document["builds"] == []
    assert document["verify"] is None
    said = page_of(file).said
    for name in ("plan.json", "verify.json", "receipt.json", "operators.json"):
        assert f"{name} cannot be read" in said


def test_a_page_hides_and_turns_no_text_and_reads_no_file_elsewhere(
    xpubuild: Xpubuild, copy: Path, tmp_path: Path
) -> None:
    plan = json.loads((copy / "build" / "plan.json").read_text())
    plan["steps"][0]["title"] = "half \ud800 turned \u202e and \x1b[31m red"
    plan["steps"][2]["id"] = "../elsewhere"
    (copy / "build" / "plan.json").write_text(json.dumps(plan))
    (copy / "elsewhere.log").write_text("a.c:1:1: fatal error: private\n")
    with Journal(copy / "journal.db") as journal:
        (record,) = [one for one in journal.records() if one.step == "lib.install"]
        journal.forget(["lib.install"], removed=False)
        journal.begin("../elsewhere", record.fingerprint)
        journal.failed("../elsewhere", record.detail)
    file = tmp_path / "page.html"
    xpubuild.ok("status", str(copy), "--html", str(file))
    said = page_of(file).said
    assert "half ? turned and [31m red" in said
    assert "private" not in said
    assert not {"\u202e", "\x1b"} & set(file.read_text())
