"""The real uv links what a hashed requirement file names, from indexes on loopback and from a mirror."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from integration.test_components_held import pins, wheel
from support.artifacts import pack
from support.cli import XPUBUILD, Result, here
from support.documents import check
from support.indexes import PackageIndex, noise

from xpubuild.artifacts.installed import InstalledProof, installed_stamp
from xpubuild.artifacts.installed_repair import NOTE, Note, read_note, remove_dist, repair, write_note
from xpubuild.artifacts.site_packages import installed_dists, site_packages_of
from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import Cancel
from xpubuild.errors import ToolchainError
from xpubuild.machine.make_env import make_env
from xpubuild.machine.pythons import resolve_python
from xpubuild.supply.index.pipconf import find_uv, links_page, offline_environment
from xpubuild.supply.uv.install import Installation

FILES = {
    "demo/__init__.py": b"x = 1\n",
    "demo/big.bin": noise(60_000),
    "demo-1.0.data/scripts/demo": b"#!python\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spaces änd more")


@pytest.fixture(scope="module")
def envs(folder: Path) -> tuple[Path, Path]:
    """Two environments on the file system of the cache."""
    python = resolve_python(None, base_environment())
    for name in ("one env", "two"):
        make_env(folder / name, python)
    return folder / "one env", folder / "two"


@pytest.fixture
def index(folder: Path, envs: tuple[Path, Path]) -> Iterator[PackageIndex]:
    with PackageIndex(login="me:pass%20word".replace("%20", " ")) as served:
        yield served
    for env in envs:
        for dist in installed_dists(site_packages_of(env)):
            if dist.name != "pip":
                remove_dist(site_packages_of(env), dist.name)
        (env / NOTE).unlink(missing_ok=True)


class Demo:
    """A wheel on an index, and its installation with a cache of its own."""

    def __init__(self, folder: Path, index: PackageIndex, *, tag: str = "py3-none-any") -> None:
        self.folder, self.index = folder, index
        self.wheel = pack(folder / "built", "demo", "1.0", FILES, tag=tag)
        self.said: list[str] = []
        index.add(self.wheel.name, self.wheel.read_bytes())
        self.requirements = folder / "pinned é.txt"
        self.requirements.write_text(pins(self.wheel), "utf-8")

    def environment(self, **more: str) -> dict[str, str]:
        mine = {name: value for name, value in base_environment().items() if not name.startswith("PIP_")}
        url = self.index.url("me:pass%20word")
        return {**mine, "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": url, "PIP_RETRIES": "0", **more}

    def wish(self, env: Path, variables: dict[str, str] | None = None, **more: Any) -> Installation:
        uv = find_uv()
        assert not uv.why
        version = ".".join(map(str, sys.version_info[:3]))
        report = self.folder / f"{env.name}.json"
        pips = self.environment(**(variables or {}))
        given = (env, self.requirements, uv.path, self.folder / "cache", report, version)
        return Installation(*given, pips, Cancel(), self.said.append, **more)

    def install(
        self, env: Path, *, variables: dict[str, str] | None = None, **more: Any
    ) -> list[dict[str, Any]]:
        """Install; return what the report says."""
        wish = self.wish(env, variables, **more)
        wish.perform()
        found: list[dict[str, Any]] = json.loads(wish.report.read_text())["install"]
        return found

    def fetched(self) -> int:
        return len(self.index.asked(".whl"))


@pytest.fixture
def demo(tmp_path: Path, index: PackageIndex) -> Demo:
    return Demo(tmp_path, index)


def big(env: Path) -> Path:
    return site_packages_of(env) / "demo" / "big.bin"


def proof(env: Path) -> InstalledProof:
    return InstalledProof(str(site_packages_of(env)), ("demo==1.0",))


def stamp(env: Path) -> int:
    return installed_stamp(site_packages_of(env), ["demo"])


def test_the_second_environment_has_the_files_of_the_first_which_takes_no_notice(
    demo: Demo, envs: tuple[Path, Path]
) -> None:
    one, two = envs
    (item,) = demo.install(one)
    archive = item["download_info"]["archive_info"]
    assert archive["hashes"]["sha256"] in demo.requirements.read_text("utf-8")
    assert (item["metadata"]["name"], item["metadata"]["version"]) == ("demo", "1.0")
    assert item["download_info"]["url"] == f"{demo.index.at()}/files/{demo.wheel.name}"
    before, changed, asked = stamp(one), big(one).stat().st_ctime_ns, len(demo.index.requests)
    (again,) = demo.install(two)
    assert again == item
    assert len(demo.index.requests) == asked > 0
    assert big(one).samefile(big(two))
    # The link has set the change time of the file that both have.
    assert big(one).stat().st_ctime_ns > changed
    assert stamp(one) == before
    assert [proof(env).check()["installed"]["demo==1.0"]["problems"] for env in envs] == [[], []]
    # What is made for one environment is no link: scripts, RECORD, INSTALLER.
    for name in ("demo-1.0.dist-info/RECORD", "demo-1.0.dist-info/INSTALLER", "../../../bin/demo"):
        assert (site_packages_of(one) / name).stat().st_nlink == 1, name
    assert demo.install(two) == []
    assert not list(two.glob(".lock"))
    assert "pass" not in "".join(demo.said)


def test_another_file_in_its_place_and_a_later_change_are_noticed(
    demo: Demo, envs: tuple[Path, Path]
) -> None:
    one, two = envs
    demo.install(one)
    demo.install(two)
    before = stamp(one)
    path, status = big(one), big(one).stat()
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes()[::-1])
    os.link(copy, copy.with_name("second name"))
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
    copy.replace(path)
    assert stamp(one) != before
    before = stamp(two)
    with big(two).open("r+b") as stream:
        stream.write(b"flip")
    assert stamp(two) != before


def test_a_wheel_with_another_hash_is_refused_and_nothing_is_left(
    demo: Demo, envs: tuple[Path, Path]
) -> None:
    demo.index.add(
        demo.wheel.name,
        pack(demo.folder / "x", "demo", "1.0", {"demo/a.py": b""}, tag="py3-none-any").read_bytes(),
    )
    with pytest.raises(ToolchainError, match="uv could not install") as caught:
        demo.install(envs[0])
    assert "ismatch" in caught.value.why or "failed" in caught.value.why.lower(), caught.value.why
    assert {dist.name for dist in installed_dists(site_packages_of(envs[0]))} == {"pip"}
    assert read_note(site_packages_of(envs[0])) == Note()


def test_of_several_hashes_the_report_has_the_one_that_was_installed(
    demo: Demo, envs: tuple[Path, Path]
) -> None:
    other = pack(demo.folder / "other", "demo", "1.0", {"demo/b.py": b""}, tag="py3-none-win32")
    text = f"{pins(demo.wheel).strip()} {pins(other).split()[1]}\n"
    demo.requirements.write_text(text, "utf-8")
    (item,) = demo.install(envs[0])
    assert (
        f"--hash=sha256:{item['download_info']['archive_info']['hashes']['sha256']}"
        == pins(demo.wheel).split()[1]
    )


def test_constraints_are_kept_and_the_recipes_index_comes_last(demo: Demo, envs: tuple[Path, Path]) -> None:
    held = demo.folder / "held ü.txt"
    held.write_text("# RECORD sha256=0\ndemo==1.0\ntriton<0\n", "utf-8")
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple"}
    login = demo.index.url("me:pass%20word")
    with PackageIndex() as empty:
        demo.install(envs[0], variables={"PIP_INDEX_URL": empty.url()}, constraints=(held,), indexes=(login,))
        assert empty.asked("/simple/demo/")
    held.write_text("demo==2.0\n")
    with pytest.raises(ToolchainError, match=r"demo==1\.0 is not what .* allows"):
        demo.install(envs[1], variables=nowhere, constraints=(held,))


def test_a_mirror_is_enough_and_nothing_else_is_asked(demo: Demo, envs: tuple[Path, Path]) -> None:
    mirror = demo.folder / "my mirror é"
    (mirror / "files").mkdir(parents=True)
    (mirror / "files" / demo.wheel.name).write_bytes(demo.wheel.read_bytes())
    sha256 = pins(demo.wheel).rpartition(":")[2].strip()
    page = mirror / "wheels.html"
    page.write_text(links_page([(f"files/{demo.wheel.name}", demo.wheel.name, sha256)]), "utf-8")
    (item,) = demo.install(envs[0], variables=offline_environment(page))
    assert item["download_info"]["archive_info"]["hashes"]["sha256"] == sha256
    assert demo.index.requests == []


def test_a_record_that_was_cut_short_is_taken_for_unfinished(demo: Demo, envs: tuple[Path, Path]) -> None:
    """uv sorts RECORD: a part of it may have the line that tells a finished installation from another."""
    site = site_packages_of(envs[0])
    demo.install(envs[0])
    record = site / "demo-1.0.dist-info" / "RECORD"
    lines = record.read_text().splitlines(keepends=True)
    cut = next(number for number, line in enumerate(lines) if "/INSTALLER," in line) + 1
    record.write_text("".join(lines[:cut]))
    assert repair(site) == []  # it looks whole
    write_note(site, Note(unfinished=frozenset({"demo"})))
    (removed,) = repair(site)
    assert "uv was interrupted" in removed
    (item,) = demo.install(envs[0])
    assert item["metadata"]["name"] == "demo"
    assert proof(envs[0]).check()["installed"]["demo==1.0"]["files"] == len(lines)


def test_a_uv_that_is_killed_leaves_nothing_wrong(demo: Demo, envs: tuple[Path, Path]) -> None:
    """Killed with the file half there, with what started it: the same command ends well."""
    waiting = threading.Event()
    demo.index.faults.stall = waiting
    demo.index.faults.cut_after[f"/files/{demo.wheel.name}"] = [1000] * 9
    wish = demo.wish(envs[0])
    words = [str(wish.env), str(wish.requirements), "--uv", wish.uv, "--cache", str(wish.cache), "--report",
             str(wish.report), "--python-version", wish.python_version]  # fmt: skip
    argv = [*XPUBUILD, "plumbing", "link-packages", *words]
    environment = demo.environment()
    child = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 60
        while not demo.fetched() and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        child.send_signal(signal.SIGKILL)
        output = child.communicate()[0]
        waiting.set()
        demo.index.faults.cut_after.clear()
    assert demo.fetched(), output
    assert read_note(site_packages_of(envs[0])).unfinished == {"demo"}
    assert not wish.report.exists()
    repair(site_packages_of(envs[0]))
    done = subprocess.run(argv, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert proof(envs[0]).check()
    assert json.loads(wish.report.read_text())["install"][0]["metadata"]["name"] == "demo"


def test_a_cache_of_another_form_leaves_the_work_to_pip(
    demo: Demo, envs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xpubuild.supply.uv.install._POINTERS", (".of-another-uv",))
    with pytest.raises(ToolchainError, match="is not known"):
        demo.install(envs[0])
    assert {dist.name for dist in installed_dists(site_packages_of(envs[0]))} == {"pip"}


# ---- Two workspaces whose packages uv links from one cache: a no-op, damage through a link, its repair


RECIPE = """
schema: 1
name: linked
title: one package
target: cpu
needs: {disk_gib: 0.01}
toolchain: {requirements: []}
components:
  tiny: {kind: wheel, dist: tiny-wheel, version: 1.0+cpu, requirements: tiny.txt}
