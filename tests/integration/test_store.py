"""Wheels that are kept: taken instead of built, and built where what is kept is not what it should be."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from integration.engine_plans import go
from integration.gitserver import Upstream, git_server
from integration.small_world import BACKEND, PYPROJECT
from integration.store_world import DIST, FILE, a_store, keeper, plan_of, record_of
from support.cli import here
from support.documents import check
from support.engine import Recorder, lines_of, small_disk

from xpubuild.engine.events import Notice
from xpubuild.engine.journal import Journal
from xpubuild.engine.model import Plan
from xpubuild.supply.depot.kept_wheels import FolderStore

#: Also after errors.
pytestmark = pytest.mark.usefixtures("nothing_stays_open")


def run(plan: Plan) -> tuple[list[str], list[str]]:
    """Run a plan; return what it built and its warnings."""
    sink = Recorder()
    outcome = go(plan, sink=sink)
    assert not outcome.errors, outcome.errors
    return list(lines_of(Path(plan.workspace) / "built")), [
        item.text for item in sink.of(Notice) if item.level == "warning"
    ]


def evidence(plan: Plan) -> dict[str, object]:
    with Journal(Path(plan.workspace) / "journal.db", read_only=True) as journal:
        record = journal.record("small.wheel")
    assert record is not None
    return {str(item["proof"]): item for item in record.evidence}


def built_once(folder: Path) -> FolderStore:
    store = a_store(folder / "store")
    assert run(plan_of(folder / "first", keeper([store]))) == (["built"], [])
    return store


def test_the_second_workspace_takes_the_wheel_and_proves_it(tmp_path: Path) -> None:
    store = built_once(tmp_path)
    plan = plan_of(tmp_path / "second", keeper([store]), body="another = 1\n")
    assert run(plan) == ([], [])
    first, second = (tmp_path / name / "wheels" / FILE for name in ("first", "second"))
    assert second.read_bytes() == first.read_bytes()
    told = evidence(plan)
    taken = told["taken from a store"]
    assert isinstance(taken, dict)
    assert (taken["store"], taken["identity"]) == (store.name, keeper([store]).identity)
    assert any("audited" in name for name in told)
    assert "published as proved" in told


def other_wheel(store: FolderStore) -> None:
    """A wheel of another content with a record that fits: what only a proof can tell."""
    wheel = store.root / record_path(store)
    document = json.loads(wheel.read_text())
    path = store.root / "wheels" / DIST / f"{document['sha256']}.whl"
    path.write_bytes(b"no wheel at all")
    changed = {**document, "sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "size": 15}
    path.rename(path.with_name(f"{changed['sha256']}.whl"))
    wheel.write_text(json.dumps(changed))


def record_path(store: FolderStore) -> str:
    return str(next((store.root / "wheels" / DIST).glob("*.json")).relative_to(store.root))


def the_wheel(store: FolderStore) -> Path:
    return next((store.root / "wheels" / DIST).glob("*.whl"))


DAMAGE: dict[str, Callable[[FolderStore], object]] = {
    "altered": lambda store: the_wheel(store).write_bytes(the_wheel(store).read_bytes().swapcase()),
    "truncated": lambda store: os.truncate(the_wheel(store), 100),
    "replaced": other_wheel,
    "gone": lambda store: the_wheel(store).unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_not_as_it_was_kept_is_built_instead_with_a_warning_and_kept_anew(
    tmp_path: Path, damage: str
) -> None:
    store = built_once(tmp_path)
    kept = keeper([store])
    DAMAGE[damage](store)
    built, told = run(plan_of(tmp_path / "second", kept if damage != "replaced" else keeper([store])))
    assert built == ["built"]
    assert "it is built instead" in told[0]
    if damage != "replaced":  # its hash is right: only the proofs of an install tell
        assert run(plan_of(tmp_path / "third", keeper([store])))[0] == []


@pytest.mark.needs("mount")
def test_a_full_store_is_a_warning_and_the_build_is_done(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "16k") as disk:
        store = a_store(disk / "store")
        (disk / "filler").write_bytes(bytes(12_000))
        plan = plan_of(tmp_path / "ws", keeper([store]), body="x = 1\n" * 20_000)
        built, told = run(plan)
        assert built == ["built"]
        assert "not kept" in told[0]
        assert "no space left" in told[0]
        assert list(store.records()) == []


_KEEP = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = sys.argv[4].split(":")
from integration.store_world import a_store, record_of
import xpubuild.supply.depot.kept_wheels as folder
left = int(sys.argv[3])
def counted(real):
    def call(*words, **named):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*words, **named)
    return call
for name in ("fsync", "link", "open", "unlink"):
    setattr(os, name, counted(getattr(os, name)))
wheel = Path(sys.argv[2])
print(a_store(Path(sys.argv[1])).keep(record_of(wheel), wheel))
"""


def keeping(store: Path, wheel: Path, kill_at: int = 0) -> subprocess.Popen[str]:
    words = [str(store), str(wheel), str(kill_at), ":".join(sys.path)]
    return subprocess.Popen([sys.executable, "-c", _KEEP, *words], stdout=subprocess.PIPE, text=True)


def whole(store: FolderStore, into: Path) -> bool:
    """Whether the store has the record, with its wheel; a record without one must never be seen."""
    into.mkdir(exist_ok=True)
    found = [record for _, record in store.records()]
    for record in found:
        assert not isinstance(record, str), record
        store.bring(record, into).unlink()
    return bool(found)


