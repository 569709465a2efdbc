"""A mirror carried across an air gap as one file: equal on the other side, or refused as a whole."""

from __future__ import annotations

import hashlib
import io
import random
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.mirror_world import World, content, world

from xpubuild.engine.events import NullSink
from xpubuild.engine.process import Cancel
from xpubuild.errors import FetchError, SourceIntegrityError
from xpubuild.install.fetch_export import export_mirror, import_mirror
from xpubuild.schema.fetch import FetchDocument
from xpubuild.supply.mirror.entries import FileRecord, sealed
from xpubuild.supply.mirror.store import Mirror
from xpubuild.supply.mirror.tarform import FIRST, SCHEMA, contents_text, ending, header, padding


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        yield made


def carry(mirror: Path, target: Path) -> str:
    document = export_mirror(mirror, target, sink=NullSink())
    FetchDocument.model_validate(document)
    return str(document["digest"])


def bring(mirror: Path, source: Path) -> dict[str, object]:
    document = import_mirror(mirror, source, sink=NullSink(), cancel=Cancel())
    FetchDocument.model_validate(document)
    return document


def test_what_is_imported_is_what_was_exported(here: World, tmp_path: Path) -> None:
    mirror = here.filled(tmp_path / "a")
    digest = carry(mirror.path, tmp_path / "one.tar")
    assert carry(mirror.path, tmp_path / "two.tar") == digest
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    with tarfile.open(tmp_path / "one.tar") as tar:
        names = tar.getnames()
    assert names[0] == FIRST
    assert len(names) == len(set(names))
    document = bring(tmp_path / "b", tmp_path / "one.tar")
    assert document["digest"] == digest
    assert content(tmp_path / "b") == content(tmp_path / "a")
    here.server.faults.fail = 99
    assert Mirror.open(tmp_path / "b").check() == []
    assert here.fetch(tmp_path / "b", offline=True).run()["status"] == "ok"
    assert bring(tmp_path / "b", tmp_path / "one.tar")["summary"]["new_bytes"] == 0  # type: ignore[index]
    assert content(tmp_path / "b") == content(tmp_path / "a")


def test_only_what_the_recipe_needs_is_exported_and_an_import_adds_to_a_mirror(
    here: World, tmp_path: Path
) -> None:
    small, big = (
        here.inputs("demo-1.0-py3-none-any.whl"),
        here.inputs(commit=here.commits["next"], recipe="b"),
    )
    mirror = here.filled(tmp_path / "a", small)
    here.filled(mirror.path, big)
    here.filled(tmp_path / "other", here.inputs("old-0.1.tar.gz", commit=here.commits["top"], recipe="c"))
    fetch = here.fetch(mirror.path, big, offline=True)
    export_mirror(mirror.path, tmp_path / "big.tar", sink=NullSink(), fetch=fetch)
    with tarfile.open(tmp_path / "big.tar") as tar:
        sets = [name for name in tar.getnames() if name.startswith("sets/")]
    assert len(sets) == 1
    assert sets[0].startswith("sets/b-")
    bring(tmp_path / "other", tmp_path / "big.tar")
    merged = Mirror.open(tmp_path / "other")
    assert merged.check() == []
    assert {needed.recipe for needed in merged.sets()} == {"b", "c"}
    for inputs in (big, here.inputs("old-0.1.tar.gz", recipe="c"), small):
        # What both sides had is one repository with the pins of both.
        assert here.fetch(merged.path, inputs, offline=True).run()["status"] == "ok"
    none = here.fetch(mirror.path, here.inputs("old-0.1.tar.gz", recipe="d"), offline=True)
    with pytest.raises(FetchError, match="the current version"):
        export_mirror(mirror.path, tmp_path / "none.tar", sink=NullSink(), fetch=none)


