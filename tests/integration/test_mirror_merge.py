"""Importing into a damaged mirror: what is sound there stays, what was added goes, nothing is lost."""

from __future__ import annotations

import copy
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from integration.mirror_world import World, content, world

from xpubuild.engine.events import NullSink
from xpubuild.engine.process import Cancel
from xpubuild.errors import SourceIntegrityError
from xpubuild.install.fetch_export import export_mirror, import_mirror
from xpubuild.supply.mirror import writing
from xpubuild.supply.mirror.entries import SETS, Entry
from xpubuild.supply.mirror.index import write_index
from xpubuild.supply.mirror.store import Mirror

_WHEEL = "demo-1.0-py3-none-any.whl"


class Shared:
    """A mirror of two recipes, and an export of the second that was made elsewhere: with its pin alone."""

    def __init__(self, here: World) -> None:
        root = here.root
        self.here = here
        self.donor = root / "donor"
        self.first = here.inputs(_WHEEL)
        self.second = here.inputs(_WHEEL, commit=here.commits["next"], recipe="second")
        here.filled(root / "shared", self.first)
        self.mirror = here.filled(root / "shared", self.second)
        self.export = root / "second.tar"
        export_mirror(here.filled(self.donor, self.second).path, self.export, sink=NullSink())

    @property
    def top(self) -> Path:
        (found,) = self.mirror.path.glob("git/*-top-*.git")
        return found

    def bring(self) -> None:
        import_mirror(self.mirror.path, self.export, sink=NullSink(), cancel=Cancel())

    def require_both(self) -> None:
        assert self.mirror.check() == []
        for inputs in (self.first, self.second):
            assert self.here.fetch(self.mirror.path, inputs, offline=True).run()["status"] == "ok"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """Fetched once: each test damages a copy."""
    with world(tmp_path_factory.mktemp("world")) as here:
        yield Shared(here)


@pytest.fixture
def shared(made: Shared, tmp_path: Path) -> Shared:
    found = copy.copy(made)
    found.mirror = Mirror(shutil.copytree(made.mirror.path, tmp_path / "shared"))
    return found


def _flipped(path: Path) -> None:
    data = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])


def _lose_entry(shared: Shared, *, removed: bool = False) -> None:
    """Change a byte in the entry of top, or remove it from the index as if it had never been."""
    if removed:
        write_index(shared.mirror.path, [entry for entry in shared.mirror.entries().values()
                                         if entry.name != shared.top.name])  # fmt: skip
        return
    index = shared.mirror.path / "index.json"
    index.write_bytes(index.read_bytes().replace(f'"id":"git-{shared.top.name}'.encode(), b'"id":"gat-', 1))


_MENDED: dict[str, Callable[[Shared], None]] = {
    "HEAD": lambda it: _flipped(it.top / "HEAD"),
    "config removed": lambda it: (it.top / "config").unlink(),
    "shallow": lambda it: _flipped(it.top / "shallow"),
    "the pin of the other": lambda it: _flipped(it.top / "refs/xpubuild/pins" / it.here.commits["top"]),
    "the pin of both sides": lambda it: _flipped(it.top / "refs/xpubuild/pins" / it.here.commits["next"]),
    "its entry": _lose_entry,
    "its entry removed": lambda it: _lose_entry(it, removed=True),
}


@pytest.mark.parametrize("name", _MENDED)
def test_an_import_keeps_the_commits_of_other_recipes(shared: Shared, name: str) -> None:
    _MENDED[name](shared)
    assert shared.mirror.check() != []
    shared.bring()
    shared.require_both()


def _lose_pack(shared: Shared) -> None:
    known = {path.name for path in shared.donor.glob("git/*-top-*.git/objects/pack/*")}
    _flipped(next(path for path in shared.top.glob("objects/pack/*.pack") if path.name not in known))


def _lose_pack_and_entry(shared: Shared) -> None:
    _lose_pack(shared)
    _lose_entry(shared)


@pytest.mark.parametrize("damage", [_lose_pack, _lose_pack_and_entry])
def test_an_import_that_would_lose_commits_is_refused_and_names_them(
    shared: Shared, damage: Callable[[Shared], None]
) -> None:
    damage(shared)
    before = content(shared.mirror.path)
    with pytest.raises(SourceIntegrityError, match=shared.here.commits["top"]) as caught:
        shared.bring()
    assert caught.value.exit_code == 31
    assert caught.value.evidence["lost"] == [shared.here.commits["top"]]
    assert content(shared.mirror.path) == before


def test_a_link_in_the_place_of_a_file_is_damage_as_well(shared: Shared) -> None:
    (shared.top / "shallow").unlink()
    (shared.top / "shallow").symlink_to("/nowhere")
    _lose_entry(shared, removed=True)
    with pytest.raises(SourceIntegrityError, match=shared.here.commits["top"]):
        shared.bring()