def test_a_kill_at_any_point_leaves_nothing_half_visible(tmp_path: Path, kill_points: Sequence[int]) -> None:
    plan_of(tmp_path / "ws", keeper([]))
    wheel = tmp_path / "ws" / "ready" / FILE
    for point in kill_points:
        store = a_store(tmp_path / f"store{point}")
        with keeping(store.root, wheel, point) as process:
            process.communicate()
        whole(store, tmp_path / "into")
        assert store.keep(record_of(wheel), wheel) == ""
        assert whole(store, tmp_path / "into")
        if process.returncode != -signal.SIGKILL:
            break


@pytest.fixture
def kill_points(thorough: bool) -> Sequence[int]:
    return range(1, 40) if thorough else (2, 5, 7)


def test_of_two_writers_at_once_one_is_first_and_the_other_is_told(tmp_path: Path) -> None:
    store = a_store(tmp_path / "store")
    wheels = []
    for name in ("one", "two"):
        plan_of(tmp_path / name, keeper([]), body=f"maker = {name!r}\n")
        wheels.append(tmp_path / name / "ready" / FILE)
    processes = [keeping(store.root, wheel) for wheel in wheels]
    said = [process.communicate()[0].strip() for process in processes]
    assert sorted(map(bool, said)) == [False, True]
    assert "another build of the same identity" in max(said)
    assert whole(store, tmp_path / "into")
    ((_, record),) = store.records()
    assert record == record_of(wheels[said.index("")])


_KEEPING = {"XPUBUILD_STORE_READ_ONLY": "0"}
RECIPE = """
schema: 1
name: alone
title: a package from source
target: cpu
needs: {{disk_gib: 0.01}}
components:
  mine:
    kind: source
    dist: mine
    audit: {{cxx11_abi: false}}
    source: {{url: "{url}", commit: {commit}}}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Iterator[Path]:
    upstream = Upstream.make(tmp_path / "srv" / "mine.git")
    backend = BACKEND.replace('b"Requires-Dist: tiny-wheel>=1.0\\n"', 'b""')
    commit = upstream.commit({"pyproject.toml": PYPROJECT, "backend.py": backend, "mine.py": "x = 1\n"})
    with git_server(upstream.path.parent) as server:
        path = tmp_path / "alone.yaml"
        path.write_text(RECIPE.format(url=server.url("mine.git"), commit=commit))
        yield path


def test_the_commands_from_the_first_build_to_a_shared_store_and_back(tmp_path: Path, recipe: Path) -> None:
    """Built once; the second workspace, also over a shared folder, takes it; gc keeps what is used."""

    warned: list[str] = []

    def xpubuild(*words: str, cache: str, status: int = 0, **more: str) -> dict[str, object]:
        env = {
            "XDG_CACHE_HOME": str(tmp_path / cache),
            "XDG_DATA_HOME": str(tmp_path / "data"),
            **_KEEPING,
            **more,
        }
        result = here(*words, "--json", **env)
        assert result.status == status, result.err
        warned.append(" ".join(result.err.split()))
        return result.document()

    def install(name: str, *words: str, cache: str, **more: str) -> dict[str, object]:
        where = ("--workspace", str(tmp_path / name), "--until", "mine.install", *words)
        return check(xpubuild("install", str(recipe), *where, cache=cache, **more), "receipt")

    def from_store(receipt: dict[str, object]) -> list[object]:
        steps = receipt["steps"]
        assert isinstance(steps, list)
        return [
            item["store"]
            for step in steps
            for item in step["evidence"]
            if item["proof"] == "taken from a store"
        ]

    gone = ("--store", str(tmp_path / "gone"))
    assert from_store(install("one", *gone, cache="cache")) == []
    assert f"the store {tmp_path / 'gone'} is not used: it is not there" in warned[-1]
    assert not (tmp_path / "gone").exists()
    own = str(tmp_path / "cache" / "xpubuild")
    plan = check(xpubuild("plan", str(recipe), "--workspace", str(tmp_path / "two"), cache="cache"), "plan")
    (said,) = [step["store"] for step in plan["steps"] if step["store"]]
    assert (said["answer"], said["store"]) == ("kept", own)
    (kept,) = check(xpubuild("store", "list", cache="cache"), "store")["stores"][0]["wheels"]
    assert (kept["identity"], kept["recipe"], kept["problem"]) == (said["identity"], "alone", "")

    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2775)
    words = ("store", "push", "--store", str(shared))
    assert "not used" in str(xpubuild(*words, cache="cache", status=40)["error"])
    trusted = {"XPUBUILD_TRUSTED_STORES": str(shared)}
    (row,) = check(xpubuild(*words, cache="cache", **trusted), "store-copy")["wheels"]
    assert row["kept"]
    # Another user of the shared store: an empty cache, and nothing is kept with --store-read-only.
    taken = install("three", "--store", str(shared), "--store-read-only", cache="other", **trusted)
    assert from_store(taken) == [str(shared)]
    assert [step["store"] for step in taken["steps"] if step["store"]] == [str(shared)]
    pulled = xpubuild("store", "pull", str(recipe), "--store", str(shared), cache="other", **trusted)
    assert [item["kept"] for item in check(pulled, "store-copy")["wheels"]] == [True]
    sizes = check(xpubuild("store", "size", cache="other"), "store-size")["stores"]
    assert [item["wheels"] for item in sizes] == [1]

    record = Path(own) / "wheels" / "mine" / f"{kept['identity']}.json"
    old = record.stat().st_mtime - 90 * 86_400
    for path in record.parent.iterdir():
        os.utime(path, (old, old))
    assert xpubuild("store", "gc", cache="cache", status=2)["error"]
    gone = check(xpubuild("store", "gc", "--yes", cache="cache"), "store-gc")["removed"]
    assert isinstance(gone, list)
    assert len(gone) == 2
    assert list(record.parent.iterdir()) == []
