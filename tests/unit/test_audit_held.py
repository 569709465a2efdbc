"""What later pip steps must leave alone: written down, compared, and every way in which it is told."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.artifacts import install_by_hand, record_line

from xpubuild.artifacts.freeze import HeldProof, hold, let_go, portable_hold
from xpubuild.artifacts.installed_repair import NOTE, Note, read_note, remove_dist, write_note
from xpubuild.artifacts.site_packages import content_key, installed_dists
from xpubuild.errors import XpuBuildError

FILES = {"torch/__init__.py": b"torch", "torch/größe.txt": b"x"}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "env" / "lib" / "python3.12" / "site-packages"
    folder.mkdir(parents=True)
    (tmp_path / "env" / "pyvenv.cfg").write_text("version = 3.12\n")
    install_by_hand(folder, "torch", "2.8.0+xpu", FILES)
    return folder


def refuses(action: Callable[[], object], said: str) -> None:
    with pytest.raises(XpuBuildError) as caught:
        action()
    assert said in f"{caught.value.what}: {caught.value.why}"


def test_it_is_written_down_once_and_proved(site: Path, tmp_path: Path) -> None:
    file = tmp_path / "held" / "torch.txt"
    assert hold(site, "Torch", file) == "Torch==2.8.0+xpu"
    key = content_key(installed_dists(site)[0])
    assert file.read_text() == (
        f"# what later pip steps must leave alone\n# RECORD sha256={key}\nTorch==2.8.0+xpu\n"
    )
    proof = HeldProof(str(site), (str(file),))
    assert proof.check() == {"owners": {"torch": ["torch 2.8.0+xpu"]}, "held": {"Torch": "2.8.0+xpu"}}
    assert proof.describe() == "one owner each of torch/ and triton/, and torch unchanged"
    assert HeldProof(str(site), ()).describe() == "one owner each of torch/ and triton/"
    assert proof.key() == {"proof": "held", "site_packages": str(site), "held": [str(file)]}


def test_the_key_is_of_names_and_hashes_below_site_packages(site: Path) -> None:
    (dist,) = installed_dists(site)
    before = content_key(dist)
    with (dist.info / "RECORD").open("a") as record:
        record.write("../../../bin/x,sha256=1,1\ntorch/x.pyc,,\n")
    assert content_key(dist) == before
    with (dist.info / "RECORD").open("a") as record:
        record.write("torch/more.py,sha256=1,1\n")
    assert content_key(dist) != before


def test_what_is_not_there_or_damaged_is_not_held(site: Path, tmp_path: Path) -> None:
    refuses(lambda: hold(site, "triton", tmp_path / "x"), "triton is not installed in")
    record = site / "torch-2.8.0+xpu.dist-info" / "RECORD"
    record.write_text("one,two\n")
    refuses(lambda: hold(site, "torch", tmp_path / "x"), "the RECORD of torch cannot be used")
    record.unlink()
    refuses(lambda: hold(site, "torch", tmp_path / "x"), "the RECORD of torch cannot be used")


def test_another_build_is_let_go(site: Path, tmp_path: Path) -> None:
    file = tmp_path / "torch.txt"
    assert let_go(site, file) is None
    hold(site, "torch", file)
    assert let_go(site, file) is None
    record = site / "torch-2.8.0+xpu.dist-info" / "RECORD"
    whole = record.read_text()
    record.write_text("one,two\n")
    assert let_go(site, file) is None, "what is damaged is repaired before"
    (site / "torch" / "more.py").write_bytes(b"1")
    record.write_text(whole + ",".join(record_line("torch/more.py", b"1")) + "\n")
    assert let_go(site, file) == (
        "torch 2.8.0+xpu and 3 of its files: another build than the one that was installed"
    )
    assert list(site.iterdir()) == []
    assert let_go(site, file) is None
    install_by_hand(site, "torch", "2.9.0", FILES)
    assert let_go(site, file) is None


def test_two_owners_are_told(site: Path, tmp_path: Path) -> None:
    file = tmp_path / "torch.txt"
    hold(site, "torch", file)
    install_by_hand(site, "torch-other", "1.0", {"torch/__init__.py": b"other"})
    (site / "left-1.0.dist-info").mkdir()
    for held in ((str(file),), ()):
        refuses(
            HeldProof(str(site), held).check,
            "2 distributions contain torch/: torch 2.8.0+xpu, torch-other 1.0",
        )


@pytest.mark.parametrize(
    ("how", "found"),
    [
        ("gone", "nothing is installed"), ("other version", "torch 2.9.0 is installed"),
        ("other build", "another build of torch 2.8.0+xpu is"),
        ("no record", "a torch with an unusable RECORD"),
    ],
)  # fmt: skip
def test_what_was_replaced_is_told(site: Path, tmp_path: Path, how: str, found: str) -> None:
    file = tmp_path / "torch.txt"
    hold(site, "torch", file)
    info = site / "torch-2.8.0+xpu.dist-info"
    if how == "other build":
        with (info / "RECORD").open("a") as record:
            record.write("torch/more.py,sha256=1,1\n")
    elif how == "no record":
        (info / "RECORD").write_text("one,two\n")
    else:
        info.rename(site / ("torch-2.9.0.dist-info" if how == "other version" else "x-1.dist-info"))
    refuses(
        HeldProof(str(site), (str(file),)).check, f"torch 2.8.0+xpu was replaced by a later pip step: {found}"
    )


@pytest.mark.parametrize(
    ("requires", "fits"),
    [
        ("torch==2.8.0", True), ("torch>=2.9", False), ("torch<2.8", False), ("numpy>=9", True),
        ("Torch==2.7; extra == 'x'", True), ("torch==2.7", False), ("not valid >", True),
    ],
)  # fmt: skip
def test_who_asks_for_another_version_is_told(site: Path, tmp_path: Path, requires: str, fits: bool) -> None:
    file = tmp_path / "torch.txt"
    hold(site, "torch", file)
    info = install_by_hand(site, "vision", "0.1", {})
    (info / "METADATA").write_text(f"Name: vision\nRequires-Dist: {requires}\n")
    proof = HeldProof(str(site), (str(file),))
    if fits:
        proof.check()
    else:
        refuses(proof.check, "vision 0.1 requires torch")


def test_notes_that_are_gone_or_changed_are_told(site: Path, tmp_path: Path) -> None:
    file = tmp_path / "a note.txt"
    proof = HeldProof(str(site), (str(file),))
    refuses(proof.check, "a note.txt was removed")
    wrong = ("torch==1\n", f"# RECORD sha256={'0' * 64}\n", f"# RECORD sha256={'0' * 63}\ntorch==1\n")
    for data in (*map(str.encode, wrong), b"\xd1torch==2.13.0 # RECORD"):
        file.write_bytes(data)
        with pytest.raises(XpuBuildError) as caught:
            proof.check()
        assert (caught.value.what, caught.value.commands) == (f"{file} was changed", (f"rm '{file}'",))


def test_the_same_constraint_without_xpubuild(tmp_path: Path) -> None:
    file = tmp_path / "my held" / "pip.txt"
    make, write = portable_hold(sys.executable, "pip", str(file))
    assert make == f"mkdir -p -- '{file.parent}'"
    subprocess.run(["sh", "-e", "-c", f"{make}\n{write}"], check=True)
    assert file.read_text().startswith("pip==")


def test_the_note_of_what_uv_installed(site: Path) -> None:
    place = site.parents[2] / NOTE
    for text in ("{", "[]", '{"unfinished": []}', '{"unfinished": [], "doubtful": 3}'):
        place.write_text(text)
        assert read_note(site) == Note()
    write_note(site, Note(frozenset({"b", "a"}), frozenset({"C"})))
    assert json.loads(place.read_text()) == {"unfinished": ["a", "b"], "doubtful": ["C"]}
    assert read_note(site) == Note(frozenset({"a", "b"}), frozenset({"c"}))
    write_note(site, Note())
    assert not place.exists()
    write_note(site, Note())
    (dist,) = installed_dists(site)
    assert dist.installer == "pip"
    (dist.info / "INSTALLER").write_text(" uv\n")
    write_note(site, Note(frozenset({"x"}), frozenset({"y"})))
    remove_dist(site, "torch")
    assert read_note(site) == Note(frozenset({"x"}), frozenset({"y", "torch"}))
    assert dist.installer == ""
