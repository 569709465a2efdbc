"""Nothing is left: not after success, not after a full disk, not by the run after a kill at any moment.

One table over everything of the program that makes temporary files or removes what others left.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.artifacts import install_by_hand, pack
from support.imports import PACKAGE, sources
from support.interrupted import failures, killed, names, place

from xpubuild.artifacts.installed_repair import repair
from xpubuild.artifacts.wheel import read_wheel
from xpubuild.doctor.look.filesystem import write_small
from xpubuild.engine.environment import base_environment
from xpubuild.engine.files import copy_durable, write_atomic
from xpubuild.engine.temporary import scratch_folder
from xpubuild.install.fetch_packages import keep_conda_lock
from xpubuild.machine.oneapi_capture import capture
from xpubuild.supply.conda.archives import Supply, bring
from xpubuild.supply.conda.channels import resolve
from xpubuild.supply.conda.lockfile import CondaLock, CondaPackage, write_lock
from xpubuild.supply.conda.solve import Engines, Wanted, make_lock
from xpubuild.supply.depot.entries import file_entry, index_of
from xpubuild.supply.depot.folder import Depot
from xpubuild.supply.git.bare import remove_leftovers
from xpubuild.supply.git.notes import write_done, write_move
from xpubuild.supply.index.download import _part_of
from xpubuild.supply.index.files import RemoteFile

DATA = b"the content of a file\n" * 1000
SHA256, MD5 = hashlib.sha256(DATA).hexdigest(), hashlib.md5(DATA, usedforsecurity=False).hexdigest()
TOKEN = "tk-very-secret"


@dataclass(frozen=True)
class Case:
    """Work below a folder that can be done again; ``given`` makes what it needs.

    What begins with ``kept`` may be there after a failure, for the next try.
    """

    work: Callable[[Path], object]
    given: Callable[[Path], object] = lambda root: None
    kept: str | tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()


def _origin(root: Path) -> None:
    (root / "origin").mkdir()
    (root / "origin" / "a.conda").write_bytes(DATA)


def _conda(root: Path) -> None:
    url = (root / "origin" / "a.conda").as_uri().replace("/origin/", "/linux-64/")
    package = CondaPackage("a", "1", "0", "a.conda", url, SHA256, MD5)
    bring([package], root / "staging", Supply(root / "cache", lambda _: root / "origin/a.conda"), report=str)


def _mirror(root: Path) -> None:
    depot, entry = Depot.open(root / "mirror", create=True), file_entry("a.conda", SHA256, len(DATA))
    with depot.writing():
        depot.add_file(root / "origin/a.conda", entry)
        depot.publish(index_of([entry], []))


def _keep_lock(root: Path) -> None:
    keep_conda_lock(Depot.open(root / "mirror", create=True), "quickstart", "text\n")


def _download(root: Path, known: bool) -> None:
    (root / "into").mkdir(exist_ok=True)
    file = RemoteFile("a", "1", "a.whl", SHA256 if known else None, len(DATA), "https://i.example/a.whl")
    with _part_of(root / "into", file) as (path, stream):
        stream.write(DATA[len(stream.read()) :])
        stream.flush()
        path.replace(root / "into" / "a.whl")


def _scratch(root: Path) -> None:
    with scratch_folder("audit") as folder, scratch_folder("solve", root) as other:
        (folder / "x").write_bytes(DATA)
        (other / "x").mkdir()


def _notes(root: Path) -> None:
    write_move(root, {".": {"a"}})
    write_done(root, "b")


def _site(root: Path) -> None:
    site = root / "lib/python3.12/site-packages"
    site.mkdir(parents=True)
    (root / "pyvenv.cfg").write_text("version = 3.12\n")
    files = {"demo/__init__.py": b"", "demo/a/b.py": b"x = 1\n"}
    install_by_hand(site, "demo", "1.0", files, installer=False)
    install_by_hand(site, "whole", "1.0", {"whole/__init__.py": b""})
    (site / "~emo").mkdir()
    (site / "~emo/__init__.py").write_bytes(b"")


def _repair(root: Path) -> None:
    repair(root / "lib/python3.12/site-packages")


#: What a solver says: one package of the channel.
ANSWER = {
    "ok": [{
        "name": "a", "version": "1", "filename": "a-1-0.conda", "url": "https://c.example/linux-64/a-1-0.conda",
        "sha256": SHA256, "md5": MD5, "size": 1, "depends": [],
    }]
}  # fmt: skip
#: A py-rattler that notes what it got: arguments, and the modes of all files that hold the token.
RATTLER = f"""#!{sys.executable}
import json, sys
job = json.load(sys.stdin)
assert {TOKEN!r} in job["channels"][0] and {TOKEN!r} not in str(sys.argv)
print({json.dumps(ANSWER)!r})
"""
CONDA_LOCK = f"""#!{sys.executable}
import pathlib, sys
words = dict(zip(sys.argv, sys.argv[1:]))
request = pathlib.Path(words["--file"])
assert {TOKEN!r} in request.read_text() and {TOKEN!r} not in str(sys.argv)
assert request.stat().st_mode & 0o077 == 0 and request.parent.stat().st_mode & 0o077 == 0
pathlib.Path(words["--lockfile"]).write_bytes(pathlib.Path(__file__).with_name("lock").read_bytes())
"""


def _solvers(root: Path) -> None:
    for name, text in (("rattler", RATTLER), ("conda-lock", CONDA_LOCK), ("conda", "#!/bin/sh\n")):
        (root / name).write_text(text)
        (root / name).chmod(0o755)
    package = CondaPackage(
        "a", "1", "0", "a-1-0.conda", "https://c.example/linux-64/a-1-0.conda", SHA256, MD5
    )
    (root / "lock").write_text(write_lock(CondaLock((package,), ("https://c.example",), SHA256, ())))


def _solve(root: Path, engines: Engines) -> str:
    wanted = Wanted(("a",), resolve([f"https://c.example/t/{TOKEN}"]))
    return make_lock(wanted, engines, environment=base_environment(), cache=root / "cache", report=str)


def _by_rattler(root: Path) -> None:
    _solve(root, Engines(rattler=str(root / "rattler")))


def _by_conda_lock(root: Path) -> None:
    _solve(root, Engines(conda=str(root / "conda"), conda_lock=str(root / "conda-lock")))


def _setvars(root: Path) -> None:
    (root / "oneapi").mkdir()
    (root / "oneapi/setvars.sh").write_text("export CMPLR_ROOT=/o\n")


def _capture(root: Path) -> None:
    script = root / "oneapi/setvars.sh"
    capture([script], {"PATH": os.defpath, "HTTPS_PROXY": TOKEN}, root / "oneapi")


def _wheel(root: Path) -> None:
    (root / "origin").mkdir()
    pack(root / "origin", "demo", "1.0", {"demo/a.so": b"\x7fELF" + bytes(64)})


def _read_wheel(root: Path) -> None:
    seen: list[str] = []
    read_wheel(root / "origin/demo-1.0-py3-none-linux_x86_64.whl", lambda name, _: seen.append(name))
    assert seen == ["demo/a.so"]


CASES = {
    "a file written whole": Case(
        lambda root: write_atomic(root / "deep/a.json", DATA), makes=("deep/a.json",)
    ),
    "over an older one": Case(
        lambda root: write_atomic(root / "a.json", DATA), lambda root: (root / "a.json").write_bytes(b"old")
    ),
    "a file copied": Case(
        lambda root: copy_durable(root / "origin/a.conda", root / "there"), _origin, makes=("there/a.conda",)
    ),
    "a conda package": Case(_conda, _origin, makes=("staging/linux-64/a.conda",)),
    "a file of a mirror": Case(
        _mirror, _origin, makes=(
            "mirror/.lock", "mirror/index.json", f"mirror/files/{SHA256}/a.conda",
        ),
    ),
    "a conda lock of a mirror": Case(_keep_lock, _keep_lock),
    "a download that can go on": Case(
        lambda root: _download(root, True), kept=f"into/.a.whl.{SHA256[:12]}.part",
        makes=("into/a.whl",),
    ),
    "a download that cannot": Case(lambda root: _download(root, False), makes=("into/a.whl",)),
    "scratch folders": Case(_scratch),
    "a probe of doctor": Case(write_small),
    "what pip left": Case(_repair, _site, removes=tuple(
        f"lib/python3.12/site-packages/{name}" for name in (
            "demo-1.0.dist-info/METADATA", "demo-1.0.dist-info/RECORD", "demo/__init__.py", "demo/a/b.py",
            "~emo/__init__.py",
        )
    )),
    "notes of a checkout": Case(_notes, kept="xpubuild-move.json", makes=("xpubuild-checkout.json",)),
    "a solution of py-rattler": Case(_by_rattler, _solvers),
    "a solution of conda-lock": Case(_by_conda_lock, _solvers),
    "libraries of a wheel": Case(_read_wheel, _wheel),
    "an environment of oneAPI": Case(_capture, _setvars),
}  # fmt: skip
cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def _files(root: Path) -> set[str]:
    return {name for name in names(root) if (root / name).is_file()}


def _finished(case: Case, root: Path) -> set[str]:
    """Return what is there after undisturbed work, which ``makes`` and ``removes`` these files."""
    with place(root):
        case.given(root)
        before = _files(root)
        case.work(root)
        assert sorted(_files(root) - before) == sorted(case.makes)
        assert sorted(before - _files(root)) == sorted(case.removes)
        assert not names(root / "tmp")
        _require_no_secret(root)
        return names(root)


def _require_no_secret(root: Path) -> None:
    holders = [path for path in root.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]
    assert not [path for path in holders if path.parent != root], holders


@cases
def test_a_full_disk_leaves_nothing(case: Case, tmp_path: Path) -> None:
    finished = _finished(case, tmp_path / "whole")
    for at in range(1000):
        with place(tmp_path / str(at)) as root:
            case.given(root)
            seen = failures(case.work, root, at)
            if seen is None:
                assert at or case is CASES["what pip left"], "it changes nothing"
                return
            before, after = seen
            assert not {name for name in after - before - finished if not name.startswith(case.kept)}, at
            _require_no_secret(root)
            case.work(root)
            assert names(root) == finished, at
    pytest.fail("it never ends")


@cases
def test_the_run_after_a_kill_leaves_nothing(case: Case, tmp_path: Path) -> None:
    finished = _finished(case, tmp_path / "whole")
    for at in range(1000):
        with place(tmp_path / str(at)) as root:
            case.given(root)
            if not killed(case.work, root, at):
                assert at, "it changes nothing"
                return
            case.work(root)
            assert names(root) == finished, at
            _require_no_secret(root)
    pytest.fail("it never ends")


#: Who makes temporary files otherwise, and why nothing of them stays.
ELSEWHERE = {
    "engine/temporary.py": "the ones above",
    "supply/git/bare.py": "under the repository's lock; the next one that makes it removes them",
    "cli/bugs.py": "the user is told to keep it",
}


def test_nobody_else_makes_temporary_files() -> None:
    """Those without a name (TemporaryFile) go with their process."""
    makers = set()
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in (
                "mkstemp", "mkdtemp", "NamedTemporaryFile", "TemporaryDirectory", "mktemp",
            ):  # fmt: skip
                makers.add(path.relative_to(PACKAGE).as_posix())
    # The checks of verify run in the target, in a scratch folder of verify.
    assert {name for name in makers if not name.startswith("verify/suite/")} == {*ELSEWHERE}


LEFT_BY_GIT = (
    "index.lock", "HEAD.lock", "config.lock", "packed-refs.lock", "shallow.lock", "refs/heads/main.lock",
    "refs/xpubuild/pins/x.lock", "objects/pack/tmp_pack_abc", "objects/pack/tmp_idx_abc",
    "objects/pack/.tmp-12-pack-ab.pack", "objects/ab/tmp_obj_xyz", "objects/tmp_objdir-incoming-1/ab/cd",
    "objects/tmp_objdir-incoming-1/pack/tmp_pack_1",
)  # fmt: skip


def test_what_a_killed_git_leaves_is_removed_and_nothing_else(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e"]
    (tmp_path / "file.lock").write_text("x")
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "x"], ["repack", "-adq"]):
        subprocess.run([*git, *words], check=True)
    (tmp_path / "other").write_text("y")
    subprocess.run([*git, "add", "."], check=True)
    git_dir = tmp_path / ".git"
    files = {path for path in git_dir.rglob("*") if path.is_file()}
    for name in LEFT_BY_GIT:
        (git_dir / name).parent.mkdir(parents=True, exist_ok=True)
        (git_dir / name).write_text("")
    remove_leftovers(git_dir)
    assert {path for path in git_dir.rglob("*") if path.is_file()} == files
    assert (tmp_path / "file.lock").exists()
    subprocess.run([*git, "fsck", "--strict"], check=True)
    remove_leftovers(git_dir)
