"""Wheels of what is installed, from a folder or from where pip took them, and the folder of --wheel-dir."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from integration.test_components_held import wheel
from support.artifacts import unzip

from xpubuild.artifacts.site_packages import InstalledDist, installed_dists
from xpubuild.engine.process import Cancel
from xpubuild.errors import AuditError
from xpubuild.install import wheel_folder
from xpubuild.install.prebuilt_wheels import Origin, Supply, _hashes, origins_of
from xpubuild.install.wheel_folder import WheelFolder, needed
from xpubuild.workspace.layout import Layout


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def install(site: Path, source: Path) -> InstalledDist:
    for name, data in unzip(source).items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_bytes(data)
    return next(
        item for item in installed_dists(site) if item.info.name.startswith(source.name.split("-")[0])
    )


class World:
    """A site-packages with two distributions, of which one needs the other, and their wheels."""

    def __init__(self, root: Path) -> None:
        self.root, self.site, self.there = root, root / "site", root / "there"
        self.folder = root / "wheels to share"
        self.there.mkdir()
        self.folder.mkdir()
        self.tiny = wheel(self.there, "tiny-wheel", "1.0+cpu", "tiny.py", requires="Other_Wheel>=1")
        self.other = wheel(self.there, "other-wheel", "2.0", "other.py")
        self.dists = {path.name: install(self.site, path) for path in (self.tiny, self.other)}
        self.dist = self.dists[self.tiny.name]
        self.supply = Supply(Path(sys.executable), self.site, {}, (), None, offline=True, cancel=Cancel())


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_wheel_counts_if_it_is_what_is_installed(world: World) -> None:
    folder, supply = world.folder, world.supply
    assert supply.bring(world.dist, folder) is None
    (folder / "no wheel.whl").touch()
    (folder / "tiny_wheel-x-py3-none-any.whl").touch()
    copy = folder / world.tiny.name
    copy.write_bytes(world.tiny.read_bytes())
    assert supply.bring(world.dist, folder) == copy
    assert supply.bring(replace(world.dist, version="1.1"), folder) is None
    assert supply.bring(replace(world.dist, name="other"), folder) is None
    for known, fits in ((sha256(copy), True), ("0" * 64, False)):
        found = replace(supply, origins={"tiny-wheel": Origin("file:///none", known)})
        assert found._is_it(copy, world.dist) == fits
    # Without a hash the wheel's own RECORD has to hold.
    (world.site / "tiny.py").write_text("another build")
    assert supply.bring(world.dist, folder) is None
    copy.write_bytes(b"no archive")
    assert not supply._is_it(copy, world.dist)


def test_a_wheel_comes_from_where_pip_took_it(world: World) -> None:
    folder, cancel = world.folder, Cancel()
    origins = {"tiny-wheel": Origin(world.tiny.as_uri(), sha256(world.tiny))}
    found = replace(world.supply, origins=origins, cancel=cancel).bring(world.dist, folder)
    assert found == folder / world.tiny.name
    assert sorted(path.name for path in folder.iterdir()) == [world.tiny.name]
    found.unlink()
    # Offline nothing but a file is asked for.
    away = replace(world.supply, origins={"tiny-wheel": Origin("https://host.invalid/x.whl", "")})
    asked: list[str] = []
    object.__setattr__(away, "_download", lambda requirement, _: asked.append(requirement))
    assert away.bring(world.dist, folder) is None
    assert asked == []
    online = replace(away, offline=False)
    object.__setattr__(online, "_download", lambda requirement, _: asked.append(requirement))
    assert online.bring(world.dist, folder) is None
    assert asked == ["tiny-wheel @ https://host.invalid/x.whl", "tiny-wheel==1.0+cpu"]
    asked.clear()
    object.__setattr__(online, "origins", {"tiny-wheel": Origin("https://host.invalid/x.whl", "a")})
    online.bring(world.dist, folder)
    assert asked[0] == "tiny-wheel @ https://host.invalid/x.whl#sha256=a"


TEXT = f"""\
tiny.wheel==1.0 --hash=sha256:{"1" * 64}
Tiny-Wheel==1.0+cpu \\
    --hash=sha256:{"2" * 64} \\
    --hash=sha256:{"3" * 64}
