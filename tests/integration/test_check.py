"""``check``: content that changed with its old size and time is found, named, and made anew."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from integration.small_world import SmallWorld, small_world
from integration.test_components_held import wheel
from support.documents import check

from xpubuild.engine.lock import workspace_lock
from xpubuild.recipe.load import load
from xpubuild.supply.git.pin import mirror_name


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallWorld]:
    with small_world(tmp_path_factory.mktemp("world")) as made:
        installed = made.install()
        assert installed.status == 0, installed.err
        yield made


def zeroed(path: Path) -> Path:
    """Replace the content by zeros; size, inode and modification time are what they were."""
    status = path.stat()
    with path.open("r+b") as stream:
        stream.write(bytes(status.st_size))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    return path


def looked(world: SmallWorld, status: int, *words: str) -> dict[str, Any]:
    """Check the workspace, and return the document."""
    result = world("check", str(world.workspace), "--json", *words)
    assert result.status == status, result.err
    return check(json.loads(result.out), "check")


def test_a_sound_workspace_is_sound_and_nothing_runs_again(world: SmallWorld) -> None:
    document = looked(world, 0)
    assert (document["damaged"], document["unowned"], document["edited"]) == ([], [], [])
    assert document["checked"]["packages"] >= 3
    assert (document["checked"]["wheels"], document["checked"]["sources"]) == (1, 1)
    again = world.install("--json")
    assert json.loads(again.out)["ran"] == []


def test_a_package_that_is_gone_altogether_is_missed(world: SmallWorld) -> None:
    """As a repair leaves it that was interrupted, and as whoever deletes a folder does."""
    for path in world.site.glob("tiny*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (damage,) = looked(world, 60)["damaged"]
    assert (damage["kind"], damage["name"], damage["step"]) == ("package", "tiny-wheel", "tiny")
    # Not if the last install did without: then it may have gone with an earlier environment.
    plan = world.workspace / "build" / "plan.json"
    text = plan.read_text()
    plan.write_text(text.replace('"id": "tiny"', '"id": "other"'))
    assert looked(world, 0)["damaged"] == []
    plan.write_text(text)
    assert [item["name"] for item in looked(world, 0, "--repair")["repaired"]] == ["tiny-wheel"]
    assert looked(world, 0)["damaged"] == []


@pytest.mark.parametrize("name", [".lock", ".lock.owner", "journal.db", "resolved.json", "build/plan.json"])
def test_a_pipe_in_place_of_a_file_is_named_and_nobody_waits_for_it(world: SmallWorld, name: str) -> None:
    path, aside = world.workspace / name, world.folder / "aside"
    if path.exists():
        path.rename(aside)
    os.mkfifo(path)
    try:
        result = world.install()
        assert result.status == 40, result.err
        assert f"{path} is a named pipe" in " ".join(result.err.split())
        assert world("status", "--workspace", str(world.workspace)).status in (0, 2, 40)
    finally:
        path.unlink(missing_ok=True)
        if aside.exists():
            aside.rename(path)


def test_the_owners_note_is_not_written_through_a_link(world: SmallWorld) -> None:
    mine = world.folder / "mine.txt"
    mine.write_text("mine")
    (world.workspace / ".lock.owner").symlink_to(mine)
    assert world.install().status == 0
    assert mine.read_text() == "mine"


def test_a_link_that_leads_nowhere(world: SmallWorld) -> None:
    """In place of a wheel it is a wheel that is gone; where pip would write through it, it is refused."""
    wheel = world.workspace / "wheels/mine-1.0-py3-none-any.whl"
    wheel.unlink()
    wheel.symlink_to("/nowhere/at all")
    assert world.install().status == 0
    assert not wheel.is_symlink()
    (report,) = world.workspace.glob("build/requirements/tiny+*.installed.json")
    text = report.read_bytes()
    report.unlink()
    report.symlink_to("/nowhere/at all")
    result = world.install()
    report.unlink()
    report.write_bytes(text)
    assert (result.status, f"{report} is a link" in " ".join(result.err.split())) == (40, True), result.err


def test_an_installed_file_is_found_by_all_and_made_anew(world: SmallWorld) -> None:
    module = world.site / "tiny.py"
    cached = world.folder / "linked.py"
    zeroed(module)
    os.link(module, cached)
    (damage,) = looked(world, 60)["damaged"]
    assert (damage["kind"], damage["name"]) == ("package", "tiny-wheel")
    assert "tiny.py" in damage["why"]
    assert world("verify", "--workspace", str(world.workspace)).status == 60
    plan = json.loads(world("plan", str(world.recipe), "--workspace", str(world.workspace), "--json").out)
    assert [step["id"] for step in plan["steps"] if step["state"] == "to-do"] == ["tiny", "verify"]
    document = looked(world, 0, "--repair")
    assert [item["name"] for item in document["repaired"]] == ["tiny-wheel"]
    assert module.read_text().startswith("version")
    assert cached.read_bytes() == bytes(cached.stat().st_size), "it was written through a hard link"


def test_install_sees_it_too_and_does_not_believe_pip(world: SmallWorld) -> None:
    """To pip, a package of the right version is installed, whatever its files hold."""
    zeroed(world.site / "tiny_data.py")
    zeroed(world.site / "mine.py")
    result = world.install("--json")
    assert result.status == 0, result.err
    assert json.loads(result.out)["ran"] == ["tiny", "mine.install"]
    assert "made again" in result.err
    assert looked(world, 0)["damaged"] == []


def test_a_damaged_wheel_is_not_handed_out_and_is_built_again(world: SmallWorld) -> None:
    zeroed(world.wheel)
    (damage,) = looked(world, 60)["damaged"]
    assert (damage["kind"], damage["step"]) == ("wheel", "mine.wheel")
    document = looked(world, 0, "--repair")
    assert document["repaired"][0]["name"] == world.wheel.name
    assert world.wheel.read_bytes()[:2] == b"PK"


def test_what_nobody_installed_is_named(world: SmallWorld) -> None:
    planted, other = world.site / "zz.pth", world.site / "notes.txt"
    planted.write_text("import os\n")
    other.write_text("mine\n")
    try:
        document = looked(world, 60)
        assert [item["path"] for item in document["damaged"]] == [str(planted)]
        assert document["unowned"] == [str(other)]
        shown = world("check", str(world.workspace), "--repair")
        assert (shown.status, planted.exists()) == (60, True)
        assert f"rm {shlex.quote(str(planted))}" in shown.err
    finally:
        planted.unlink()
        other.unlink()


def planted(folder: Path, name: str, text: str = "x = 1\n") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


#: What somebody puts there -> what it is; "" for what may be the user's and hides nothing.
BESIDE = {
    "tiny/__init__.py": "shadowing file",
    "tiny/other.txt": "shadowing file",
    "tiny.cpython-311-x86_64-linux-gnu.so": "shadowing file",
    "tiny.pyc": "shadowing file",
    "pip/__main__/x.py": "shadowing file",
    "sitecustomize.py": "start-up file",
    "usercustomize/__init__.py": "start-up file",
    "../../../bin/tiny.py": "shadowing file",
    "../../../bin/git": "shadowing file",
    "../../../include/stdio.h": "shadowing file",
    "../../../lib/libx.so": "shadowing file",
    "../../../lib/cmake/x/xConfig.cmake": "shadowing file",
    "../../../share/cmake-3.31/x.cmake": "shadowing file",
    "pip/_vendor/include/stdio.h": "shadowing file",
    "pip/mine.py": "",
    "own/include/own.h": "",
    "tiny.pyi": "",
    "../../../bin/of-mine-alone": "",
}


def test_what_would_be_imported_or_run_in_place_of_ours_is_damage(world: SmallWorld) -> None:
    paths = {Path(os.path.normpath(world.site / name)): kind for name, kind in BESIDE.items()}
    there = {path.parent for path in paths if path.parent.exists()}
    for path in paths:
        planted(path.parent, path.name)
    try:
        document = looked(world, 60)
        assert {Path(item["path"]): item["kind"] for item in document["damaged"]} == {
            path: kind for path, kind in paths.items() if kind
        }
        assert sorted(document["unowned"]) == sorted(str(path) for path, kind in paths.items() if not kind)
        assert world("verify", "--workspace", str(world.workspace)).status == 60
    finally:
        for path in paths:
            path.unlink() if path.parent in there else shutil.rmtree(path.parent, ignore_errors=True)


@pytest.mark.parametrize("name", ["bin/python", "pyvenv.cfg"])
def test_an_interpreter_and_its_settings_are_restored_and_the_packages_stay(
    world: SmallWorld, name: str
) -> None:
    path = world.workspace / "env" / name
    before = path.read_bytes()
    text = before.decode().replace("= false", "= true") if name == "pyvenv.cfg" else "#!/bin/sh\n"
    for repair in (True, False):
        path.unlink()
        planted(path.parent, path.name, text).chmod(0o755)
        (damage,) = looked(world, 60)["damaged"]
        assert (damage["kind"], damage["path"], damage["step"]) == ("environment", str(path), "env")
        assert world("verify", "--workspace", str(world.workspace)).status == 60
        plan = world("plan", str(world.recipe), "--workspace", str(world.workspace), "--json")
        assert "env" in [step["id"] for step in json.loads(plan.out)["steps"] if step["state"] == "to-do"]
        if repair:
            assert looked(world, 0, "--repair")["repaired"][0]["path"] == str(path)
        else:
            assert json.loads(world.install("--json").out)["ran"] == ["env"]
        assert path.read_bytes() == before
    assert looked(world, 0)["damaged"] == []


def resealed(world: SmallWorld) -> None:
    """Change a file of a package, and its line in RECORD with it."""
    (record,) = world.site.glob("tiny_wheel-*.dist-info/RECORD")
    data = b"version = 'other'\n"
    (world.site / "tiny.py").write_bytes(data)
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    line = f"tiny.py,sha256={digest},{len(data)}"
    record.write_text(re.sub("(?m)^tiny.py,.*$", line, record.read_text()))


def test_a_file_that_was_changed_with_its_record_is_damage(world: SmallWorld) -> None:
    resealed(world)
    (damage,) = looked(world, 60)["damaged"]
    assert (damage["kind"], damage["name"], damage["step"]) == ("package", "tiny-wheel", "tiny")
    assert [item["name"] for item in looked(world, 0, "--repair")["repaired"]] == ["tiny-wheel"]
    resealed(world)
    assert json.loads(world.install("--json").out)["ran"] == ["tiny"]
    assert (looked(world, 0)["damaged"], (world.site / "tiny.py").read_text()[:7]) == ([], "version")
    assert "other" not in (world.site / "tiny.py").read_text()


def test_a_distribution_of_the_users_is_listed_and_no_damage_unless_it_hides_ours(world: SmallWorld) -> None:
    for module, damaged in (("guest", False), ("tiny/__init__", True)):
        folder = world.folder / f"wheels-{damaged}"
        folder.mkdir()
        made = wheel(folder, "guest", "1.0", f"{module}.py")
        pip = [str(world.workspace / "env/bin/python"), "-m", "pip"]
        subprocess.run([*pip, "install", "--no-index", "--no-deps", made], check=True, capture_output=True)
        document = looked(world, 60 if damaged else 0)
        assert [item["name"] for item in document["damaged"]] == (["guest"] if damaged else [])
        assert document["unowned"] == [str(world.site / "guest-1.0.dist-info")]
        # Nothing would install it again, so a repair leaves it as it is.
        with (world.site / f"{module}.py").open("a") as stream:
            stream.write("# an edit\n")
        assert world("check", str(world.workspace), "--repair").status == 60
        assert (world.site / f"{module}.py").read_text().endswith("# an edit\n")
        subprocess.run([*pip, "uninstall", "--yes", "guest"], check=True, capture_output=True)
    assert looked(world, 0)["unowned"] == []


def test_a_damaged_source_is_made_anew_and_an_edit_is_kept(world: SmallWorld) -> None:
    source = world.workspace / "src" / "mine"
    zeroed(source / "mine.py")
    with (source / "backend.py").open("a") as stream:
        stream.write("# an edit\n")
    document = looked(world, 31)
    assert [item["path"] for item in document["damaged"]] == [str(source / "mine.py")]
    assert document["edited"] == [str(source / "backend.py")]
    assert looked(world, 0, "--repair")["edited"] == [str(source / "backend.py")]
    assert (source / "mine.py").read_text() == "import tiny\n"
    text = (source / "backend.py").read_text()
    assert text.endswith("# an edit\n")
    # The same truth: what install will refuse is nothing that the plan calls done.
    plan = json.loads(world("plan", str(world.recipe), "--workspace", str(world.workspace), "--json").out)
    (step,) = (step for step in plan["steps"] if step["id"] == "mine.source")
    assert (step["state"], "exit code 31" in step["reason"]) == ("to-do", True)
    assert world.install().status == 31
    (source / "backend.py").write_text(text.removesuffix("# an edit\n"))


def test_a_damaged_repository_of_the_cache_is_found(world: SmallWorld) -> None:
    cache = Path(os.environ["XDG_CACHE_HOME"]) / "xpubuild" / "git"
    source = load(str(world.recipe)).recipe.components["mine"].source
    assert source is not None
    # Other tests may have repositories of the same name there, of other servers.
    (pack,) = (cache / mirror_name(source.url or "", 40)).glob("objects/pack/*.pack")
    pack.chmod(0o644)
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 1
    pack.write_bytes(data)
    (damage,) = looked(world, 31)["damaged"]
    assert damage["kind"] == "repository"
    assert looked(world, 0, "--repair")["repaired"][0]["kind"] == "repository"


def test_verify_does_not_test_what_another_process_changes(world: SmallWorld) -> None:
    with workspace_lock(world.workspace, command="xpubuild install small"):
        told = world("verify", "--workspace", str(world.workspace), "--device", "cpu")
    assert told.status == 75
    assert "xpubuild install small" in told.err


def test_a_workspace_that_became_editable_is_sound(world: SmallWorld) -> None:
    """The wheel of the install before is still there, and is not what is installed now."""
    assert world.install("--editable").status == 0
    assert not (world.site / "mine.py").exists()
    assert looked(world, 0)["damaged"] == []
    zeroed(world.site / "mine.pth")
    assert [item["name"] for item in looked(world, 0, "--repair")["repaired"]] == ["mine"]
    assert (world.site / "mine.pth").read_text().endswith("/src/mine")
