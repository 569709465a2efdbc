"""What is installed, read from files; and what repair takes away and leaves alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.artifacts import install_by_hand, pack, record_line, record_text, unzip

from xpubuild.artifacts.installed import (
    InstalledProof,
    sealed_again,
    verify_installed,
    wheel_matches_installed,
)
from xpubuild.artifacts.installed_repair import repair
from xpubuild.artifacts.site_packages import damaged_dists, site_packages_of
from xpubuild.artifacts.step_proofs import EnvironmentProof
from xpubuild.errors import AuditError

FILES = {"demo/__init__.py": b"answer = 42\n", "demo/daten/größe.txt": b"1234567890" * 100}
INFO = "demo-1.0.dist-info"


@pytest.fixture
def env(tmp_path: Path) -> Path:
    folder = tmp_path / "meine umgebung é"
    (folder / "lib" / "python3.12" / "site-packages").mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "lib64").symlink_to("lib")
    (folder / "pyvenv.cfg").write_text("version = 3.12.1\n", encoding="utf-8")
    return folder


@pytest.fixture
def site(env: Path) -> Path:
    return site_packages_of(env)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in _files(folder)}


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def test_a_sound_distribution_is_verified(site: Path) -> None:
    install_by_hand(site, "demo", "1.0", FILES)
    found = verify_installed(site, ["demo", "Demo==1.0"])
    assert found["demo"]["problems"] == []
    assert found["Demo==1.0"]["problems"] == []
    assert found["demo"]["version"] == "1.0"
    assert found["demo"]["files"] == len(FILES) + 3
    assert found["demo"]["bytes"] >= sum(map(len, FILES.values()))
    assert damaged_dists(site) == {}
    json.dumps(found)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("other", "it is not installed"),
        ("demo==2.0", "version 1.0 is installed, ==2.0 is required"),
        ("demo >", "Expected"),
    ],
)
def test_what_is_not_there_is_said(site: Path, name: str, problem: str) -> None:
    install_by_hand(site, "demo", "1.0", FILES)
    [found] = verify_installed(site, [name])[name]["problems"]
    assert problem in found


def test_a_changed_byte_is_found_by_its_hash_alone(site: Path) -> None:
    install_by_hand(site, "demo", "1.0", FILES)
    (site / "demo/__init__.py").write_bytes(b"answer = 43\n")
    assert damaged_dists(site) == {}
    [problem] = verify_installed(site, ["demo"])["demo"]["problems"]
    assert problem == "demo/__init__.py does not match its hash in RECORD"


@pytest.mark.parametrize("how", ["gone", "cut"])
def test_missing_and_cut_files_are_found_quickly(site: Path, how: str) -> None:
    install_by_hand(site, "demo", "1.0", FILES)
    place = site / "demo/daten/größe.txt"
    place.unlink() if how == "gone" else place.write_bytes(b"1234")
    assert "demo/daten/größe.txt" in damaged_dists(site)[INFO]
    assert "demo/daten/größe.txt" in verify_installed(site, ["demo"])["demo"]["problems"][0]


def test_compiled_files_may_be_others_than_the_wheel_brought(site: Path) -> None:
    # numpy 2.3 ships one, with its hash; pip compiles the module again and writes over it.
    brought = {**FILES, "demo/__pycache__/conv.cpython-312.pyc": b"as shipped", "demo/only.pyc": b"no source"}
    install_by_hand(site, "demo", "1.0", brought)
    (site / "demo/__pycache__/conv.cpython-312.pyc").write_bytes(b"compiled anew")
    assert damaged_dists(site) == {}
    assert verify_installed(site, ["demo"])["demo"]["problems"] == []
    (site / "demo/only.pyc").write_bytes(b"something else")
    assert "demo/only.pyc" in verify_installed(site, ["demo"])["demo"]["problems"][0]


def test_a_file_without_a_hash_is_not_taken_on_trust(site: Path) -> None:
    info = install_by_hand(site, "demo", "1.0", FILES)
    (site / "demo/extra.py").write_bytes(b"")
    with (info / "RECORD").open("a", encoding="utf-8") as record:
        record.write("demo/extra.py,,\n")
    assert verify_installed(site, ["demo"])["demo"]["problems"] == ["demo/extra.py has no hash in RECORD"]


def test_another_pip_is_an_upgrade_and_not_a_rewritten_record(env: Path, site: Path) -> None:
    info, other = install_by_hand(site, "pip", "1.0", FILES), {**FILES, "demo/__init__.py": b"answer = 41\n"}
    (env / "bin" / "python").touch()
    evidence = EnvironmentProof(str(env), "3.12").check()
    assert sealed_again(site, evidence) == {}
    install_by_hand(site, "pip", "1.0", other)
    assert sealed_again(site, evidence) == {"pip": info}
    info.rename(info.with_name("pip-1.1.dist-info"))
    install_by_hand(site, "pip", "1.1", other)
    assert sealed_again(site, evidence) == {}
    (site / "pip-1.1.dist-info" / "RECORD").unlink()
    assert EnvironmentProof(str(env), "3.12").check() == {"python": "3.12.1"}


BROKEN = ["no RECORD", "no METADATA", "unfinished", "garbage", "not text", "empty", "zeros"]


@pytest.mark.parametrize("broken", BROKEN)
def test_what_an_interrupted_pip_leaves(site: Path, broken: str) -> None:
    info = install_by_hand(site, "demo", "1.0", FILES, installer=broken != "unfinished")
    if broken == "no RECORD":
        (info / "RECORD").unlink()
    elif broken == "no METADATA":
        (info / "METADATA").unlink()
    elif broken == "garbage":
        (info / "RECORD").write_text("a\n", encoding="utf-8")
    elif broken == "not text":
        (info / "RECORD").write_bytes(b"\xff\xfe\x00")
    elif broken == "zeros":
        (info / "RECORD").write_bytes(b"demo/\0\0,sha256=x,1\n" + bytes(100))
    elif broken == "empty":
        (info / "RECORD").write_bytes(b"")
    assert list(damaged_dists(site)) == [INFO]
    assert verify_installed(site, ["demo"])["demo"]["problems"]
    done = repair(site)
    assert len(done) == 1
    assert INFO in done[0]
    assert not info.exists()
    known = broken not in ("no RECORD", "garbage", "not text", "empty", "zeros")
    assert (site / "demo").exists() is not known
    assert repair(site) == []


def test_two_versions_of_one_distribution_are_both_removed(site: Path) -> None:
    install_by_hand(site, "demo", "1.0", {"demo/old.py": b""})
    install_by_hand(site, "demo", "1.1", {"demo/new.py": b""})
    assert set(damaged_dists(site)) == {INFO, "demo-1.1.dist-info"}
    repair(site)
    assert list(site.iterdir()) == []


def test_repair_removes_the_files_of_what_is_damaged_and_no_others(env: Path, site: Path) -> None:
    install_by_hand(site, "good", "1.0", {"good/__init__.py": b"", "shared/__init__.py": b"x"})
    sound = snapshot(env)
    info = install_by_hand(site, "demo", "1.0", {**FILES, "shared/__init__.py": b"x", "shared/demo.py": b""})
    cache = site / "demo" / "__pycache__"
    cache.mkdir()
    (cache / "__init__.cpython-312.pyc").write_bytes(b"")
    (cache / "__init__.cpython-312.pyc.139977591848528").write_bytes(b"")
    script = env / "bin" / "demo"
    script.write_bytes(b"#!/bin/sh\n")
    with (info / "RECORD").open("a", encoding="utf-8") as record:
        record.write(record_text([record_line("../../../bin/demo", script.read_bytes())]))
    (site / "demo/__init__.py").unlink()
    [line] = repair(site)
    assert "1 of" in line
    assert snapshot(env) == sound
    assert not (site / "demo").exists()
    assert (site / "shared/__init__.py").read_bytes() == b"x"


def test_files_that_nobody_recorded_stay(site: Path) -> None:
    install_by_hand(site, "demo", "1.0", FILES)
    (site / "demo/notes.txt").write_bytes(b"the user's own")
    (site / "demo/__init__.py").unlink()
    repair(site)
    assert snapshot(site) == {"demo/notes.txt": b"the user's own"}


def test_repair_never_leaves_the_environment(tmp_path: Path, env: Path, site: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("one.txt", "two.txt", "three.py"):
        (outside / name).write_bytes(b"precious")
    (outside / "__pycache__").mkdir()
    (outside / "__pycache__" / "three.cpython-312.pyc").write_bytes(b"precious")
    (site / "link").symlink_to(outside, target_is_directory=True)
    info = install_by_hand(site, "demo", "1.0", FILES)
    steps = "../" * 4
    lines = [
        record_line(str(outside / "one.txt"), b"precious"),
        record_line(f"{steps}outside/two.txt", b"precious"),
        record_line("link/three.py", b"precious"),
        record_line("link/one.txt", b"precious"),
        record_line("link", b""),
    ]
    with (info / "RECORD").open("a", encoding="utf-8") as record:
        record.write(record_text(lines))
    before = snapshot(outside)
    (site / "demo/__init__.py").unlink()
    assert repair(site)
    assert snapshot(outside) == before
    assert not (site / "demo").exists()
    assert not (site / "link").is_symlink()


def test_without_pyvenv_cfg_only_site_packages_are_touched(tmp_path: Path) -> None:
    site = tmp_path / "usr" / "lib" / "python3.12" / "site-packages"
    site.mkdir(parents=True)
    script = tmp_path / "usr" / "demo"
    script.write_bytes(b"")
    info = install_by_hand(site, "demo", "1.0", FILES, installer=False)
    with (info / "RECORD").open("a", encoding="utf-8") as record:
        record.write("../../../demo,,\n")
    repair(site)
    assert list(site.iterdir()) == []
    assert script.exists()


def test_what_pip_set_aside_is_removed_with_the_files_it_recorded(site: Path) -> None:
    install_by_hand(site, "good", "1.0", {"space/good.py": b""})
    sound = snapshot(site)
    old = install_by_hand(
        site, "demo", "0.9", {"demo/old.py": b"", "demo/module.py": b"", "space/good.py": b""}
    )
    old.rename(site / "~emo-0.9.dist-info")
    (site / "space" / "~ested").mkdir()
    (site / "space" / "~ested" / "x.py").write_bytes(b"")
    (site / "~ingle.py").write_bytes(b"")
    done = repair(site)
    assert len(done) == 3
    assert snapshot(site) == sound


def test_pip_itself_is_kept(site: Path) -> None:
    info = install_by_hand(site, "pip", "26.3", {"pip/__init__.py": b""}, installer=False)
    assert list(damaged_dists(site)) == ["pip-26.3.dist-info"]
    assert repair(site) == []
    assert info.exists()


def test_a_wheel_and_what_is_installed_of_it(env: Path, site: Path) -> None:
    files = {
        **FILES,
        "demo-1.0.data/data/share/demo.txt": b"shared",
        "demo-1.0.data/platlib/demo/extra.py": b"extra",
        "demo-1.0.data/scripts/demo": b"#!python\n",
    }
    wheel = pack(env, "demo", "1.0", files)
    info = install_by_hand(site, "demo", "1.0", {**FILES, "demo/extra.py": b"extra"})
    (info / "WHEEL").write_text("Wheel-Version: 1.0\n", encoding="utf-8")
    (env / "share").mkdir()
    (env / "share" / "demo.txt").write_bytes(b"shared")
    assert [item.partition(" ")[0] for item in wheel_matches_installed(wheel, site)] == [
        f"{INFO}/METADATA",
        f"{INFO}/WHEEL",
    ]
    install_like(wheel, site, env)
    assert wheel_matches_installed(wheel, site) == []
    (site / "demo/__init__.py").write_bytes(b"answer = 43\n")
    (env / "share" / "demo.txt").unlink()
    first, second = wheel_matches_installed(wheel, site)
    assert first.startswith("demo-1.0.data/data/share/demo.txt cannot be read")
    assert second.startswith("demo/__init__.py does not match")


def install_like(wheel: Path, site: Path, env: Path) -> None:
    for name, data in unzip(wheel).items():
        if not name.startswith("demo-1.0.data/"):
            target = site / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)


def test_the_proof_gives_evidence_or_names_the_file(site: Path) -> None:
    info = install_by_hand(site, "demo", "1.0", FILES)
    proof = InstalledProof(str(site), ("demo==1.0",))
    assert proof.check()["installed"]["demo==1.0"]["version"] == "1.0"
    assert "demo==1.0" in proof.describe()
    assert json.dumps(proof.key())
    (site / "demo/__init__.py").write_bytes(b"answer = 43\n")
    with pytest.raises(AuditError, match="do not match their records") as caught:
        proof.check()
    assert "demo/__init__.py" in caught.value.why
    assert caught.value.commands == (f"rm -r '{info}'",)
    with pytest.raises(AuditError) as caught:
        InstalledProof(str(site), ("gone", "not >")).check()
    assert "gone: it is not installed" in caught.value.why
    assert (caught.value.fix, caught.value.commands) == ("run the same command again", ())