tiny-wheel==1.0+cpu ; python_version > "3" --hash=sha256:{"4" * 64}
other==1.0+cpu --hash=sha256:{"5" * 64}
# tiny-wheel==1.0+cpu --hash=sha256:{"6" * 64}
"""


def test_hashes_are_those_that_pip_reported_or_that_files_have(world: World) -> None:
    expected = ("2" * 64, "3" * 64, "4" * 64)
    assert tuple(_hashes(TEXT, world.dist)) == expected
    supply = replace(world.supply, texts=(TEXT, TEXT.replace("4" * 64, "7" * 64)))
    assert supply.hashes(world.dist) == (*expected, *expected[:2], "7" * 64)
    assert replace(supply, origins={"tiny-wheel": Origin("u", "a")}).hashes(world.dist) == ("a",)
    assert replace(supply, origins={"tiny-wheel": Origin("u", "")}).hashes(world.dist)[:3] == expected


def test_what_pip_reported(tmp_path: Path) -> None:
    items = [
        {"metadata": {"name": "A_b"},
         "download_info": {"url": "u", "archive_info": {"hashes": {"sha256": "x"}}}},
        {"metadata": {"name": "c"}, "download_info": {"url": "v"}}, {"metadata": {"name": "d"}},
    ]  # fmt: skip
    (tmp_path / "one").write_text(json.dumps({"install": items}))
    (tmp_path / "two").write_text("{")
    (tmp_path / "three").write_text("{}")
    reports = [tmp_path / name for name in ("one", "two", "three", "none")]
    assert origins_of(reports) == {"a-b": Origin("u", "x"), "c": Origin("v", "")}


def filled(world: World, supply: Supply, built: tuple[str, ...] = ()) -> dict[str, Any]:
    folder = WheelFolder(
        world.folder / "new", Layout(world.root), world.site, ["tiny.wheel"], built, supply, Cancel()
    )
    wheels = [{"name": "other-wheel", "path": str(world.other), "sha256": sha256(world.other)}]
    return folder.fill({"wheels": wheels})


def test_the_folder_has_wheels_hashes_and_links(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [dist.name for dist in needed(world.site, ["Tiny_Wheel"])] == ["other-wheel", "tiny-wheel"]
    assert [dist.name for dist in needed(world.site, ["other-wheel", "none"])] == ["other-wheel"]
    ran: list[tuple[list[str], dict[str, str]]] = []

    class _Result:
        ok, tail = True, ("",)

    def run(argv: list[str], env: dict[str, str], **_: object) -> _Result:
        ran.append((argv, env))
        return _Result()

    monkeypatch.setattr(wheel_folder, "run", run)
    supply = replace(world.supply, origins={"tiny-wheel": Origin(world.tiny.as_uri(), sha256(world.tiny))})
    new = world.folder / "new"
    command = (
        f"python -m pip install --no-index --find-links '{new}' --require-hashes -r '{new}/requirements.txt'"
    )
    names = [world.other.name, world.tiny.name]
    assert filled(world, supply) == {
        "folder": str(new), "wheels": names, "not_copied": [], "command": command,
    }  # fmt: skip
    hashes = {path.name: sha256(path) for path in (world.other, world.tiny)}
    assert (new / "requirements.txt").read_text() == (
        f"# Install in an empty environment:\n#   {command}\n\n"
        f"other-wheel==2.0 --hash=sha256:{hashes[names[0]]}\n"
        f"tiny-wheel==1.0+cpu --hash=sha256:{hashes[names[1]]}\n"
    )
    quoted = names[1].replace("+", "%2B")
    assert (new / "index.html").read_text() == (
        "<!DOCTYPE html>\n<title>Wheels</title>\n"
        f'<a href="{names[0]}#sha256={hashes[names[0]]}">{names[0]}</a><br>\n'
        f'<a href="{quoted}#sha256={hashes[names[1]]}">{names[1]}</a><br>\n'
    )
    ((argv, env),) = ran
    assert argv == [
        f"{world.root}/env/bin/python", "-I", "-m", "pip", "--isolated", "install", "--dry-run",
        "--ignore-installed", "--disable-pip-version-check", "--no-input", "--quiet", "--no-index",
        "--find-links", str(new), "--require-hashes", "-r", f"{new}/requirements.txt",
    ]  # fmt: skip
    assert env["PIP_CONFIG_FILE"] == "/dev/null"
    _Result.ok, _Result.tail = False, ("one", " ", "word " * 200)
    with pytest.raises(AuditError):
        filled(world, supply)


def test_what_cannot_be_had_is_in_the_requirements_alone(world: World) -> None:
    for built, hashes in ((("tiny-wheel",), ("a",)), ((), ("a",)), ((), ())):
        texts = tuple(f"tiny-wheel==1.0+cpu --hash=sha256:{name * 64}" for name in hashes)
        found = filled(world, replace(world.supply, texts=texts), built)
        assert (found["wheels"], found["not_copied"]) == ([world.other.name], ["tiny-wheel==1.0+cpu"])
        assert "--no-index" not in found["command"]
        *_, last = (world.folder / "new" / "requirements.txt").read_text().splitlines()
        pins = (
            f"tiny-wheel==1.0+cpu --hash=sha256:{'a' * 64}" if hashes else "# no wheel: tiny-wheel==1.0+cpu"
        )
        assert pins in (world.folder / "new" / "requirements.txt").read_text().splitlines(), last
    world.other.write_bytes(b"x")
    folder = WheelFolder(world.folder, Layout(world.root), world.site, [], (), world.supply, Cancel())
    with pytest.raises(AuditError):
        folder.fill({"wheels": [{"name": "x", "path": str(world.other), "sha256": "0" * 64}]})