def test_an_export_with_all_commits_takes_the_place_of_what_is_beyond_repair(
    shared: Shared, tmp_path: Path
) -> None:
    whole = tmp_path / "whole.tar"
    export_mirror(shared.mirror.path, whole, sink=NullSink())
    _lose_pack(shared)
    (shared.top / "objects" / "info").mkdir(exist_ok=True)
    (shared.top / "objects" / "info" / "alternates").write_text("/srv/theirs\n")
    import_mirror(shared.mirror.path, whole, sink=NullSink(), cancel=Cancel())
    shared.require_both()


@pytest.mark.parametrize(
    "added",
    [
        "git/TOP/objects/info/alternates",
        "git/TOP/hooks/post-checkout",
        "git/TOP/packed-refs",
        "files/WHEEL/x",
    ],
)
def test_an_import_removes_what_was_added(shared: Shared, added: str) -> None:
    wheel = next(shared.mirror.path.glob("files/*/*.whl")).parent.name
    file = shared.mirror.path / added.replace("TOP", shared.top.name).replace("WHEEL", wheel)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("/srv/theirs\n")
    assert len(shared.mirror.check()) == 1
    shared.bring()
    assert not file.exists()
    shared.require_both()


def test_links_are_refused_and_folders_in_the_place_of_files_are_replaced(
    shared: Shared, tmp_path: Path
) -> None:
    whole = tmp_path / "whole.tar"
    export_mirror(shared.mirror.path, whole, sink=NullSink())
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.tex").write_text("x")
    shutil.rmtree(shared.top / "objects")
    (shared.top / "objects").symlink_to(theirs)
    (shared.top / "HEAD").unlink()
    (shared.top / "HEAD").mkdir()
    (shared.top / "HEAD" / "x").write_text("x")
    wheel = next(shared.mirror.path.glob("files/*/*.whl")).parent
    shutil.rmtree(wheel)
    wheel.symlink_to(theirs)
    with pytest.raises(SourceIntegrityError, match="symbolic link"):
        import_mirror(shared.mirror.path, whole, sink=NullSink(), cancel=Cancel())
    (shared.top / "objects").unlink()
    import_mirror(shared.mirror.path, whole, sink=NullSink(), cancel=Cancel())
    shared.require_both()
    assert [path.name for path in theirs.iterdir()] == ["thesis.tex"]


