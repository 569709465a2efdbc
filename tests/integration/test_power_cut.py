"""What the journal says is done is done after a power cut, and what an earlier one took is made again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.gitserver import Upstream, gitmodules, snapshot
from support.engine import FileProof, Recorder, make_plan, shell
from support.power import Disk, disk

from xpubuild.engine import execution
from xpubuild.engine.events import Notice, StepOutput
from xpubuild.engine.journal import Journal
from xpubuild.engine.model import XPUBUILD, Command, Plan, Step
from xpubuild.engine.process import Cancel
from xpubuild.engine.runner import Outcome, run_plan
from xpubuild.errors import BuildError
from xpubuild.supply.git.integrity import TreeProof
from xpubuild.supply.git.pin import Pin

pytestmark = [pytest.mark.needs("mount"), pytest.mark.needs("mkfs.ext4"), pytest.mark.needs("root")]

_TRIES = 8
#: xpubuild as it would be without flushing what a checkout made.
_FORGETS = """
import sys
from xpubuild.supply.git import checkout
checkout.sync_filesystems = lambda paths: None
from xpubuild.cli.app import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.fixture
def power(tmp_path: Path) -> Iterator[Disk]:
    with disk(tmp_path) as made:
        yield made


@pytest.fixture
def pin(tmp_path: Path) -> Pin:
    inner, top = Upstream.make(tmp_path / "srv" / "inner.git"), Upstream.make(tmp_path / "srv" / "top.git")
    link = inner.commit({f"inner{number}.h": f"inner {number}\n" * 50 for number in range(10)})
    files: dict[str, str | bytes] = {
        f"src/file{number}.cpp": f"int n{number};\n" * 90 for number in range(30)
    }
    files[".gitmodules"] = gitmodules(("third_party/inner", "../inner.git"))
    commit = top.commit(files, links={"third_party/inner": link})
    return Pin(str(tmp_path / "srv" / "top.git"), commit)


def source_step(pin: Pin, into: Path, program: tuple[str, ...] = (XPUBUILD,)) -> Step:
    words = ("plumbing", "checkout", pin.url, pin.commit, str(into), "--cache", str(into.parent / "cache"))
    return Step(
        id="top.source", title="check out", commands=(Command(argv=(*program, *words)),),
        proofs=(TreeProof(str(into), pin),), witnesses=(str(into / ".git"),), always_prove=True,
        # Not by how it is started: the same step, of an xpubuild that flushes and of one that does not.
        relevant={"pin": pin.key()},
    )  # fmt: skip


def install(plan: Plan, sink: Recorder | None = None) -> Outcome:
    root = Path(plan.workspace)
    root.mkdir(exist_ok=True)
    with Journal(root / "journal.db") as journal:
        return run_plan(plan, journal, sink=sink or Recorder(), cancel=Cancel())


def test_a_checkout_that_is_done_survives_a_power_cut(power: Disk, pin: Pin) -> None:
    root = power.place / "ws"
    plan = make_plan(root, source_step(pin, root / "top"))
    assert install(plan).errors == []
    made = snapshot(root / "top")
    power.cut()
    assert snapshot(root / "top") == made
    outcome = install(plan)
    assert (outcome.errors, outcome.up_to_date) == ([], ["top.source"])


def test_a_checkout_that_lost_its_files_is_made_again_and_an_edited_one_is_not(
    power: Disk, pin: Pin, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Now and then the kernel flushes everything by itself before the cut: then it is tried again.
    for root in (power.place / f"ws{number}" for number in range(_TRIES)):
        with monkeypatch.context() as patch:
            patch.setattr(execution.files, "sync_filesystems", lambda _: None)
            forgetful = source_step(pin, root / "top", (sys.executable, "-c", _FORGETS))
            assert install(make_plan(root, forgetful)).errors == []
        power.cut()
        if lost := [path for path in (root / "top" / "src").glob("*") if not path.stat().st_size]:
            break
    assert lost, "no cut took anything: this test shows nothing"
    whole = source_step(pin, root / "top")
    sink = Recorder()
    outcome = install(make_plan(root, whole), sink)
    assert outcome.errors == []
    assert TreeProof(str(root / "top"), pin).check()["commit"] == pin.commit
    said = " ".join(event.line for event in sink.of(StepOutput))
    assert "was not edited" in said
    # Whoever wrote anything there keeps it.
    lost[0].write_text("mine")
    (error,) = install(make_plan(root, whole)).errors
    assert (error.exit_code, lost[0].read_text()) == (31, "mine")


def test_files_of_a_step_that_is_done_survive_a_power_cut(power: Disk) -> None:
    """As pip leaves them: many, in folders, none of them flushed."""
    root = power.place / "ws"
    site, count = root / "site", 200
    text = (
        f"mkdir -p '{site}'; i=0; while [ $i -lt {count} ]; do echo file $i > '{site}'/$i; i=$((i+1)); done"
    )
    proof = FileProof(str(site / "7"), "file 7\n")
    plan = make_plan(root, Step(id="pip", title="install", commands=(shell(text),), proofs=(proof,)))
    assert install(plan).errors == []
    power.cut()
    assert [(site / str(number)).read_text() for number in range(count)] == [
        f"file {number}\n" for number in range(count)
    ]
    assert install(plan).up_to_date == ["pip"]


def test_what_a_step_took_for_whole_is_made_again_once(tmp_path: Path) -> None:
    """A step killed by the power cut itself runs again, and its commands may find what is not there whole."""
    made = tmp_path / "made"
    made.write_bytes(bytes(4))
    proof = Mended(str(made), "good")
    once = shell(f"test -e '{made}' || printf good > '{made}'")
    sink = Recorder()
    outcome = install(make_plan(tmp_path, Step(id="a", title="a", commands=(once,), proofs=(proof,))), sink)
    assert (outcome.errors, made.read_text()) == ([], "good")
    (told,) = sink.of(Notice)
    assert "made again" in told.text


class Mended(FileProof):
    """A proof that knows what to remove."""

    def check(self) -> dict[str, object]:
        try:
            return super().check()
        except BuildError as error:
            error.mend = Path(self.path).unlink
            raise