def test_every_changed_byte_is_found_and_nothing_is_put_in_place(here: World, tmp_path: Path) -> None:
    carry(here.filled(tmp_path / "a").path, tmp_path / "good.tar")
    good = (tmp_path / "good.tar").read_bytes()
    bad, into = tmp_path / "bad.tar", tmp_path / "b"
    bring(into, tmp_path / "good.tar")
    before = content(into)
    chosen = random.Random(4)  # noqa: S311 - the same cases each time
    places = [*range(0, 1024, 67), *(chosen.randrange(len(good)) for _ in range(30)), len(good) - 1]
    cases = [good[:at] + bytes([good[at] ^ 1 << at % 8]) + good[at + 1 :] for at in places]
    cases += [good[:at] for at in (0, 100, 512, len(good) // 2, len(good) - 512, len(good) - 1)]
    cases.append(good + bytes(512))
    for data in cases:
        bad.write_bytes(data)
        with pytest.raises(SourceIntegrityError, match=r"the export .* is damaged: ") as caught:
            bring(into, bad)
        assert caught.value.evidence["member"]
        assert caught.value.exit_code == 31
    assert content(into) == before
    assert not [item for item in into.iterdir() if item.name.startswith((".stage", ".commit"))]


def _tar(*members: tuple[str, bytes]) -> bytes:
    """Return an export of these members, right in everything but what they are."""
    records = tuple(FileRecord(n, len(d), hashlib.sha256(d).hexdigest()) for n, d in members)
    first = contents_text(records)
    out = header(FIRST, len(first)) + first + padding(len(first))
    for name, data in members:
        out += header(name, len(data)) + data + padding(len(data))
    return out + ending(len(out))


@pytest.mark.parametrize(
    "name",
    ["../outside", "/etc/outside", "git/../../outside", "files/x/..", ".commit-x/a", "git/x.git/hooks/run",
     "wheels.html", "mirror.json", "manifest/x", "a\\b", "files//x"],
)  # fmt: skip
def test_a_member_that_no_mirror_has_is_refused(tmp_path: Path, name: str) -> None:
    source = tmp_path / "x.tar"
    source.write_bytes(_tar((name, b"x")))
    with pytest.raises(SourceIntegrityError):
        bring(tmp_path / "b", source)
    assert not (tmp_path / "outside").exists()
    assert set(content(tmp_path / "b")) <= {"mirror.json"}


def test_links_and_foreign_tars_are_refused(tmp_path: Path) -> None:
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.REGTYPE):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            info = tarfile.TarInfo(FIRST if kind == tarfile.REGTYPE else "manifest/x")
            info.type, info.linkname = kind, "/etc/passwd"
            text = sealed({"schema": SCHEMA, "members": []})
            info.size = len(text) if kind == tarfile.REGTYPE else 0
            info.mtime = 5
            tar.addfile(info, io.BytesIO(text))
        (tmp_path / "x.tar").write_bytes(buffer.getvalue())
        with pytest.raises(SourceIntegrityError, match=r"MANIFEST\.json"):
            bring(tmp_path / "b", tmp_path / "x.tar")
    with pytest.raises(FetchError, match="does not exist"):
        bring(tmp_path / "b", tmp_path / "nowhere.tar")


def test_a_damaged_mirror_is_not_exported(here: World, tmp_path: Path) -> None:
    mirror = here.filled(tmp_path / "a")
    wheel = next(mirror.path.glob("files/*/demo*"))
    wheel.write_bytes(wheel.read_bytes()[::-1])
    with pytest.raises(SourceIntegrityError, match=wheel.name):
        carry(mirror.path, tmp_path / "x.tar")
    assert not list(tmp_path.glob("*x.tar*"))


def test_an_import_repairs_what_is_damaged(here: World, tmp_path: Path) -> None:
    mirror = here.filled(tmp_path / "a")
    carry(mirror.path, tmp_path / "x.tar")
    for pattern in ("files/*/demo*", "git/*-mid-*.git/objects/pack/*.pack", "git/*-ops-*.git/HEAD"):
        next(mirror.path.glob(pattern)).unlink()
    assert len(mirror.check()) == 3
    bring(mirror.path, tmp_path / "x.tar")
    assert mirror.check() == []


_CHILD = """
import os, sys
from pathlib import Path
from xpubuild.supply.mirror.importing import import_file
from xpubuild.supply.mirror.store import Mirror
stop = int(sys.argv[3])
renames = 0
def count(event, arguments):
    global renames
    renames += event == "os.rename"
    if event == "os.rename" and renames == stop:
        os.kill(os.getpid(), 9)
sys.addaudithook(count)
import_file(Path(sys.argv[1]), Mirror.open(Path(sys.argv[2]), create=True))
"""


def test_an_import_that_is_killed_leaves_the_mirror_sound(here: World, tmp_path: Path) -> None:
    """Killed before each of its renames, the only points at which anything of it comes to be seen."""
    first, both = tmp_path / "first", tmp_path / "both"
    here.filled(first, here.inputs("demo-1.0-py3-none-any.whl"))
    here.filled(both, here.inputs("demo-1.0-py3-none-any.whl"))
    here.filled(both, here.inputs(commit=here.commits["next"], recipe="second"))
    carry(first, tmp_path / "first.tar")
    carry(both, tmp_path / "both.tar")
    argv = [sys.executable, "-c", _CHILD, str(tmp_path / "both.tar")]
    killed = 0
    for stop in range(2, 99, 2):
        into = tmp_path / f"into-{stop}"
        bring(into, tmp_path / "first.tar")
        status = subprocess.run([*argv, str(into), str(stop)], check=False).returncode
        mirror = Mirror.open(into)
        assert mirror.check() == [], stop
        inputs = here.inputs("demo-1.0-py3-none-any.whl")
        if stop % 4 == 0:
            assert here.fetch(into, inputs, offline=True).run()["status"] == "ok"
        with mirror.writing():
            pass
        assert mirror.check() == [], stop
        assert not [item.name for item in into.iterdir() if item.name.startswith((".stage", ".commit"))]
        if status == 0:
            break
        assert status == -signal.SIGKILL
        killed += 1
    assert killed >= 5
    assert content(into) == content(both)


def test_an_import_that_is_killed_while_it_reads_leaves_nothing_in_place(here: World, tmp_path: Path) -> None:
    carry(here.filled(tmp_path / "a").path, tmp_path / "good.tar")
    pipe = tmp_path / "good.tar"
    into = tmp_path / "b"
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom xpubuild.supply.mirror import importing\n"
        "from xpubuild.supply.mirror.store import Mirror\n"
        "def slow(size):\n    print(size, flush=True); time.sleep(60)\n"
        "mirror = Mirror.open(Path(sys.argv[2]), create=True)\n"
        "importing.import_file(Path(sys.argv[1]), mirror, progress=slow)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(pipe), str(into)], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline()
        child.kill()
    assert set(content(into)) - {path for path in content(into) if path.startswith(".stage-")} == {
        "mirror.json"
    }
    assert Mirror.open(into).check() == []
    bring(into, pipe)
    assert content(into) == content(tmp_path / "a")


#: Runs a command line, and waits for a line of input before it opens the first file whose path has a text.
_WAITING = """
import os, sys
at, seen = sys.argv[1], []
def wait(event, arguments):
    if event == "open" and at in str(arguments[0]) and not seen:
        seen.append(event)
        print("there", flush=True)
        sys.stdin.readline()
sys.addaudithook(wait)
from xpubuild.cli.app import run
sys.exit(run(sys.argv[2:]))
"""


def _signalled(number: int, at: str, *words: str) -> tuple[int, str]:
    """Run a command line, send it a signal when it gets to ``at``, and return how it ended."""
    with subprocess.Popen(
        [sys.executable, "-c", _WAITING, at, *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        assert child.stdout.readline() == "there\n"
        child.send_signal(number)
        _, told = child.communicate("\n" if number != signal.SIGKILL else None)
    return child.returncode, told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_export_and_import_stop_at_a_signal_and_leave_nothing(
    number: signal.Signals, here: World, tmp_path: Path
) -> None:
    mirror, carried, other = here.filled(tmp_path / "a").path, tmp_path / "out", tmp_path / "b"
    carried.mkdir()
    words = ("fetch", "--mirror", str(mirror), "--export", str(carried / "all.tar"))
    status, told = _signalled(number, f"{mirror}/files/", *words)
    assert (status, list(carried.iterdir())) == (130, []), told
    assert "interrupted" in told or "stopped" in told
    carry(mirror, carried / "all.tar")
    before = content(Mirror.open(other, create=True).path)
    words = ("fetch", "--mirror", str(other), "--import", str(carried / "all.tar"))
    status, told = _signalled(number, "/.stage-", *words)
    assert status == 130, told
    assert {name for name in content(other) if name != "index.json"} == set(before)
    bring(other, carried / "all.tar")
    assert content(other) == content(mirror)


def test_what_a_killed_export_leaves_goes_with_the_next(here: World, tmp_path: Path) -> None:
    mirror, carried = here.filled(tmp_path / "a").path, tmp_path / "out"
    carried.mkdir()
    words = ("fetch", "--mirror", str(mirror), "--export", str(carried / "all.tar"))
    assert _signalled(signal.SIGKILL, f"{mirror}/files/", *words)[0] == -signal.SIGKILL
    subprocess.run([sys.executable, "-m", "xpubuild", *words, "--quiet"], check=True)
    assert [path.name for path in carried.iterdir()] == ["all.tar"]
