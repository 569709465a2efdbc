"""Where distributions, their files and their interpreters are: looked up by files alone."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.artifacts import install_by_hand, pack, record_text

from xpubuild.artifacts import installed
from xpubuild.artifacts.installed import content_problems, installed_stamp, verify_installed
from xpubuild.artifacts.record import hash_file, is_record_file, parse_record, record_hash, recorded_names
from xpubuild.artifacts.site_packages import (
    RecordEntry,
    declared,
    installed_dists,
    is_environment,
    optional,
    prefix_of,
    quick_problem,
    runtime_folder,
    site_packages_of,
    wrong_size,
)
from xpubuild.artifacts.wheel import metadata_problems, parse_name, read_wheel, record_of
from xpubuild.errors import XpuBuildError


def refuses(action: Callable[[], object], said: str) -> None:
    with pytest.raises(XpuBuildError, match=said):
        action()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "env" / "lib" / "python3.12" / "site-packages"
    folder.mkdir(parents=True)
    (tmp_path / "env" / "pyvenv.cfg").write_text("version = 3.12\n")
    return folder


def test_environments_and_what_is_none(tmp_path: Path, site: Path) -> None:
    env = tmp_path / "env"
    assert (is_environment(env), is_environment(tmp_path)) == (True, False)
    assert (prefix_of(site), prefix_of(tmp_path / "a")) == (env, tmp_path / "a")
    (env / "lib" / "python3.1").symlink_to("python3.12")
    assert site_packages_of(env) == site == runtime_folder(env)
    (env / "pyvenv.cfg").unlink()
    refuses(lambda: site_packages_of(env), "is not a complete Python environment")
    refuses(lambda: runtime_folder(env), "is neither a Python environment nor")
    assert prefix_of(site) == site
    (env / "conda-meta").mkdir()
    assert is_environment(env)
    site.rmdir()
    refuses(lambda: site_packages_of(env), "is not a complete Python environment")
    target = tmp_path / "target"
    refuses(lambda: runtime_folder(target), "is neither a Python environment nor")
    install_by_hand(target, "demo", "1.0", {})
    assert runtime_folder(target) == target


@pytest.mark.parametrize(
    ("name", "checksum", "may"),
    [
        ("a.py", "", False), ("a.pyc", "", True), ("a.pyc", "sha256=x", False),
        ("__pycache__/a.pyc", "sha256=x", True), ("__pycache__/a.txt", "", False),
    ],
)  # fmt: skip
def test_files_that_python_makes_again_may_be_missing(
    tmp_path: Path, name: str, checksum: str, may: bool
) -> None:
    entry = RecordEntry(name, str(tmp_path / name), checksum, 1)
    assert optional(entry) is may
    assert wrong_size(entry) is not may
    entry.path.parent.mkdir(exist_ok=True)
    entry.path.write_bytes(b"x")
    assert not wrong_size(entry)
    assert wrong_size(RecordEntry(name, entry.location, checksum, 2)) is not may
    assert not wrong_size(RecordEntry(name, entry.location, checksum, None))


def test_what_an_unfinished_installation_lacks(site: Path) -> None:
    info = install_by_hand(site, "demo", "1.0", {"demo/a.py": b"1", "demo/b.py": b"2"})
    (dist,) = installed_dists(site)
    assert quick_problem(dist) is None
    (site / "demo/b.py").write_bytes(b"longer")
    assert quick_problem(dist) == "1 of 5 files are missing or incomplete: demo/b.py"
    whole = (info / "RECORD").read_text()
    (info / "RECORD").write_text(whole.replace("demo-1.0.dist-info/INSTALLER", "demo/other"))
    assert quick_problem(dist) == "its installation was not completed"
    (info / "METADATA").unlink()
    assert quick_problem(dist) == "it has no METADATA"
    (info / "RECORD").write_text('"' + "a" * 200_000)
    assert str(quick_problem(dist)).startswith("its RECORD cannot be used: ")
    (info / "RECORD").unlink()
    assert str(quick_problem(dist)).startswith("its RECORD cannot be used: ")


def test_requirements_are_read_without_extras_and_by_the_markers_given(site: Path) -> None:
    info = install_by_hand(site, "demo", "1.0", {})
    (info / "METADATA").write_text(
        "Name: demo\nRequires-Dist: a>=1\nRequires-Dist: not valid >\nRequires-Dist: b; extra == 'x'\n"
        "Requires-Dist: c; python_version < '3.0'\nRequires-Dist: d; platform_machine == 'abacus'\n\n"
    )
    (dist,) = installed_dists(site)
    assert [item.name for item in declared(dist)] == ["a"]
    given = {"python_version": "2.7", "platform_machine": "abacus"}
    assert [item.name for item in declared(dist, given)] == ["a", "c", "d"]
    (info / "METADATA").unlink()
    assert declared(dist) == []


def test_a_stamp_changes_with_every_file_but_compiled_ones(site: Path) -> None:
    info = install_by_hand(site, "demo", "1.0", {"demo/a.py": b"1", "demo/b.pyc": b"2"})
    install_by_hand(site, "other", "1.0", {"other.py": b"1"})
    stamp = installed_stamp(site, ["Demo"])
    assert installed_stamp(site, ["demo"]) == stamp != installed_stamp(site, ["demo", "other"])
    assert stamp < 1 << 56
    (site / "demo/b.pyc").unlink()
    assert installed_stamp(site, ["demo"]) == stamp
    seen = {stamp}
    for change in (
        lambda: os.utime(site / "demo/a.py", (1, 1)), lambda: (site / "demo/a.py").write_bytes(b"22"),
        lambda: os.link(site / "demo/a.py", site / "twin"), (site / "demo/a.py").unlink,
        lambda: (info / "RECORD").write_text("one,two\n"), (info / "RECORD").unlink,
    ):  # fmt: skip
        change()
        seen.add(installed_stamp(site, ["demo"]))
    assert len(seen) == 6, "a RECORD that cannot be read and none are alike"


def test_a_file_with_several_names_keeps_its_stamp(site: Path) -> None:
    install_by_hand(site, "demo", "1.0", {"demo/a.py": b"1"})
    os.link(site / "demo/a.py", site / "one")
    stamp = installed_stamp(site, ["demo"])
    os.link(site / "demo/a.py", site / "two")
    assert installed_stamp(site, ["demo"]) == stamp


def test_paths_of_a_record_are_the_same_however_they_are_written(site: Path) -> None:
    info = install_by_hand(site, "demo", "1.0", {"demo/a.py": b"1"})
    stamps = set()
    for name in ("demo/a.py", "./demo/a.py", "demo//a.py", "demo/./a.py", str(site / "demo/a.py")):
        (info / "RECORD").write_text(f"{name},,\n")
        stamps.add(installed_stamp(site, ["demo"]))
    assert len(stamps) == 1


def test_contents_and_their_hashes(site: Path, tmp_path: Path) -> None:
    for name in ("right", "wrong", "short"):
        (tmp_path / name).write_bytes(b"data")
    right = record_hash(hash_file(tmp_path / "right"))
    assert right == "sha256=Om6weQ85rIfJTzhWst0sXREOaBFgImGpqSPTuyOtyLc"
    long = record_hash(hash_file(tmp_path / "right", "sha512"), "sha512")
    entries = [
        RecordEntry(name, str(tmp_path / file), checksum, size)
        for name, file, checksum, size in (
            ("right", "right", right, 4), ("right", "right", long, None), ("gone", "gone", right, None),
            ("wrong", "wrong", right[:-1] + "A", 4), ("short", "short", right, 9), ("none", "right", "", 4),
            ("weak", "right", "md5=x", 4), ("x.dist-info/RECORD", "right", "", None),
            ("x.pyc", "gone", "", None),
        )
    ]  # fmt: skip
    assert content_problems(entries) == [
        "gone cannot be read: No such file or directory", "none has no hash in RECORD",
        "short has 4 bytes instead of 9", "weak has no hash in RECORD",
        "wrong does not match its hash in RECORD",
    ]  # fmt: skip
    assert verify_installed(site, ["not >"])["not >"]["problems"]


@pytest.mark.parametrize(
    "text",
    [
        "", "a,b,1\n\nc d/e,,\n", "a,b,1\r\nc,,\r\n", 'a,b,1\n"c,d",,\n', "a,b,1", "a,b,1,more\n/abs,,\n",
        "\u2028x,b,1\ny\x0bz,,\n",
    ],
)  # fmt: skip
def test_the_names_of_a_record_are_those_of_its_lines(text: str) -> None:
    assert recorded_names(text) == [name for name, _, _ in parse_record(text)]


@pytest.mark.parametrize("text", ["a,b\n", "a\0,b,1\n", "a,b,1\nc,d\n"])
def test_names_of_a_record_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="is not path, hash and size"):
        recorded_names(text)


def test_lines_of_a_record() -> None:
    assert list(parse_record('a,b,1\n\n"c,d",,\ne,f,2,more\n')) == [
        ("a", "b", "1"),
        ("c,d", "", ""),
        ("e", "f", "2"),
    ]
    for wrong in ("a,b\n", "a\0,b,1\n"):
        with pytest.raises(ValueError, match="is not path, hash and size"):
            list(parse_record(wrong))
    names = (
        "x.dist-info/RECORD",
        "x.dist-info/RECORD.jws",
        "x.dist-info/RECORD.p7s",
        "x.dist-info/RECORD.x",
        "RECORD",
    )
    assert [is_record_file(name) for name in names] == [True, True, True, False, False]


@pytest.mark.parametrize(
    ("metadata", "wheel", "objects", "said"),
    [
        ("Name: Demo\nVersion: 1.0.0\n", "Wheel-Version: 1.9\nTag: py3-none-any\n", (), ()),
        (None, None, (), ("has no demo-1.0.dist-info/METADATA", "has no demo-1.0.dist-info/WHEEL")),
        ("Name: demo\nVersion: x\n", "Wheel-Version: 2.0\n", (),
         ("METADATA says demo x, but", "has no Wheel-Version 1.x", "has no tags, but")),
        ("Name: demo\nVersion: 1.0\n", "Wheel-Version: 1.0\nTag: one\n", (), ("has an invalid tag: ",)),
        ("Name: other\nVersion: 1.0\n", "Wheel-Version: 1.0\nTag: py2.py3-none-any\n", ("a.so", "b.so"),
         ("says other 1.0", "has py2-none-any, py3-none-any, but", "a.so is machine code, but")),
        ("Name: demo\nVersion: 1.0\n", "Wheel-Version: 1.0\nRoot-Is-Purelib: TRUE\nTag: py3-none-any\n",
         ("a.so",), ("a.so is machine code, but",)),
    ],
    ids=range(6),
)  # fmt: skip
def test_what_does_not_agree(
    metadata: str | None, wheel: str | None, objects: tuple[str, ...], said: tuple[str, ...]
) -> None:
    claimed = parse_name(Path("demo-1.0-py3-none-any.whl"))
    info = "demo-1.0.dist-info"
    texts = {f"{info}/METADATA": metadata, f"{info}/WHEEL": wheel}
    known = {name: text for name, text in texts.items() if text is not None}
    found = list(metadata_problems("demo.whl", claimed, [info], known, objects))
    assert len(found) == len(said)
    assert all(part in item.message for part, item in zip(said, found, strict=True))
    for infos in ([], [info, "other-1.dist-info"]):
        (problem,) = metadata_problems("demo.whl", claimed, infos, known, objects)
        assert problem.message == f"the wheel has {len(infos)} .dist-info folders instead of one"


def test_wheels_that_would_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = pack(tmp_path, "demo", "1.0", {"a": bytes(100_000)})
    monkeypatch.setattr("xpubuild.artifacts.wheel._HARMLESS_BYTES", 100_000)
    assert [item.kind for item in read_wheel(wheel).problems] == ["bomb", "metadata"]
    refuses(lambda: record_of(wheel), "is not a readable wheel")
    monkeypatch.setattr("xpubuild.artifacts.wheel._HARMLESS_BYTES", 200_000)
    assert read_wheel(wheel).problems == ()
    monkeypatch.setattr("xpubuild.artifacts.wheel._MOST_MEMBERS", 3)
    assert read_wheel(wheel).problems[0].message == "it has 4 files"
    monkeypatch.setattr("xpubuild.artifacts.wheel._MOST_MEMBERS", 4)
    assert read_wheel(wheel).problems == ()
    assert set(record_of(wheel)) == {
        "a",
        *(f"demo-1.0.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD")),
    }
    twice = pack(tmp_path, "demo", "1.0", {}, record=[("a", "", ""), ("a", "", "")])
    refuses(lambda: record_of(twice), "is not a readable wheel")
    assert record_text([("a", "b", "1")]) == "a,b,1\n"


def test_whoever_interrupts_does_not_wait_for_the_files_that_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []

    def look(entry: RecordEntry) -> None:
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        looked.append(entry.name)
        time.sleep(0.01)

    monkeypatch.setattr(installed, "_content_problem", look)
    entries = [RecordEntry(str(size), str(tmp_path), "sha256=x", size) for size in range(500)]
    with pytest.raises(KeyboardInterrupt):
        installed.content_problems(entries)
    assert len(looked) < 250