"""


@dataclass
class World:
    """A recipe, its index, and workspaces beside each other."""

    folder: Path
    index: PackageIndex

    def __call__(self, *words: str) -> Result:
        variables = {"PIP_INDEX_URL": self.index.url(), "PIP_CONFIG_FILE": os.devnull, "PIP_RETRIES": "0"}
        return here(*words, XPUBUILD_INSTALLER="auto", **variables)

    def install(self, name: str) -> dict[str, object]:
        words = ("install", str(self.folder / "linked.yaml"), "--workspace", str(self.folder / name))
        result = self(*words, "--until", "tiny", "--json")
        assert result.status == 0, result.err
        return result.document()

    def file(self, name: str) -> Path:
        (found,) = (self.folder / name).glob("env/lib/python3*/site-packages/tiny.py")
        return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("linked")
    tiny = wheel(folder / "built", "tiny-wheel", "1.0+cpu", "tiny.py", body="filler = 1\n" * 50)
    (folder / "linked.yaml").write_text(RECIPE)
    (folder / "tiny.txt").write_text(pins(tiny))
    with PackageIndex() as index:
        index.add(tiny.name, tiny.read_bytes())
        made = World(folder, index)
        made.install("one")
        fetched = index.asked(".whl")
        made.install("two")
        assert index.asked(".whl") == fetched
        yield made


def test_a_second_workspace_asks_nobody_and_the_first_stays_as_it_was(world: World) -> None:
    assert world.file("one").samefile(world.file("two"))
    assert world.install("one")["ran"] == []
    receipt = json.loads((world.folder / "two" / "receipt.json").read_text())
    (item,) = receipt["prebuilt"]
    assert f"sha256:{item['sha256']}" in (world.folder / "tiny.txt").read_text()
    assert any("link-packages" in command["argv"] for command in receipt["commands"])
    assert not any("install" in command["argv"][:6] for command in receipt["commands"])


def test_damage_through_a_link_is_found_in_both_workspaces_and_repaired_in_each(world: World) -> None:
    """The next install sees the file's new time; check would also see damage that has the old one."""
    sound = world.file("one").read_bytes()
    with world.file("one").open("r+b") as stream:
        stream.write(bytes([sound[0] ^ 1]))
    looked = world("check", str(world.folder / "one"), "--json")
    assert looked.status == 60, looked.err
    (damage,) = check(looked.document(), "check")["damaged"]
    assert damage["name"] == "tiny-wheel"
    repaired = world("check", str(world.folder / "one"), "--repair", "--json")
    assert repaired.status == 0, repaired.err
    assert world.file("one").read_bytes() == sound
    # Its own file still has the damage: nothing was written through the link.
    assert world.file("two").read_bytes() != sound
    assert world.install("two")["ran"] == ["tiny"]
    assert world.file("two").read_bytes() == sound
    assert world.file("one").samefile(world.file("two"))