def test_an_import_ends_with_a_look_at_what_it_has_put_in_place(
    shared: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = writing.finish

    def spoiling(root: Path, ready: Path) -> None:
        really(root, ready)
        _flipped(next(root.glob("files/*/*.whl")))

    monkeypatch.setattr(writing, "finish", spoiling)
    with pytest.raises(SourceIntegrityError, match=_WHEEL):
        import_mirror(tmp_path / "new", shared.export, sink=NullSink(), cancel=Cancel())


def _stale(shared: Shared, tmp_path: Path) -> Path:
    """Damage what an import replaces, removes and adds to; return an export that mends all of it."""
    whole = tmp_path / "whole.tar"
    export_mirror(shared.mirror.path, whole, sink=NullSink())
    _lose_pack(shared)
    (shared.top / "packed-refs").write_text("x")
    _flipped(next(shared.mirror.path.glob("files/*/*.whl")))
    return whole


_CHILD = """
import os, sys
from pathlib import Path
from xpubuild.supply.mirror.importing import import_file
from xpubuild.supply.mirror.index import write_index
from xpubuild.supply.mirror.store import Mirror
stop, seen = int(sys.argv[3]), 0
def count(event, arguments):
    global seen
    if event in ("os.rename", "os.remove", "shutil.rmtree"):
        seen += 1
        if seen == stop:
            os.kill(os.getpid(), 9)
mirror = Mirror.open(Path(sys.argv[2]))
sys.addaudithook(count)
import_file(Path(sys.argv[1]), mirror)
"""


def test_killed_at_any_point_an_import_leaves_a_damaged_mirror_as_it_was_or_finishes(
    shared: Shared, tmp_path: Path
) -> None:
    whole = _stale(shared, tmp_path)
    before, killed, states = content(shared.mirror.path), 0, set()
    for stop in range(1, 200, 5):
        into = tmp_path / f"into-{stop}"
        shutil.copytree(shared.mirror.path, into)
        argv = [sys.executable, "-c", _CHILD, str(whole), str(into), str(stop)]
        status = subprocess.run(argv, check=False).returncode
        is_begun = any(into.glob(".commit-*"))
        if status and not is_begun:
            now = content(into)
            as_it_was = {path: data for path, data in now.items() if not path.startswith(".stage-")} == before
            assert as_it_was or Mirror(into).check() == [], stop
        if is_begun:
            with Mirror.open(into).writing():
                pass
            assert Mirror.open(into).check() == [], stop
        states.add((bool(status), is_begun))
        shutil.rmtree(into)
        if status == 0:
            break
        assert status == -signal.SIGKILL
        killed += 1
    assert killed >= 4
    assert states >= {(True, False), (True, True), (False, False)}


# --- what sets need ------------------------------------------------------------------------------------


def _forget(shared: Shared, entry: Entry) -> None:
    shared.mirror.drop(entry.id, entry.folder)


def _of_top(shared: Shared) -> Entry:
    return shared.mirror.entries()[f"git-{shared.top.name}"]


def test_a_set_without_its_file_is_damage_and_a_fetch_mends_or_forgets_it(shared: Shared) -> None:
    (wheel,) = shared.mirror.files()
    _forget(shared, wheel)
    found = [item for item in shared.mirror.check() if item.path != "wheels.html"]
    assert {item.path for item in found} == {f"files/{wheel.sha256}"}
    named = [name for item in found for name in ("demo", "second") if f"({name}-" in item.why]
    assert sorted(named) == ["demo", "second"], [item.why for item in found]
    assert all(item.entry.startswith("set-") and wheel.sha256 in item.why for item in found)
    with pytest.raises(SourceIntegrityError, match=wheel.sha256):
        shared.here.fetch(shared.mirror.path, shared.first, offline=True).run()
    shared.here.fetch(shared.mirror.path, shared.first).run()
    assert shared.mirror.check() == []
    assert {item.recipe for item in shared.mirror.sets()} == {"demo"}
    shared.here.fetch(shared.mirror.path, shared.second).run()
    shared.require_both()


def test_a_set_without_its_repository_is_damage_and_any_fetch_mends_it(shared: Shared) -> None:
    entry = _of_top(shared)
    _forget(shared, entry)
    found = shared.mirror.check()
    assert {item.entry for item in found} == {entry.id}
    assert {commit for commit in entry.pins if any(commit in item.why for item in found)} == set(entry.pins)
    third = shared.here.inputs(_WHEEL, commit=shared.here.commits["older"], recipe="third")
    shared.here.fetch(shared.mirror.path, third).run()
    shared.require_both()


def test_an_import_that_brings_a_set_without_its_needs_is_refused(shared: Shared, tmp_path: Path) -> None:
    (wheel,) = shared.mirror.files()
    _forget(shared, wheel)
    export_mirror(shared.mirror.path, tmp_path / "lacking.tar", sink=NullSink())
    with pytest.raises(SourceIntegrityError, match=wheel.sha256[:12]) as caught:
        import_mirror(tmp_path / "new", tmp_path / "lacking.tar", sink=NullSink(), cancel=Cancel())
    assert caught.value.exit_code == 31
    assert not list((tmp_path / "new").glob(f"{SETS}/*"))


def test_a_single_lost_commit_is_named(shared: Shared) -> None:
    """As an import that lost the pin of another recipe would leave it: everything else fits."""
    top = shared.top
    shutil.rmtree(top)
    shutil.copytree(shared.donor / "git" / top.name, top)
    shared.mirror.rewrite(Mirror(shared.donor).entries()[f"git-{top.name}"])
    (found,) = shared.mirror.check()
    assert found.path == f"git/{shared.top.name}"
    assert shared.here.commits["top"] in found.what
    assert "an earlier fetch (demo-" in found.why
    third = shared.here.inputs(_WHEEL, commit=shared.here.commits["older"], recipe="third")
    shared.here.fetch(shared.mirror.path, third).run()
    shared.require_both()


# --- nothing is made of a file that is refused ------------------------------------------------------------


def test_a_file_that_is_refused_makes_no_mirror(shared: Shared, tmp_path: Path) -> None:
    good = shared.export.read_bytes()
    place = good.index(b"demo demo demo")
    for data in (b"", b"no export", good[:-1], good[:place] + b"D" + good[place + 1 :]):
        (tmp_path / "bad.tar").write_bytes(data)
        with pytest.raises(SourceIntegrityError):
            import_mirror(tmp_path / "new", tmp_path / "bad.tar", sink=NullSink(), cancel=Cancel())
        assert not (tmp_path / "new").exists()


def test_a_repository_that_lost_a_file_is_not_entered_without_it(shared: Shared) -> None:
    entry = _of_top(shared)
    pack = next(shared.top.glob("objects/pack/*.pack"))
    pack.unlink()
    with pytest.raises(SourceIntegrityError, match=pack.name):
        shared.mirror.note_repository(entry.url, entry.pins[0])
    assert _of_top(shared) == entry
